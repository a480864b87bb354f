# cython: language_level=3, boundscheck=False, wraparound=False
"""Python's side of the native core: makes its handles, answers its upcalls, drains its log.

Handles travel as integers. Every upcall runs under the interpreter's lock, turns whatever the
handler raises into a PJRT error, and never lets an exception out.
"""

from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

import traceback

cdef extern from "stdbool.h":
    ctypedef bint c_bool "bool"

cdef extern from "pjrt.h":
    ctypedef int PJRT_Buffer_Type
    ctypedef int PJRT_Error_Code
    ctypedef int PJRT_NamedValue_Type
    ctypedef struct PJRT_NamedValue:
        size_t struct_size
        char *name
        size_t name_size
        PJRT_NamedValue_Type type
        char *string_value
        int64_t int64_value
        int64_t *int64_array_value
        float float_value
        bint bool_value
        size_t value_size
    ctypedef struct PJRT_Buffer_MemoryLayout_Tiled:
        int64_t *minor_to_major
        size_t minor_to_major_size
        int64_t *tile_dims
        size_t *tile_dim_sizes
        size_t num_tiles
    ctypedef struct PJRT_Program:
        char *code
        size_t code_size
        char *format
        size_t format_size
    ctypedef struct PJRT_Client_Create_Args:
        PJRT_NamedValue *create_options
        size_t num_options
        PJRT_Client *client
    ctypedef struct PJRT_Client_Compile_Args:
        PJRT_Client *client
        PJRT_Program *program
        char *compile_options
        size_t compile_options_size
        PJRT_LoadedExecutable *executable
    ctypedef struct PJRT_Compile_Args:
        PJRT_TopologyDescription *topology
        PJRT_Program *program
        char *compile_options
        size_t compile_options_size
        PJRT_Executable *executable
    ctypedef struct PJRT_Executable_DeserializeAndLoad_Args:
        PJRT_Client *client
        char *serialized_executable
        size_t serialized_executable_size
        PJRT_LoadedExecutable *loaded_executable
        char *overridden_serialized_compile_options
        size_t overridden_serialized_compile_options_size
    ctypedef struct PJRT_TopologyDescription_Create_Args:
        char *topology_name
        size_t topology_name_size
        PJRT_NamedValue *create_options
        size_t num_options
        PJRT_TopologyDescription *topology
    ctypedef struct PJRT_TopologyDescription_Deserialize_Args:
        char *serialized_topology
        size_t serialized_topology_size
        PJRT_TopologyDescription *topology
    ctypedef struct PJRT_Executable_GetCompiledMemoryStats_Args:
        int64_t generated_code_size_in_bytes
        int64_t argument_size_in_bytes
        int64_t output_size_in_bytes
        int64_t alias_size_in_bytes
        int64_t temp_size_in_bytes
        int64_t host_generated_code_size_in_bytes
        int64_t host_argument_size_in_bytes
        int64_t host_output_size_in_bytes
        int64_t host_alias_size_in_bytes
        int64_t host_temp_size_in_bytes
        int64_t peak_memory_in_bytes
        int64_t total_size_in_bytes

cdef extern from "arena.h":
    ctypedef struct vt_arena:
        int64_t limit
        int64_t in_use
    int vt_arena_init(vt_arena *arena, int64_t limit)
    int64_t vt_arena_largest_free(const vt_arena *arena)
    int64_t vt_arena_reservable(const vt_arena *arena)

cdef extern from "core.h":
    ctypedef struct vt_shape
    ctypedef struct PJRT_Executable

cdef extern from "values.h":
    ctypedef struct vt_bytes:
        uint32_t references
        size_t size
        char *data
    ctypedef struct vt_value:
        const vt_shape *shape
        vt_launch *launch
        vt_bytes *bytes
        uint32_t references
        uint16_t why
    ctypedef struct vt_launch:
        uint64_t number
        PJRT_Executable *executable
        uint32_t holds
        int num_local
        int num_devices
        vt_value **arguments
        int *logical_ids
        vt_value *values

cdef extern from "core.h":
    ctypedef struct vt_shape:
        uint32_t id
        PJRT_Buffer_Type type
        size_t rank
        int64_t *dims
        int64_t logical_bytes
        int64_t device_bytes
        char *layout_text
        size_t layout_text_size
    ctypedef struct PJRT_Error:
        int code
        char *message
        size_t message_size
    ctypedef struct PJRT_DeviceDescription:
        int id
        int process_index
        char *kind
        char *debug_string
        char *to_string
        PJRT_NamedValue *attributes
        size_t num_attributes
    ctypedef struct PJRT_TopologyDescription:
        char *name
        char *platform_version
        char *serialized
        size_t serialized_size
        PJRT_DeviceDescription *device_storage
        PJRT_DeviceDescription **devices
        size_t num_devices
        PJRT_NamedValue *attributes
        size_t num_attributes
        int references
    ctypedef struct PJRT_Memory:
        int id
        int kind
        char debug_string[96]
        PJRT_Device *device
        bint has_arena
        vt_arena arena
        int64_t in_use
        int64_t peak_in_use
        int64_t limit
        int64_t peak_reserved
        int64_t peak_total
        uint64_t peak_event
        int64_t num_allocations
        int64_t largest_allocation
    ctypedef struct PJRT_Device:
        PJRT_Client *client
        PJRT_DeviceDescription *description
        int local_hardware_id
        bint is_addressable
        char place[32]
        PJRT_Memory memories[3]
        PJRT_Memory *memory_list[3]
    ctypedef struct PJRT_Client:
        PJRT_TopologyDescription *topology
        int process_index
        PJRT_Device *device_storage
        PJRT_Device **devices
        PJRT_Device **addressable
        PJRT_Memory **memories
        size_t num_devices
        size_t num_addressable
        size_t num_memories
    ctypedef struct vt_output:
        const vt_shape *shape
        int memory_kind
        int64_t alias
    ctypedef struct vt_host_transfer:
        int64_t channel_id
        bint is_send
        PJRT_Buffer_Type type
        int64_t bytes
        int only_on
    ctypedef struct PJRT_Layouts_MemoryLayout:
        pass
    ctypedef struct PJRT_Executable:
        uint32_t program
        char *name
        int num_replicas
        int num_partitions
        vt_output *outputs
        size_t num_outputs
        const vt_shape **parameters
        c_bool *is_donated
        size_t num_parameters
        vt_host_transfer *host_transfers
        size_t num_host_transfers
        int64_t temp_bytes
        PJRT_Executable_GetCompiledMemoryStats_Args memory_stats
        PJRT_NamedValue *costs
        size_t num_costs
        char *fingerprint
        char *hlo
        char *options
        char *serialized
        size_t fingerprint_size
        size_t hlo_size
        size_t options_size
        size_t serialized_size
        PJRT_Buffer_Type *output_types
        int64_t *output_dims
        size_t *output_ranks
        const char **output_kinds
        size_t *output_kind_sizes
        PJRT_Layouts_MemoryLayout **output_layouts
        int references
    ctypedef struct PJRT_LoadedExecutable:
        PJRT_Executable *executable
        PJRT_Client *client
        PJRT_Device **addressable
        int *logical_ids
        size_t num_addressable
        char *assignment
        size_t assignment_size
        bint is_deleted
    ctypedef struct vt_event:
        int64_t time_ns
        int64_t host_ns
        int64_t bytes
        int64_t address
        uint64_t subject
        uint32_t stack
        uint32_t program
        int32_t device
        uint32_t detail
        uint8_t kind
        uint8_t flags
        uint16_t why
        uint32_t thread
        int64_t cpu_ns
        uint32_t awaits_execution
        uint32_t awaits_transfer
    ctypedef struct PJRT_LoadedExecutable_Execute_Args:
        pass
    size_t vt_take_gone_programs(uint32_t *out, size_t most)
    ctypedef struct vt_upcalls:
        PJRT_Error *(*create_client)(PJRT_Client_Create_Args *) noexcept nogil
        PJRT_Error *(*compile)(PJRT_Client_Compile_Args *) noexcept nogil
        PJRT_Error *(*compile_ahead)(PJRT_Compile_Args *) noexcept nogil
        PJRT_Error *(*deserialize)(PJRT_Executable_DeserializeAndLoad_Args *) noexcept nogil
        PJRT_Error *(*create_topology)(PJRT_TopologyDescription_Create_Args *) noexcept nogil
        PJRT_Error *(*deserialize_topology)(
            PJRT_TopologyDescription_Deserialize_Args *) noexcept nogil
        const vt_shape *(*default_shape)(
            PJRT_Buffer_Type, const int64_t *, size_t, PJRT_Error **) noexcept nogil
        const vt_shape *(*shape_with_layout)(
            PJRT_Buffer_Type, const int64_t *, size_t, const char *, PJRT_Error **) noexcept nogil
        const vt_shape *(*topology_layout)(
            PJRT_TopologyDescription *, PJRT_Buffer_Type, const int64_t *, size_t,
            PJRT_Error **) noexcept nogil
        void (*flush)() noexcept nogil
        int64_t (*begin_profile)(const char *, size_t) noexcept nogil
        PJRT_Error *(*end_profile)(int64_t, char **, size_t *) noexcept nogil
        void (*compute)(vt_value *) noexcept nogil
        PJRT_Error *(*unknown_error)(uint16_t) noexcept nogil
        uint16_t (*call_host)(
            PJRT_LoadedExecutable_Execute_Args *, vt_launch *, uint32_t, PJRT_Error **
        ) noexcept nogil
        int64_t (*place_execution)(const vt_event *, int64_t *) noexcept nogil
        int64_t (*place_transfer)(const vt_event *, uint32_t, int64_t) noexcept nogil
        c_bool (*check_signals)() noexcept nogil
    vt_upcalls vt_python
    const char *const vt_memory_kind_names[3]
    const vt_shape *vt_shape_intern(
        PJRT_Buffer_Type type, const int64_t *dims, size_t rank, const char *text,
        size_t text_size, const PJRT_Buffer_MemoryLayout_Tiled *tiled, int64_t logical_bytes,
        int64_t device_bytes, bint is_default)
    size_t vt_shape_count()
    const vt_shape *vt_shape_at(size_t id)
    PJRT_Error *vt_error(int code, const char *format, ...)
    void vt_error_free(PJRT_Error *error)
    size_t vt_drain(vt_event **out) nogil
    uint64_t vt_dropped()
    int64_t vt_now()
    void vt_set_assuming(bint assuming)
    const char *vt_function_name(size_t index)
    void vt_set_stablehlo_versions(const int64_t current[3], const int64_t minimum[3])
    void vt_record_alone(const vt_event *event) nogil
    enum: VT_COMPILE
    enum: VT_FLAG_CACHED
    enum: VT_FLAG_FAILED
    const void *vt_api()

cdef extern from "pthread.h":
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_lock(pthread_mutex_t *lock)
    int pthread_mutex_unlock(pthread_mutex_t *lock)

cdef extern from "core.h":
    pthread_mutex_t vt_lock

cdef extern from "bytes.h":
    ctypedef struct vt_bytes_state:
        int64_t in_memory
        int64_t on_disk
        int64_t peak_in_memory
        int64_t peak_on_disk
    vt_bytes *vt_bytes_new(size_t size) nogil
    void vt_bytes_release(vt_bytes *bytes)
    void vt_bytes_limit(int64_t memory, int64_t disk, const char *folder)
    vt_bytes_state vt_bytes_now()

cdef extern from "values.h":
    enum: VT_WHY_FORGOTTEN
    enum: VT_WHY_FIRST_OF_PYTHON
    c_bool vt_values_on
    int64_t vt_history_limit
    int vt_fill_unknown_with
    vt_value *vt_value_retain(vt_value *value)
    void vt_value_release(vt_value *value)
    bint vt_value_is_pending(const vt_value *value)
    void vt_value_know(vt_value *value, vt_bytes *bytes)
    void vt_value_give_up(vt_value *value, uint16_t why)
    void vt_launch_let_go(vt_launch *launch)
    int vt_threads_computing()

cdef extern from "callbacks.h":
    ctypedef struct vt_origin:
        uint32_t stack
        uint32_t program
    PJRT_Error *vt_send_to_host(
        PJRT_LoadedExecutable_Execute_Args *args, size_t d, int64_t channel_id, const void *data,
        size_t size, vt_origin origin) nogil
    PJRT_Error *vt_receive_from_host(
        PJRT_LoadedExecutable_Execute_Args *args, size_t d, int64_t channel_id, void *data,
        size_t size) nogil

cdef extern from "stacks.h":
    ctypedef struct PyFrameObject
    ctypedef struct vt_frame:
        void *code
        int64_t lasti
    uint32_t vt_stack_of(PyFrameObject *frame)
    size_t vt_stack_count()
    uint32_t vt_stack_frames(size_t number, const vt_frame **frames)

cdef extern from "host_time.h":
    ctypedef struct vt_host_time:
        uint32_t thread
        int64_t cpu_ns
    vt_host_time vt_host_time_now()

cdef extern from "leaving.h":
    void vt_set_python_alive(bint is_alive)
    void vt_begin_leaving()
    void vt_prepare_for_forks()
    int vt_threads_staying()

cdef extern from "Python.h":
    int PyCode_Addr2Line(void *code, int addr)
    int PyErr_CheckSignals() except -1
    int Py_AddPendingCall(int (*function)(void *) noexcept, void *argument)
    void PyErr_SetObject(object type, object value)

cdef extern from "writer.h":
    c_bool vt_writer_start()
    void vt_writer_hurry() nogil
    void vt_writer_catch_up() nogil
    void vt_writer_end() nogil

cdef extern from "pace.h":
    c_bool vt_pace_start()
    void vt_pace_end() nogil

cdef extern from "extensions.h":
    void vt_set_profiler_table_size(size_t size)


class StatusError(Exception):
    """An error for the caller of the ABI: a PJRT error code and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


cdef object handlers = None


cdef PJRT_Error *as_error(object exception) noexcept:
    cdef bytes text
    cdef int code = 13  # INTERNAL
    if isinstance(exception, StatusError):
        code = exception.code
        text = str(exception).encode("utf-8", "replace")
    elif isinstance(exception, (KeyboardInterrupt, SystemExit)):
        raise_later(exception)
        code = 1  # CANCELLED
        text = b"interrupted"
    else:
        text = ("vtpu failed; please report this:\n"
                + "".join(traceback.format_exception(exception))).encode("utf-8", "replace")
    return vt_error(code, b"%s", <const char *> text)


# ---- data in --------------------------------------------------------------------------------


cdef char *keep_bytes(bytes data) except NULL:
    """A copy that ends in a zero byte and belongs to the core."""
    cdef size_t size = len(data)
    cdef char *copy = <char *> malloc(size + 1)
    if copy == NULL:
        raise MemoryError
    memcpy(copy, <const char *> data, size)
    copy[size] = 0
    return copy


cdef char *keep_text(str text) except NULL:
    return keep_bytes(text.encode())


cdef void *zeros(size_t count, size_t size) except NULL:
    cdef void *memory = calloc(count if count else 1, size)
    if memory == NULL:
        raise MemoryError
    return memory


cdef int keep_named_values(dict values, PJRT_NamedValue **out, size_t *count) except -1:
    cdef PJRT_NamedValue *array = <PJRT_NamedValue *> zeros(len(values), sizeof(PJRT_NamedValue))
    cdef PJRT_NamedValue *item
    cdef int64_t *numbers
    out[0] = array
    count[0] = len(values)
    for i, (name, value) in enumerate(values.items()):
        item = &array[i]
        item.struct_size = sizeof(PJRT_NamedValue)
        item.name = keep_text(name)
        item.name_size = len(name.encode())
        item.value_size = 1
        if isinstance(value, bool):
            item.type = 4
            item.bool_value = value
        elif isinstance(value, int):
            item.type = 1
            item.int64_value = value
        elif isinstance(value, float):
            item.type = 3
            item.float_value = value
        elif isinstance(value, str):
            item.type = 0
            item.string_value = keep_text(value)
            item.value_size = len(value.encode())
        else:
            item.type = 2
            numbers = <int64_t *> zeros(len(value), sizeof(int64_t))
            for j, number in enumerate(value):
                numbers[j] = number
            item.int64_array_value = numbers
            item.value_size = len(value)
    return 0


cdef dict named_values(const PJRT_NamedValue *values, size_t count):
    cdef const PJRT_NamedValue *item
    out = {}
    for i in range(count):
        item = &values[i]
        name = item.name[:item.name_size].decode()
        if item.type == 0:
            out[name] = item.string_value[:item.value_size].decode()
        elif item.type == 1:
            out[name] = item.int64_value
        elif item.type == 2:
            out[name] = [item.int64_array_value[j] for j in range(item.value_size)]
        elif item.type == 3:
            out[name] = item.float_value
        else:
            out[name] = bool(item.bool_value)
    return out


def set_stablehlo_versions(current, minimum) -> None:
    """The StableHLO versions that the compiler speaks, three numbers each."""
    cdef int64_t now[3]
    cdef int64_t least[3]
    for i in range(3):
        now[i] = current[i]
        least[i] = minimum[i]
    vt_set_stablehlo_versions(now, least)


def new_topology(str name, str platform_version, bytes serialized, dict attributes, devices) -> int:
    """A topology. `devices`: (id, process_index, kind, debug_string, to_string, attributes)."""
    cdef PJRT_TopologyDescription *topology
    cdef PJRT_DeviceDescription *device
    topology = <PJRT_TopologyDescription *> zeros(1, sizeof(PJRT_TopologyDescription))
    topology.references = 1
    topology.name = keep_text(name)
    topology.platform_version = keep_text(platform_version)
    topology.serialized = keep_bytes(serialized)
    topology.serialized_size = len(serialized)
    keep_named_values(attributes, &topology.attributes, &topology.num_attributes)
    topology.num_devices = len(devices)
    topology.device_storage = <PJRT_DeviceDescription *> zeros(
        len(devices), sizeof(PJRT_DeviceDescription))
    topology.devices = <PJRT_DeviceDescription **> zeros(len(devices), sizeof(void *))
    for i, (id_, process_index, kind, debug_string, to_string, values) in enumerate(devices):
        device = &topology.device_storage[i]
        topology.devices[i] = device
        device.id = id_
        device.process_index = process_index
        device.kind = keep_text(kind)
        device.debug_string = keep_text(debug_string)
        device.to_string = keep_text(to_string)
        keep_named_values(values, &device.attributes, &device.num_attributes)
    return <uintptr_t> topology


def topology_name(uintptr_t topology) -> str:
    """The name that a topology was made with."""
    return (<PJRT_TopologyDescription *> topology).name.decode()


cdef int fill_memory(PJRT_Memory *memory, PJRT_Device *device, int id_, int kind,
                     int64_t limit) except -1:
    memory.id = id_
    memory.kind = kind
    memory.device = device
    label = f"TpuMemorySpace(kind={vt_memory_kind_names[kind].decode()}, device={device.description.id})"
    text = label.encode()[:95]
    memcpy(memory.debug_string, <const char *> text, len(text) + 1)
    if kind == 0 and device.is_addressable:
        memory.has_arena = True
        memory.limit = limit
        if vt_arena_init(&memory.arena, limit) != 0:
            raise MemoryError
    return 0


def new_client(uintptr_t topology, int process_index, int64_t hbm_bytes, places) -> int:
    """A client that addresses the devices of host `process_index`, `hbm_bytes` of HBM on each.

    `places[i]` names the memory of device i as messages do: `0x0x0_HBM0`.
    """
    cdef PJRT_Client *client = <PJRT_Client *> zeros(1, sizeof(PJRT_Client))
    cdef PJRT_TopologyDescription *t = <PJRT_TopologyDescription *> topology
    cdef PJRT_Device *device
    cdef int local = 0
    t.references += 1
    client.topology = t
    client.process_index = process_index
    client.num_devices = t.num_devices
    client.device_storage = <PJRT_Device *> zeros(t.num_devices, sizeof(PJRT_Device))
    client.devices = <PJRT_Device **> zeros(t.num_devices, sizeof(void *))
    client.addressable = <PJRT_Device **> zeros(t.num_devices, sizeof(void *))
    client.memories = <PJRT_Memory **> zeros(3 * t.num_devices, sizeof(void *))
    for i in range(t.num_devices):
        device = &client.device_storage[i]
        client.devices[i] = device
        device.client = client
        device.description = t.devices[i]
        device.is_addressable = t.devices[i].process_index == process_index
        device.local_hardware_id = -1
        place = places[i].encode()[:31]
        memcpy(device.place, <const char *> place, len(place) + 1)
        for kind in range(3):
            fill_memory(&device.memories[kind], device, 3 * i + kind, kind, hbm_bytes)
            device.memory_list[kind] = &device.memories[kind]
            if device.is_addressable:
                client.memories[client.num_memories] = &device.memories[kind]
                client.num_memories += 1
        if device.is_addressable:
            device.local_hardware_id = local
            client.addressable[local] = device
            local += 1
    client.num_addressable = local
    return <uintptr_t> client


cdef const vt_shape *intern_shape(object spec, bint is_default) except NULL:
    """`spec`: element type, dims, layout text, minor to major, tiles, logical and device bytes."""
    cdef int64_t dims[64]
    cdef int64_t order[64]
    cdef int64_t tile_dims[64]
    cdef size_t tile_sizes[16]
    cdef PJRT_Buffer_MemoryLayout_Tiled tiled
    cdef size_t used = 0
    element_type, shape, text, minor_to_major, tiles, logical_bytes, device_bytes = spec
    for i, n in enumerate(shape):
        dims[i] = n
    for i, n in enumerate(minor_to_major):
        order[i] = n
    for i, tile in enumerate(tiles):
        tile_sizes[i] = len(tile)
        for n in tile:
            tile_dims[used] = n
            used += 1
    tiled.minor_to_major = order
    tiled.minor_to_major_size = len(minor_to_major)
    tiled.tile_dims = tile_dims
    tiled.tile_dim_sizes = tile_sizes
    tiled.num_tiles = len(tiles)
    encoded = text.encode()
    cdef const vt_shape *interned = vt_shape_intern(
        element_type, dims, len(shape), <const char *> encoded, len(encoded), &tiled,
        logical_bytes, device_bytes, is_default)
    if interned == NULL:
        raise MemoryError
    return interned


def new_executable(
    *, uint32_t program, str name, int num_replicas, int num_partitions, outputs, parameters,
    donated, host_transfers, int64_t temp_bytes, memory_stats, dict costs, bytes fingerprint,
    bytes hlo, bytes options, bytes serialized,
) -> int:
    """An executable.

    `outputs`: (shape spec, memory kind 0-2, aliased parameter or -1). `parameters`: shape specs or
    None where unknown. `donated`: a flag per parameter. `host_transfers`: (channel, is_send,
    element type, bytes, the one logical device that takes part or -1).
    `temp_bytes`: HBM that an execution reserves for temporaries.
    `memory_stats`: the twelve figures of PJRT_Executable_GetCompiledMemoryStats in their order.
    """
    cdef PJRT_Executable *e = <PJRT_Executable *> zeros(1, sizeof(PJRT_Executable))
    cdef PJRT_Executable_GetCompiledMemoryStats_Args *stats = &e.memory_stats
    cdef size_t used = 0
    e.references = 1
    e.program = program
    e.name = keep_text(name)
    e.num_replicas = num_replicas
    e.num_partitions = num_partitions
    e.num_outputs = len(outputs)
    e.outputs = <vt_output *> zeros(len(outputs), sizeof(vt_output))
    e.output_types = <PJRT_Buffer_Type *> zeros(len(outputs), sizeof(int))
    e.output_ranks = <size_t *> zeros(len(outputs), sizeof(size_t))
    e.output_dims = <int64_t *> zeros(sum(len(o[0][1]) for o in outputs), sizeof(int64_t))
    e.output_kinds = <const char **> zeros(len(outputs), sizeof(char *))
    e.output_kind_sizes = <size_t *> zeros(len(outputs), sizeof(size_t))
    e.output_layouts = <PJRT_Layouts_MemoryLayout **> zeros(len(outputs), sizeof(void *))
    for i, (spec, kind, alias) in enumerate(outputs):
        e.outputs[i].shape = intern_shape(spec, False)
        e.outputs[i].memory_kind = kind
        e.outputs[i].alias = alias
        e.output_types[i] = spec[0]
        e.output_ranks[i] = len(spec[1])
        for n in spec[1]:
            e.output_dims[used] = n
            used += 1
        e.output_kinds[i] = vt_memory_kind_names[kind]
        e.output_kind_sizes[i] = len(vt_memory_kind_names[kind])
        e.output_layouts[i] = <PJRT_Layouts_MemoryLayout *> e.outputs[i].shape
    e.num_parameters = len(parameters)
    e.parameters = <const vt_shape **> zeros(len(parameters), sizeof(void *))
    e.is_donated = <c_bool *> zeros(len(parameters), sizeof(c_bool))
    for i, spec in enumerate(parameters):
        if spec is not None:
            e.parameters[i] = intern_shape(spec, False)
        e.is_donated[i] = bool(donated[i])
    e.num_host_transfers = len(host_transfers)
    e.host_transfers = <vt_host_transfer *> zeros(len(host_transfers), sizeof(vt_host_transfer))
    for i, (channel, is_send, kind, size, only_on) in enumerate(host_transfers):
        e.host_transfers[i].channel_id = channel
        e.host_transfers[i].is_send = is_send
        e.host_transfers[i].type = kind
        e.host_transfers[i].bytes = size
        e.host_transfers[i].only_on = only_on
    (
        stats.generated_code_size_in_bytes, stats.argument_size_in_bytes,
        stats.output_size_in_bytes, stats.alias_size_in_bytes, stats.temp_size_in_bytes,
        stats.host_generated_code_size_in_bytes, stats.host_argument_size_in_bytes,
        stats.host_output_size_in_bytes, stats.host_alias_size_in_bytes,
        stats.host_temp_size_in_bytes, stats.peak_memory_in_bytes, stats.total_size_in_bytes,
    ) = memory_stats
    e.temp_bytes = temp_bytes
    keep_named_values(costs, &e.costs, &e.num_costs)
    e.fingerprint = keep_bytes(fingerprint)
    e.fingerprint_size = len(fingerprint)
    e.hlo = keep_bytes(hlo)
    e.hlo_size = len(hlo)
    e.options = keep_bytes(options)
    e.options_size = len(options)
    e.serialized = keep_bytes(serialized)
    e.serialized_size = len(serialized)
    return <uintptr_t> e


def load_executable(uintptr_t client, uintptr_t executable, device_ids, bytes assignment) -> int:
    """Loads an executable on `device_ids`, in order of replica and partition.

    Takes over the caller's reference. An empty `assignment` makes it portable.
    """
    cdef PJRT_Client *c = <PJRT_Client *> client
    cdef PJRT_LoadedExecutable *loaded
    loaded = <PJRT_LoadedExecutable *> zeros(1, sizeof(PJRT_LoadedExecutable))
    by_id = {c.addressable[i].description.id: i for i in range(c.num_addressable)}
    loaded.executable = <PJRT_Executable *> executable
    loaded.client = c
    loaded.addressable = <PJRT_Device **> zeros(len(device_ids), sizeof(void *))
    loaded.logical_ids = <int *> zeros(len(device_ids), sizeof(int))
    for logical, id_ in enumerate(device_ids):
        if id_ in by_id:
            loaded.addressable[loaded.num_addressable] = c.addressable[<size_t> by_id[id_]]
            loaded.logical_ids[loaded.num_addressable] = logical
            loaded.num_addressable += 1
    loaded.assignment = keep_bytes(assignment)
    loaded.assignment_size = len(assignment)
    return <uintptr_t> loaded


# ---- upcalls --------------------------------------------------------------------------------


cdef PJRT_Error *create_client(PJRT_Client_Create_Args *args) noexcept with gil:
    try:
        options = named_values(args.create_options, args.num_options)
        args.client = <PJRT_Client *> <uintptr_t> handlers.create_client(options)
        return NULL
    except BaseException as e:
        return as_error(e)


cdef PJRT_Error *compile_program(PJRT_Client_Compile_Args *args) noexcept with gil:
    try:
        args.executable = <PJRT_LoadedExecutable *> <uintptr_t> handlers.compile(
            <uintptr_t> args.client,
            args.program.code[:args.program.code_size],
            args.program.format[:args.program.format_size].decode(),
            args.compile_options[:args.compile_options_size],
        )
        return NULL
    except BaseException as e:
        return as_error(e)


cdef PJRT_Error *compile_ahead(PJRT_Compile_Args *args) noexcept with gil:
    try:
        args.executable = <PJRT_Executable *> <uintptr_t> handlers.compile_ahead(
            <uintptr_t> args.topology,
            args.program.code[:args.program.code_size],
            args.program.format[:args.program.format_size].decode(),
            args.compile_options[:args.compile_options_size],
        )
        return NULL
    except BaseException as e:
        return as_error(e)


cdef PJRT_Error *deserialize(PJRT_Executable_DeserializeAndLoad_Args *args) noexcept with gil:
    try:
        overridden = None
        if args.overridden_serialized_compile_options != NULL:
            overridden = args.overridden_serialized_compile_options[
                :args.overridden_serialized_compile_options_size]
        args.loaded_executable = <PJRT_LoadedExecutable *> <uintptr_t> handlers.deserialize(
            <uintptr_t> args.client,
            args.serialized_executable[:args.serialized_executable_size],
            overridden,
        )
        return NULL
    except BaseException as e:
        return as_error(e)


cdef PJRT_Error *create_topology(PJRT_TopologyDescription_Create_Args *args) noexcept with gil:
    try:
        args.topology = <PJRT_TopologyDescription *> <uintptr_t> handlers.create_topology(
            args.topology_name[:args.topology_name_size].decode(),
            named_values(args.create_options, args.num_options),
        )
        return NULL
    except BaseException as e:
        return as_error(e)


cdef PJRT_Error *deserialize_topology(
    PJRT_TopologyDescription_Deserialize_Args *args
) noexcept with gil:
    try:
        args.topology = <PJRT_TopologyDescription *> <uintptr_t> handlers.deserialize_topology(
            args.serialized_topology[:args.serialized_topology_size])
        return NULL
    except BaseException as e:
        return as_error(e)


cdef tuple dims_of(const int64_t *dims, size_t rank):
    return tuple([dims[i] for i in range(rank)])


cdef const vt_shape *default_shape(
    PJRT_Buffer_Type type_, const int64_t *dims, size_t rank, PJRT_Error **error
) noexcept with gil:
    try:
        return intern_shape(handlers.default_shape(<int> type_, dims_of(dims, rank)), True)
    except BaseException as e:
        error[0] = as_error(e)
        return NULL


cdef const vt_shape *shape_with_layout(
    PJRT_Buffer_Type type_, const int64_t *dims, size_t rank, const char *text, PJRT_Error **error
) noexcept with gil:
    try:
        spec = handlers.shape_with_layout(<int> type_, dims_of(dims, rank), text.decode())
        return intern_shape(spec, False)
    except BaseException as e:
        error[0] = as_error(e)
        return NULL


cdef const vt_shape *topology_layout(
    PJRT_TopologyDescription *topology, PJRT_Buffer_Type type_, const int64_t *dims, size_t rank,
    PJRT_Error **error
) noexcept with gil:
    try:
        spec = handlers.topology_layout(
            <uintptr_t> topology, <int> type_, dims_of(dims, rank))
        return intern_shape(spec, False)
    except BaseException as e:
        error[0] = as_error(e)
        return NULL


cdef void flush() noexcept with gil:
    try:
        handlers.flush()
    except BaseException as e:
        handlers.flush_failed(e)


cdef int64_t begin_profile(const char *options, size_t size) noexcept with gil:
    try:
        return handlers.begin_profile(options[:size])
    except BaseException as e:
        handlers.flush_failed(e)
        return 0


cdef PJRT_Error *end_profile(int64_t session, char **data, size_t *size) noexcept with gil:
    try:
        profile = handlers.end_profile(session)
        data[0] = keep_bytes(profile)
        size[0] = len(profile)
        return NULL
    except BaseException as e:
        return as_error(e)


# ---- values ---------------------------------------------------------------------------------


cdef class Contents:
    """The bytes of a value, row-major; readable as a buffer."""

    cdef vt_bytes *handle
    cdef Py_ssize_t size

    def __dealloc__(self):
        if self.handle != NULL:
            pthread_mutex_lock(&vt_lock)
            vt_bytes_release(self.handle)
            pthread_mutex_unlock(&vt_lock)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.handle.data, self.size, 1, flags)


cdef class Value:
    """The contents of one array on one device: known, pending or unknown."""

    cdef vt_value *handle

    def __dealloc__(self):
        if self.handle != NULL:
            pthread_mutex_lock(&vt_lock)
            vt_value_release(self.handle)
            pthread_mutex_unlock(&vt_lock)

    @property
    def is_pending(self) -> bool:
        """Whether executing a program again would give it."""
        return vt_value_is_pending(self.handle)

    @property
    def why(self) -> int:
        """The number of the reason why it is unknown, else 0."""
        return self.handle.why

    @property
    def element_type(self) -> int:
        """As the ABI numbers them."""
        return <int> self.handle.shape.type

    @property
    def dims(self) -> tuple:
        """The shape on the device."""
        return dims_of(self.handle.shape.dims, self.handle.shape.rank)

    def contents(self):
        """The bytes, or None unless the value is known."""
        cdef Contents contents = Contents.__new__(Contents)
        pthread_mutex_lock(&vt_lock)
        if self.handle.bytes != NULL:
            self.handle.bytes.references += 1
            contents.handle = self.handle.bytes
            contents.size = <Py_ssize_t> self.handle.bytes.size
        pthread_mutex_unlock(&vt_lock)
        return contents if contents.handle != NULL else None

    def launch(self):
        """The execution whose result it is, held; None when it came from the host."""
        if self.handle.launch == NULL:
            return None
        return new_launch(self.handle.launch)

    def place(self) -> tuple:
        """Of a result: the logical device and the number of the output."""
        cdef vt_launch *launch = self.handle.launch
        cdef Py_ssize_t index = self.handle - &launch.values[0]
        cdef Py_ssize_t count = <Py_ssize_t> launch.executable.num_outputs
        return index // count, index % count

    def know(self, data) -> None:
        """Makes it known, unless it was decided before. `data`: its bytes, row-major."""
        cdef const unsigned char[::1] view = data
        cdef size_t size = view.shape[0]
        cdef vt_bytes *bytes
        if <int64_t> size != self.handle.shape.logical_bytes:
            raise ValueError(f"{size} bytes for a value of {self.handle.shape.logical_bytes}")
        with nogil:
            bytes = vt_bytes_new(size)
            if bytes != NULL and size:
                memcpy(bytes.data, &view[0], size)
        pthread_mutex_lock(&vt_lock)
        if bytes != NULL:
            vt_value_know(self.handle, bytes)
        else:
            vt_value_give_up(self.handle, VT_WHY_FORGOTTEN)
        pthread_mutex_unlock(&vt_lock)

    def know_as(self, Value other) -> None:
        """Makes it known with the contents of `other`, which are kept once."""
        pthread_mutex_lock(&vt_lock)
        if other.handle.bytes != NULL:
            other.handle.bytes.references += 1
            vt_value_know(self.handle, other.handle.bytes)
        pthread_mutex_unlock(&vt_lock)

    def give_up(self, uint16_t why) -> None:
        """Makes it unknown for reason number `why`, unless it was decided before."""
        pthread_mutex_lock(&vt_lock)
        vt_value_give_up(self.handle, why)
        pthread_mutex_unlock(&vt_lock)


cdef Value new_value(vt_value *handle):
    """The caller holds the lock or a reference."""
    cdef Value value = Value.__new__(Value)
    value.handle = vt_value_retain(handle)
    return value


cdef class Launch:
    """An execution with what it was given. It remembers that as long as this object lives."""

    cdef vt_launch *handle

    def __dealloc__(self):
        if self.handle != NULL:
            pthread_mutex_lock(&vt_lock)
            vt_launch_let_go(self.handle)
            pthread_mutex_unlock(&vt_lock)

    @property
    def number(self) -> int:
        """Later executions have higher numbers."""
        return self.handle.number

    @property
    def program(self) -> int:
        """The number of the program."""
        return self.handle.executable.program

    @property
    def num_devices(self) -> int:
        """The devices of the program on all hosts."""
        return self.handle.num_devices

    @property
    def logical_ids(self) -> tuple:
        """Those on this host, numbered replica * partitions + partition."""
        return tuple([self.handle.logical_ids[d] for d in range(self.handle.num_local)])

    def arguments(self, indices) -> list:
        """For each index the values of that argument on the devices of this host.

        None for each where there is nothing to know it by. An empty list: forgotten.
        """
        cdef size_t count = self.handle.executable.num_parameters
        cdef vt_value *handle
        out = []
        pthread_mutex_lock(&vt_lock)
        try:
            if self.handle.arguments == NULL:
                return []
            for index in indices:
                values = []
                for d in range(self.handle.num_local):
                    handle = self.handle.arguments[d * count + <size_t> index]
                    values.append(None if handle == NULL else new_value(handle))
                out.append(values)
        finally:
            pthread_mutex_unlock(&vt_lock)
        return out

    def results(self, size_t output) -> list:
        """The values of an output on all devices of the program; None where nobody needs it."""
        cdef size_t count = self.handle.executable.num_outputs
        cdef vt_value *handle
        out = []
        pthread_mutex_lock(&vt_lock)
        try:
            for d in range(self.handle.num_devices):
                handle = &self.handle.values[d * count + output]
                out.append(new_value(handle) if handle.references else None)
        finally:
            pthread_mutex_unlock(&vt_lock)
        return out


cdef Launch new_launch(vt_launch *handle):
    cdef Launch launch = Launch.__new__(Launch)
    pthread_mutex_lock(&vt_lock)
    handle.holds += 1
    pthread_mutex_unlock(&vt_lock)
    launch.handle = handle
    return launch


cdef object take_error(PJRT_Error *error):
    """The exception for an error of the core, which it frees."""
    exception = StatusError(error.code, error.message[:error.message_size].decode(errors="replace"))
    vt_error_free(error)
    return exception


cdef class HostFunctions:
    """The host functions of one execution, which is under way."""

    cdef PJRT_LoadedExecutable_Execute_Args *args
    cdef vt_origin origin

    def send(self, size_t device, int64_t channel, data) -> None:
        """Hands a value to the function behind `channel` of the device-th device of this host.

        Raises:
            StatusError: the function raised.
        """
        cdef const unsigned char[::1] view = data
        cdef size_t size = view.shape[0]
        cdef const void *start = <const void *> &view[0] if size else <const void *> b""
        cdef PJRT_Error *error
        if self.args == NULL:
            raise RuntimeError("the execution is over")
        with nogil:
            error = vt_send_to_host(self.args, device, channel, start, size, self.origin)
        if error != NULL:
            raise take_error(error)

    def receive(self, size_t device, int64_t channel, size_t size) -> bytearray:
        """What the function behind `channel` gives back: `size` bytes.

        Raises:
            StatusError: the function raised.
        """
        data = bytearray(size)
        cdef unsigned char[::1] view = data
        cdef void *start = <void *> &view[0] if size else NULL
        cdef PJRT_Error *error
        if self.args == NULL:
            raise RuntimeError("the execution is over")
        with nogil:
            error = vt_receive_from_host(self.args, device, channel, start, size)
        if error != NULL:
            raise take_error(error)
        return data


cdef void compute(vt_value *handle) noexcept with gil:
    try:
        handlers.compute(new_value(handle))
    except (KeyboardInterrupt, SystemExit) as e:
        raise_later(e)
    except BaseException as e:
        handlers.flush_failed(e)


cdef PJRT_Error *unknown_error(uint16_t why) noexcept with gil:
    try:
        return as_error(StatusError(9, handlers.why_unknown(why)))
    except BaseException as e:
        return as_error(e)


cdef uint16_t call_host(
    PJRT_LoadedExecutable_Execute_Args *args, vt_launch *launch, uint32_t stack, PJRT_Error **error
) noexcept with gil:
    cdef HostFunctions functions = HostFunctions.__new__(HostFunctions)
    functions.args = args
    functions.origin.stack = stack
    functions.origin.program = launch.executable.program
    try:
        return handlers.call_host(new_launch(launch), functions)
    except BaseException as e:
        error[0] = as_error(e)
        return 0
    finally:
        functions.args = NULL


# ---- pace -----------------------------------------------------------------------------------


cdef int64_t place_execution(const vt_event *event, int64_t *until) noexcept with gil:
    try:
        ready, until[0] = handlers.place_execution(
            event.time_ns, event.subject, event.program, event.device, event.awaits_transfer)
        return ready
    except (KeyboardInterrupt, SystemExit) as e:
        raise_later(e)
        return 0
    except BaseException as e:
        handlers.pace_failed(e)
        return 0


cdef int64_t place_transfer(
    const vt_event *event, uint32_t number, int64_t ready
) noexcept with gil:
    try:
        return handlers.place_transfer(
            max(event.time_ns, ready), event.kind, event.flags, number, event.device, event.bytes)
    except (KeyboardInterrupt, SystemExit) as e:
        raise_later(e)
        return 0
    except BaseException as e:
        handlers.pace_failed(e)
        return 0


cdef c_bool check_signals() noexcept with gil:
    try:
        PyErr_CheckSignals()
        return False
    except BaseException as e:
        raise_later(e)
        return True


def start_pace() -> bool:
    """Results are ready from now on when `handlers.place_*` say so. False: no thread is left for it."""
    return vt_pace_start()


def end_pace() -> None:
    """Everything is ready from now on; who waits goes on."""
    with nogil:
        vt_pace_end()


def follow_values(
    int64_t memory, int64_t disk, int64_t history, str folder, int unknown
) -> None:
    """Contents of arrays are followed from now on.

    `memory`, `disk`: bytes that they may take, `history`: that remembering executions may take;
    `folder`: for those on disk. `unknown`: what fills the unknown: 0 zeros, 1 NaN, 2 nothing, reading
    it is an error.
    """
    global vt_values_on, vt_fill_unknown_with, vt_history_limit
    vt_history_limit = history
    vt_bytes_limit(memory, disk, folder.encode())
    vt_fill_unknown_with = unknown
    vt_values_on = True


def values_state() -> tuple:
    """Bytes that values take: in memory, on disk, the peaks of both."""
    cdef vt_bytes_state state = vt_bytes_now()
    return state.in_memory, state.on_disk, state.peak_in_memory, state.peak_on_disk


def reasons_of_the_core() -> int:
    """How many reasons for unknown values the core numbers itself."""
    return VT_WHY_FIRST_OF_PYTHON - 1


def threads_computing() -> int:
    """How many threads compute a value."""
    return vt_threads_computing()


def gone_programs() -> list:
    """Numbers of programs that nothing refers to any more, since the last call."""
    cdef uint32_t numbers[256]
    count = vt_take_gone_programs(numbers, 256)
    return [numbers[i] for i in range(count)]


def set_profiler_table_size(size_t size) -> None:
    """How large the profiler's function table is to the jaxlib of this process."""
    vt_set_profiler_table_size(size)


def set_handlers(new_handlers) -> None:
    """Who answers the upcalls: an object with the methods named above."""
    global handlers
    handlers = new_handlers
    vt_python.create_client = create_client
    vt_python.compile = compile_program
    vt_python.compile_ahead = compile_ahead
    vt_python.deserialize = deserialize
    vt_python.create_topology = create_topology
    vt_python.deserialize_topology = deserialize_topology
    vt_python.default_shape = default_shape
    vt_python.shape_with_layout = shape_with_layout
    vt_python.topology_layout = topology_layout
    vt_python.flush = flush
    vt_python.begin_profile = begin_profile
    vt_python.end_profile = end_profile
    vt_python.compute = compute
    vt_python.unknown_error = unknown_error
    vt_python.call_host = call_host
    vt_python.place_execution = place_execution
    vt_python.place_transfer = place_transfer
    vt_python.check_signals = check_signals
    vt_prepare_for_forks()
    vt_set_python_alive(True)


def api_capsule():
    """The function table, as jaxlib takes it."""
    return PyCapsule_New(<void *> vt_api(), b"pjrt_c_api", NULL)


# ---- the log --------------------------------------------------------------------------------


def event_fields() -> list:
    """The fields of an event record: (name, offset in bytes, numpy type)."""
    cdef vt_event e
    cdef char *base = <char *> &e
    return [
        ("time_ns", <char *> &e.time_ns - base, "<i8"),
        ("host_ns", <char *> &e.host_ns - base, "<i8"),
        ("bytes", <char *> &e.bytes - base, "<i8"),
        ("address", <char *> &e.address - base, "<i8"),
        ("subject", <char *> &e.subject - base, "<u8"),
        ("stack", <char *> &e.stack - base, "<u4"),
        ("program", <char *> &e.program - base, "<u4"),
        ("device", <char *> &e.device - base, "<i4"),
        ("detail", <char *> &e.detail - base, "<u4"),
        ("kind", <char *> &e.kind - base, "<u1"),
        ("flags", <char *> &e.flags - base, "<u1"),
        ("why", <char *> &e.why - base, "<u2"),
        ("thread", <char *> &e.thread - base, "<u4"),
        ("cpu_ns", <char *> &e.cpu_ns - base, "<i8"),
        ("awaits_execution", <char *> &e.awaits_execution - base, "<u4"),
        ("awaits_transfer", <char *> &e.awaits_transfer - base, "<u4"),
    ]


def event_bytes() -> int:
    """The size of an event record."""
    return sizeof(vt_event)


def record_compile(
    uint32_t program, uint32_t stack, int64_t began_ns, int64_t host_ns, int64_t size,
    bint from_cache, bint failed,
) -> None:
    """Records that `program` was compiled, in `host_ns`."""
    cdef vt_event event
    memset(&event, 0, sizeof(event))
    event.kind = VT_COMPILE
    event.flags = (VT_FLAG_CACHED if from_cache else 0) | (VT_FLAG_FAILED if failed else 0)
    event.time_ns = began_ns
    event.host_ns = host_ns
    event.bytes = size
    event.address = -1
    event.stack = stack
    event.program = program
    event.device = -1
    here = vt_host_time_now()
    event.thread = here.thread
    event.cpu_ns = here.cpu_ns
    with nogil:
        vt_record_alone(&event)


def drain_events() -> bytes:
    """All events since the last call, as an array of records (see `EVENT_FIELDS`)."""
    cdef vt_event *events
    cdef size_t count
    with nogil:
        count = vt_drain(&events)
    data = (<char *> events)[:count * sizeof(vt_event)] if count else b""
    free(events)
    return data


def start_writer() -> bool:
    """Has `handlers.flush` called from now on, on a thread of the core's own. False: none is left."""
    return vt_writer_start()


def hurry_writer() -> None:
    """Has what happened written down now. Does not wait."""
    with nogil:
        vt_writer_hurry()


def await_writer() -> None:
    """Waits until what happened so far is written down; no signal ends that early."""
    with nogil:
        vt_writer_catch_up()


def end_writer() -> None:
    """The same for the last time: nothing is recorded any more."""
    with nogil:
        vt_writer_end()


def dropped_events() -> int:
    """Events lost because the machine had no memory for them."""
    return vt_dropped()


def now_ns() -> int:
    """Nanoseconds since the recording began."""
    return vt_now()


def begin_leaving() -> None:
    """The interpreter ends soon: other threads that come into the core stay there."""
    vt_begin_leaving()


def keep_forever(object value) -> None:
    """`value` is never destroyed in this process."""
    Py_INCREF(value)


def threads_staying() -> int:
    """How many threads wait in the core for the interpreter's end."""
    return vt_threads_staying()


def raise_later(exception) -> None:
    """Raises `exception` in the main thread when that next runs Python.

    For what interrupts a call of the ABI, which can only answer with an error code.
    """
    Py_INCREF(exception)
    if Py_AddPendingCall(raise_pending, <void *> exception) != 0:
        Py_DECREF(exception)


cdef int raise_pending(void *argument) noexcept:
    cdef object exception = <object> argument
    Py_DECREF(exception)
    PyErr_SetObject(type(exception), exception)
    return -1


def set_assuming(bint assuming) -> None:
    """Whether what this thread reads is what other hosts are taken to have."""
    vt_set_assuming(assuming)


def stack_of(frame) -> int:
    """The number of the Python stack that ends in `frame`."""
    return vt_stack_of(<PyFrameObject *> <void *> frame)


def stacks_after(size_t number) -> list:
    """Stacks with higher numbers, in order: lists of (file, function, line), innermost first."""
    cdef const vt_frame *frames
    cdef uint32_t depth
    out = []
    for n in range(number + 1, vt_stack_count() + 1):
        depth = vt_stack_frames(n, &frames)
        stack = []
        for i in range(depth):
            code = <object> frames[i].code
            line = PyCode_Addr2Line(frames[i].code, <int> frames[i].lasti)
            stack.append((code.co_filename, code.co_qualname, line))
        out.append(stack)
    return out


def shapes_from(size_t first) -> list:
    """Shapes with ids from `first`: (element type, dims, layout, logical bytes, device bytes)."""
    cdef const vt_shape *shape
    out = []
    for i in range(first, vt_shape_count()):
        shape = vt_shape_at(i)
        out.append((
            <int> shape.type, dims_of(shape.dims, shape.rank),
            shape.layout_text[:shape.layout_text_size].decode(),
            shape.logical_bytes, shape.device_bytes,
        ))
    return out


def function_names() -> list:
    """Names of the ABI's functions by the number that events of unsupported calls carry."""
    out = []
    while vt_function_name(len(out)) != NULL:
        out.append(vt_function_name(len(out)).decode())
    return out


def memory_state(uintptr_t client) -> list:
    """Per addressable device: (id, in use, peak in use, peak in use and reserved, its event, limit,
    largest free block, reservable, host bytes in use, peak host bytes)."""
    cdef PJRT_Client *c = <PJRT_Client *> client
    cdef PJRT_Device *device
    cdef PJRT_Memory *hbm
    out = []
    for i in range(c.num_addressable):
        device = c.addressable[i]
        hbm = &device.memories[0]
        out.append((
            device.description.id, hbm.in_use, hbm.peak_in_use, hbm.peak_total, hbm.peak_event,
            hbm.limit, vt_arena_largest_free(&hbm.arena), vt_arena_reservable(&hbm.arena),
            device.memories[1].in_use + device.memories[2].in_use,
            device.memories[1].peak_in_use + device.memories[2].peak_in_use,
        ))
    return out
