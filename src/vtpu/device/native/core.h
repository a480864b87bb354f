/* The native core of the virtual slice: what the ABI's opaque handles are.
 *
 * Everything JAX asks per array or per execution is answered here, without Python, from what was
 * computed once. Python is called ("upcalls") for what is rare: making a client, compiling, an
 * unknown layout, host callbacks. Destroying a handle never runs Python: it happens while an
 * exception is pending and after the interpreter is gone.
 *
 * Sizes are bytes. One mutex (vt_lock) guards buffers, memories and the event log; it is never held
 * while Python runs, so whoever needs the interpreter's lock takes that first.
 */
#ifndef VTPU_CORE_H
#define VTPU_CORE_H

#include <pthread.h>
#include <stdbool.h>

#include "arena.h"
#include "host_time.h"
#include "leaving.h"
#include "pjrt.h"

/* ---- shapes: element type, dimensions and layout; interned, never freed ---- */

typedef struct vt_shape {
  uint32_t id;
  PJRT_Buffer_Type type;
  size_t rank;
  int64_t *dims;
  int64_t logical_bytes; /* as the host holds it: dense, one element of 2 or 4 bits per byte */
  int64_t device_bytes;  /* in its layout, padding included */
  PJRT_Buffer_MemoryLayout layout;
  char *layout_text; /* as XLA prints it: {1,0:T(8,128)} */
  size_t layout_text_size;
  uint64_t hash;
} vt_shape;

/* The shape of an array that arrives without a layout: libtpu's default for the slice's chips.
 * NULL and *error when the compiler cannot say. */
const vt_shape *vt_shape_default(PJRT_Buffer_Type type, const int64_t *dims, size_t rank,
                                 PJRT_Error **error);
/* The shape with the layout `layout`, which may be NULL for the default. */
const vt_shape *vt_shape_with_layout(PJRT_Buffer_Type type, const int64_t *dims, size_t rank,
                                     const PJRT_Buffer_MemoryLayout *layout, PJRT_Error **error);
/* Interns a shape. Array arguments are copied. `is_default`: also found by vt_shape_default. */
const vt_shape *vt_shape_intern(PJRT_Buffer_Type type, const int64_t *dims, size_t rank,
                                const char *layout_text, size_t layout_text_size,
                                const PJRT_Buffer_MemoryLayout_Tiled *tiled, int64_t logical_bytes,
                                int64_t device_bytes, bool is_default);
size_t vt_shape_count(void);
const vt_shape *vt_shape_at(size_t id);
void vt_layout_text(const PJRT_Buffer_MemoryLayout_Tiled *tiled, PJRT_Buffer_Type type, char *out,
                    size_t size);

/* ---- errors ---- */

struct PJRT_Error {
  PJRT_Error_Code code;
  char *message;
  size_t message_size;
};

PJRT_Error *vt_error(PJRT_Error_Code code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
PJRT_Error *vt_no_memory(void);
void vt_error_free(PJRT_Error *error);
/* Bytes as XLA prints them: 512B, 1.5K, 2.00G. */
const char *vt_human_bytes(int64_t bytes, char out[32]);

/* ---- topology, devices, memories ---- */

enum { VT_DEVICE, VT_PINNED_HOST, VT_UNPINNED_HOST, VT_MEMORY_KINDS };
extern const char *const vt_memory_kind_names[VT_MEMORY_KINDS];

struct PJRT_MemoryDescription {
  int kind; /* VT_DEVICE, ... */
};

struct PJRT_DeviceDescription {
  int id;
  int process_index;
  char *kind, *debug_string, *to_string;
  PJRT_NamedValue *attributes;
  size_t num_attributes;
};

struct PJRT_TopologyDescription {
  char *name; /* canonical: v5e:4x4 */
  char *platform_version;
  char *serialized;
  size_t serialized_size;
  PJRT_DeviceDescription *device_storage;
  PJRT_DeviceDescription **devices;
  size_t num_devices;
  PJRT_NamedValue *attributes;
  size_t num_attributes;
  int references;
};

struct PJRT_Memory {
  int id;
  int kind;
  char debug_string[96];
  PJRT_Device *device;
  bool has_arena; /* device memory of an addressable device; host memory is counted, not placed */
  vt_arena arena;
  int64_t in_use, peak_in_use, limit;
  int64_t peak_reserved;           /* largest block reserved for a program's temporaries */
  int64_t peak_total;              /* largest sum of bytes in use and reserved */
  uint64_t peak_event;             /* the event at which peak_total was reached */
  int64_t num_allocations, largest_allocation;
};

struct PJRT_Device {
  PJRT_Client *client;
  PJRT_DeviceDescription *description;
  int local_hardware_id;
  bool is_addressable;
  char place[32]; /* 0x0x0_HBM0: chip coordinates and core, as messages name it */
  PJRT_Memory memories[VT_MEMORY_KINDS];
  PJRT_Memory *memory_list[VT_MEMORY_KINDS];
};

struct PJRT_Client {
  PJRT_TopologyDescription *topology;
  int process_index;
  PJRT_Device *device_storage;
  PJRT_Device **devices, **addressable;
  PJRT_Memory **memories;
  size_t num_devices, num_addressable, num_memories;
};

/* ---- executables ---- */

typedef struct vt_output {
  const vt_shape *shape;
  int memory_kind;
  int64_t alias; /* the parameter whose memory it takes when that is donated, or -1 */
} vt_output;

typedef struct vt_host_transfer { /* one channel between a program and the host */
  int64_t channel_id;
  bool is_send; /* from the device */
  PJRT_Buffer_Type type;
  int64_t bytes;
  int only_on; /* the one logical device that takes part, or -1 for all */
} vt_host_transfer;

struct PJRT_Executable {
  uint32_t program; /* its number in the recording */
  char *name;
  int num_replicas, num_partitions;
  vt_output *outputs;
  size_t num_outputs;
  const vt_shape **parameters;
  bool *is_donated;
  size_t num_parameters;
  vt_host_transfer *host_transfers;
  size_t num_host_transfers;
  int64_t temp_bytes;
  PJRT_Executable_GetCompiledMemoryStats_Args memory_stats;
  PJRT_NamedValue *costs;
  size_t num_costs;
  char *fingerprint, *hlo, *options, *serialized;
  size_t fingerprint_size, hlo_size, options_size, serialized_size;
  /* the answers that are arrays, laid out once */
  PJRT_Buffer_Type *output_types;
  int64_t *output_dims;
  size_t *output_ranks;
  const char **output_kinds;
  size_t *output_kind_sizes;
  PJRT_Layouts_MemoryLayout **output_layouts;
  int references;
};

struct PJRT_LoadedExecutable {
  PJRT_Executable *executable;
  PJRT_Client *client;
  PJRT_Device **addressable;
  int *logical_ids; /* of each addressable device: replica * num_partitions + partition */
  size_t num_addressable;
  char *assignment; /* serialized DeviceAssignmentProto */
  size_t assignment_size;
  bool is_deleted;
};

void vt_executable_release(PJRT_Executable *executable);
void vt_executable_unreference(PJRT_Executable *executable); /* the same for who holds the lock */
/* Numbers of programs whose executables are gone since the last call; returns how many of them were
 * written to `out`. Takes the lock. */
size_t vt_take_gone_programs(uint32_t *out, size_t most);
void vt_topology_release(PJRT_TopologyDescription *topology);

/* ---- buffers ---- */

typedef struct vt_value vt_value;   /* see values.h */
typedef struct vt_launch vt_launch;

struct PJRT_Buffer {
  const vt_shape *shape;
  PJRT_Memory *memory;
  vt_block *block; /* its place in the arena; NULL in host memory or without bytes */
  uint64_t id;
  bool is_deleted; /* by the user, or donated */
  bool holds_bytes;
  int external_references;
  void *host_bytes; /* real memory behind an external reference to host memory */
  void (*on_delete)(void *, void *); /* a view of foreign memory: how to give it back */
  void *on_delete_argument, *foreign;
  PJRT_Error_Code error_code; /* the contents never arrived; whoever looks gets this error */
  char *error_message;
  vt_value *value; /* its contents; NULL: unknown */
  uint64_t launch; /* the execution that last took it as an argument, and as which */
  size_t launch_argument;
  uint32_t execution, transfer; /* whose result it is, what filled it: their numbers, 0: none */
  int64_t ready_ns;             /* with pace: when its contents are there */
};

/* A buffer with memory of its own, its ALLOCATE event recorded. Takes the lock.
 * NULL and *error when the memory is full. */
PJRT_Buffer *vt_buffer_new(const vt_shape *shape, PJRT_Memory *memory, uint32_t stack,
                           PJRT_Error **error);

/* ---- the event log ---- */

enum vt_event_kind {
  VT_COMPILE = 1, VT_EXECUTE, VT_ALLOCATE, VT_FREE, VT_HOST_TO_DEVICE, VT_DEVICE_TO_HOST, VT_COPY,
  VT_CALLBACK, VT_FAILURE, VT_UNSUPPORTED, VT_WAIT, VT_PAUSE
};
enum vt_event_flag {
  VT_FLAG_KIND = 3,        /* bits 0-1: memory kind of the subject (of a copy: the destination) */
  VT_FLAG_SOURCE_SHIFT = 2,/* bits 2-3: memory kind of a copy's source */
  VT_FLAG_ALIASED = 16,    /* allocation in donated memory; free by donation */
  VT_FLAG_FABRICATED = 32, /* the host saw values that the slice did not compute */
  VT_FLAG_RESERVE = 64,    /* failure: of a program's temporaries, not of a buffer */
  VT_FLAG_ASSUMED = 128,   /* the host saw values that other hosts are taken to have */
  VT_FLAG_CACHED = 1,      /* compile: the result was known */
  VT_FLAG_FAILED = 2       /* compile: there is no result; execution: it did not happen */
};

typedef struct vt_event {
  int64_t time_ns;  /* since the recording began */
  int64_t host_ns;  /* how long the call kept the host, measured; -1 unknown */
  int64_t bytes;
  int64_t address;  /* in the arena, -1 none; of what the host sends see fingerprint.h */
  uint64_t subject; /* buffer */
  uint32_t stack;   /* 0: no Python frame */
  uint32_t program; /* 0: none */
  int32_t device;   /* global id, -1: all of the program's */
  uint32_t detail;  /* allocation, transfer: shape; unsupported: function; callback: channel */
  uint8_t kind, flags;
  uint16_t why;    /* fabricated: the number of the reason */
  uint32_t thread; /* of the host, from 1; 0: not noted, and cpu_ns neither */
  int64_t cpu_ns;  /* that the thread had used by the end, vtpu's own work apart; -1 unknown */
  uint32_t awaits_execution, awaits_transfer; /* what had to be there first; 0: nothing */
} vt_event;

int64_t vt_now(void);
struct timespec vt_deadline(int64_t at_ns); /* a time of vt_now on the monotonic clock */
void vt_set_assuming(bool assuming); /* what this thread reads is assumed of other hosts */
/* Appends; the caller holds the lock. Returns the event's number. */
uint64_t vt_record(const vt_event *event);
/* The same for a caller that does not hold the lock. */
void vt_record_alone(const vt_event *event);
/* Completes an event that this call recorded: how long it took, further flags, the time of this
 * thread. The caller holds the lock. */
void vt_complete_event(uint64_t number, int64_t host_ns, uint8_t flags);
/* Whether the last event is a wait of the same thread for the same. The caller holds the lock. */
bool vt_is_waiting_on(const vt_event *wait);
/* Moves all pending events to `out`, which the caller frees; returns how many. Takes the lock. */
size_t vt_drain(vt_event **out);
size_t vt_pending(void);
uint64_t vt_dropped(void);
/* From now on nothing is recorded; forgets what is pending. The caller holds the lock. */
void vt_log_close(void);
void vt_log_forget(void);

/* ---- Python ---- */

/* The number of the calling thread's Python stack. 0 without one. Takes the interpreter's lock. */
uint32_t vt_stack_here(void);

typedef struct vt_upcalls {
  PJRT_Error *(*create_client)(PJRT_Client_Create_Args *);
  PJRT_Error *(*compile)(PJRT_Client_Compile_Args *);
  PJRT_Error *(*compile_ahead)(PJRT_Compile_Args *);
  PJRT_Error *(*deserialize)(PJRT_Executable_DeserializeAndLoad_Args *);
  PJRT_Error *(*create_topology)(PJRT_TopologyDescription_Create_Args *);
  PJRT_Error *(*deserialize_topology)(PJRT_TopologyDescription_Deserialize_Args *);
  const vt_shape *(*default_shape)(PJRT_Buffer_Type, const int64_t *, size_t, PJRT_Error **);
  const vt_shape *(*shape_with_layout)(PJRT_Buffer_Type, const int64_t *, size_t, const char *,
                                       PJRT_Error **);
  const vt_shape *(*topology_layout)(PJRT_TopologyDescription *, PJRT_Buffer_Type,
                                     const int64_t *, size_t, PJRT_Error **);
  void (*flush)(void); /* write the log down: on the writer's thread */
  int64_t (*begin_profile)(const char *options, size_t size); /* 0 when there will be none */
  PJRT_Error *(*end_profile)(int64_t session, char **data, size_t *size);
  void (*compute)(vt_value *value); /* afterwards the value is not pending */
  PJRT_Error *(*unknown_error)(uint16_t why);
  /* Runs the host functions of an execution with real values. 0: done, or *error; else the number of
   * the reason why the values cannot be had. */
  uint16_t (*call_host)(PJRT_LoadedExecutable_Execute_Args *args, vt_launch *launch, uint32_t stack,
                        PJRT_Error **error);
  /* With pace: when an execution and a transfer that are asked for now will be done. *until: when the
   * host may go on. `kind`: of the transfer's event; `number`: its own, if it has one. */
  int64_t (*place_execution)(const vt_event *event, int64_t *until);
  int64_t (*place_transfer)(const vt_event *event, uint32_t number, int64_t ready_ns);
  bool (*check_signals)(void); /* runs handlers of signals; true: one raised, which Python will too */
} vt_upcalls;

extern vt_upcalls vt_python;
extern pthread_mutex_t vt_lock, vt_shapes_lock; /* both only around a fork */

/* ---- shared between the files of the core ---- */

extern PJRT_Event vt_ready_event; /* what has happened */
PJRT_Event *vt_event_at(int64_t ready_ns); /* with pace: what will have happened then */
PJRT_Event *vt_failed_event(PJRT_Error_Code code, const char *message);
/* Why `buffer` cannot be used: deleted, or without contents. NULL when it can. */
PJRT_Error *vt_buffer_unusable(const PJRT_Buffer *buffer, const char *what);
void vt_buffer_poison(PJRT_Buffer *buffer, PJRT_Error_Code code, const char *message,
                      size_t message_size);
const PJRT_Api *vt_api(void);
const char *vt_function_name(size_t index); /* as events of VT_UNSUPPORTED number them */
PJRT_Error *vt_unsupported(uint32_t index);
void vt_set_stablehlo_versions(const int64_t current[3], const int64_t minimum[3]);

#endif
