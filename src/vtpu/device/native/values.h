/* What arrays contain, as far as it can be known: nothing is computed here.
 *
 * A value is the contents of one array on one device. It is known (its bytes are here), pending (the
 * result of an execution, its launch, which remembers the values that it was given), or unknown, with
 * the reason. A launch forgets what it was given as soon as no pending value needs it.
 *
 * Everything here is guarded by vt_lock, and callers hold it unless said otherwise.
 */
#ifndef VTPU_VALUES_H
#define VTPU_VALUES_H

#include "bytes.h"
#include "core.h"

/* Why a value is unknown. Higher numbers are given out by Python. */
enum vt_why {
  VT_WHY_OFF = 1,       /* values are switched off */
  VT_WHY_NEVER_WRITTEN, /* memory that was never filled */
  VT_WHY_FORGOTTEN,     /* what it would be computed from took too much memory */
  VT_WHY_RAW,           /* raw bytes in the layout of the device */
  VT_WHY_LEAVING,       /* the interpreter is gone */
  VT_WHY_INTERRUPTED,   /* Ctrl-C, or an exit, while it was computed */
  VT_WHY_FIRST_OF_PYTHON
};

struct vt_value {
  const vt_shape *shape;
  vt_launch *launch; /* whose result it is; NULL: it came from the host */
  vt_bytes *bytes;   /* known */
  uint32_t references;
  uint16_t why; /* unknown */
};

struct vt_launch {
  uint64_t number;
  PJRT_Executable *executable;
  uint32_t live, pending; /* values that somebody refers to; those of them that are pending */
  uint32_t holds;         /* who needs it as it is */
  bool is_settling;
  int num_local, num_devices; /* devices of this host; all devices of the program */
  vt_launch *older, *newer, *next_settling;
  vt_value **arguments; /* [local device * num_parameters + parameter]; NULL when not needed */
  int *logical_ids;     /* of the local devices */
  vt_value values[];    /* [logical device * num_outputs + output] */
};

/* Whether values are followed at all. Set once, before the first array. */
extern bool vt_values_on;
/* Bytes that remembering executions may take: the oldest are forgotten above that. */
extern int64_t vt_history_limit;

/* A value from the host, which takes over `bytes`. NULL `bytes`: there was no room. No lock needed. */
vt_value *vt_value_of_host(const vt_shape *shape, vt_bytes *bytes);
/* The value of memory on the host in strides of bytes per dimension; NULL strides: row-major. No
 * lock may be held. NULL: out of memory. */
vt_value *vt_value_of_memory(const vt_shape *shape, const void *data, const int64_t *strides,
                             size_t num_strides);
vt_value *vt_value_retain(vt_value *value); /* NULL gives NULL */
void vt_value_release(vt_value *value);
bool vt_value_is_pending(const vt_value *value);
void vt_value_know(vt_value *value, vt_bytes *bytes); /* takes over `bytes` */
void vt_value_give_up(vt_value *value, uint16_t why);

/* An execution, held by the caller, with the values of its arguments. NULL: out of memory. */
vt_launch *vt_launch_new(PJRT_LoadedExecutable *loaded, const int *logical_ids, size_t num_devices,
                         PJRT_Buffer *const *const *arguments, uint64_t number);
/* Gives the buffers of its outputs their values. */
void vt_launch_fill(vt_launch *launch, PJRT_Buffer **const *outputs);
void vt_launch_let_go(vt_launch *launch); /* ends the caller's hold */
/* Gives up what the oldest pending launch would give. False: there is none. */
bool vt_forget_oldest_launch(void);

/* The contents of an array in host memory, row-major unless `layout` says otherwise; what is unknown
 * is filled as the user wants. *why: 0, or the reason why it is not the real thing. Computes; no lock
 * may be held. */
PJRT_Error *vt_value_read(vt_value *value, const vt_shape *shape, void *out,
                          const PJRT_Buffer_MemoryLayout *layout, uint16_t *why);

int vt_threads_computing(void); /* threads in which Python computes a value */

enum vt_unknown { VT_UNKNOWN_ZEROS, VT_UNKNOWN_NAN, VT_UNKNOWN_ERROR };
extern enum vt_unknown vt_fill_unknown_with;
/* Fills `size` bytes of an unknown value with zeros or with the type's NaN. */
void vt_fill_unknown(PJRT_Buffer_Type type, void *out, size_t size);
/* The error that looking at an unknown value is, or NULL when it is none. No lock may be held. */
PJRT_Error *vt_unknown_error(uint16_t why);

#endif
