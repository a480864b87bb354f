/* Bytes between host and device, and between memories. */
#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "fingerprint.h"
#include "pace.h"
#include "strides.h"
#include "values.h"

typedef struct transfer {
  enum vt_event_kind kind;
  PJRT_Buffer *buffer;
  int64_t bytes;
  int64_t began;
  uint32_t stack;
  uint8_t flags;
  uint16_t why;
  int64_t fingerprint; /* of what the host sends; 0: not taken */
} transfer;

static uint32_t transfers; /* that filled a buffer so far; guarded by vt_lock */

/* With pace: when a transfer is done whose source is there at `source_ns`. */
static int64_t keep_pace(vt_event event, uint32_t number, int64_t source_ns) {
  if (!vt_pace_on || !vt_python_alive()) return 0;
  volatile int64_t ready_ns = 0;
  event.time_ns = vt_now();
  VT_WITH_PYTHON(ready_ns = vt_python.place_transfer(&event, number, source_ns));
  return ready_ns;
}

/* Returns when the transfer is done, see vt_event_at. */
static int64_t record(transfer t) {
  vt_host_time here = vt_host_time_now();
  bool is_read = t.kind == VT_DEVICE_TO_HOST;
  pthread_mutex_lock(&vt_lock);
  if (!is_read) t.buffer->transfer = ++transfers;
  vt_event event = {.kind = t.kind,
                    .flags = (uint8_t)(t.buffer->memory->kind | t.flags),
                    .time_ns = t.began,
                    .host_ns = vt_now() - t.began,
                    .bytes = t.bytes,
                    .address = t.fingerprint ? t.fingerprint : -1,
                    .subject = t.buffer->id,
                    .stack = t.stack,
                    .device = t.buffer->memory->device->description->id,
                    .detail = t.buffer->shape->id,
                    .why = t.why,
                    .thread = here.thread,
                    .cpu_ns = here.cpu_ns,
                    .awaits_execution = is_read ? t.buffer->execution : 0,
                    .awaits_transfer = is_read ? t.buffer->transfer : 0};
  vt_record(&event);
  uint32_t number = is_read ? 0 : t.buffer->transfer;
  pthread_mutex_unlock(&vt_lock);
  int64_t ready_ns = keep_pace(event, number, is_read ? t.buffer->ready_ns : 0);
  if (!is_read) t.buffer->ready_ns = ready_ns;
  vt_may_stay();
  return ready_ns;
}

/* ---- host to device ---- */

/* 0 of an array in another order, which would have to be put in order first. */
static int64_t fingerprint(const vt_shape *shape, const void *data, const int64_t *strides,
                           size_t num_strides) {
  if (num_strides && !vt_strides_are_dense(shape, strides)) return 0;
  return vt_fingerprint(data, (size_t)shape->logical_bytes);
}

PJRT_Error *PJRT_Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args *args) {
  PJRT_Error *error = NULL;
  int64_t began = vt_now();
  uint32_t stack = vt_stack_here();
  const vt_shape *shape =
      vt_shape_with_layout(args->type, args->dims, args->num_dims, args->device_layout, &error);
  if (!shape) return error;
  PJRT_Memory *memory = args->memory ? args->memory : &args->device->memories[VT_DEVICE];
  args->buffer = vt_buffer_new(shape, memory, stack, &error);
  if (!args->buffer) return error;
  if (vt_values_on)
    args->buffer->value =
        vt_value_of_memory(shape, args->data, args->byte_strides, args->num_byte_strides);
  args->done_with_host_buffer = &vt_ready_event;
  record((transfer){
      VT_HOST_TO_DEVICE, args->buffer, shape->logical_bytes, began, stack, 0, 0,
      fingerprint(shape, args->data, args->byte_strides, args->num_byte_strides)});
  return NULL;
}

struct PJRT_AsyncHostToDeviceTransferManager {
  PJRT_Device *device;
  size_t num_buffers;
  PJRT_Buffer **buffers; /* NULL once retrieved */
  const vt_shape **shapes;
  vt_value **values; /* what arrives is written here; NULL when it is not followed */
};

static void free_manager(PJRT_AsyncHostToDeviceTransferManager *manager) {
  for (size_t i = 0; i < manager->num_buffers; i++)
    if (manager->buffers[i])
      PJRT_Buffer_Destroy(&(PJRT_Buffer_Destroy_Args){.buffer = manager->buffers[i]});
  pthread_mutex_lock(&vt_lock);
  for (size_t i = 0; i < manager->num_buffers; i++) vt_value_release(manager->values[i]);
  pthread_mutex_unlock(&vt_lock);
  free(manager->values);
  free(manager->buffers);
  free(manager->shapes);
  free(manager);
}

PJRT_Error *PJRT_Client_CreateBuffersForAsyncHostToDevice(
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args *args) {
  PJRT_AsyncHostToDeviceTransferManager *manager = calloc(1, sizeof *manager);
  if (!manager) return vt_no_memory();
  manager->device = args->memory->device;
  manager->buffers = calloc(args->num_shape_specs + 1, sizeof *manager->buffers);
  manager->shapes = calloc(args->num_shape_specs + 1, sizeof *manager->shapes);
  manager->values = calloc(args->num_shape_specs + 1, sizeof *manager->values);
  uint32_t stack = vt_stack_here();
  for (size_t i = 0; i < args->num_shape_specs; i++) {
    PJRT_ShapeSpec *spec = &args->shape_specs[i];
    PJRT_Error *error = NULL;
    PJRT_Buffer_MemoryLayout *layout =
        i < args->num_device_layouts ? args->device_layouts[i] : NULL;
    const vt_shape *shape =
        vt_shape_with_layout(spec->element_type, spec->dims, spec->num_dims, layout, &error);
    PJRT_Buffer *buffer = shape ? vt_buffer_new(shape, args->memory, stack, &error) : NULL;
    if (!buffer) {
      free_manager(manager);
      return error;
    }
    manager->shapes[i] = shape;
    manager->buffers[i] = buffer;
    manager->num_buffers = i + 1;
    if (vt_values_on) {
      manager->values[i] = vt_value_of_host(shape, vt_bytes_new((size_t)shape->logical_bytes));
      pthread_mutex_lock(&vt_lock);
      buffer->value = vt_value_retain(manager->values[i]);
      pthread_mutex_unlock(&vt_lock);
    }
  }
  args->transfer_manager = manager;
  return NULL;
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_Destroy(
    PJRT_AsyncHostToDeviceTransferManager_Destroy_Args *args) {
  free_manager(args->transfer_manager);
  return NULL;
}

static PJRT_Error *check_index(const PJRT_AsyncHostToDeviceTransferManager *manager, int index) {
  if (index >= 0 && (size_t)index < manager->num_buffers) return NULL;
  return vt_error(PJRT_Error_Code_INVALID_ARGUMENT, "buffer index %d of a transfer of %zu buffers",
                  index, manager->num_buffers);
}

static void record_arrival(PJRT_AsyncHostToDeviceTransferManager *manager, int index,
                           int64_t bytes) {
  PJRT_Buffer *buffer = manager->buffers[index];
  if (buffer) /* else it was retrieved and may be gone: its bytes were counted as they began */
    record((transfer){VT_HOST_TO_DEVICE, buffer, bytes, vt_now(), vt_stack_here(), 0, 0,
                      0});
}

/* Part of an array's contents, row-major. */
static void write_down(const PJRT_AsyncHostToDeviceTransferManager *manager, int index,
                       const void *data, int64_t offset, int64_t size) {
  const vt_value *value = manager->values[index];
  if (value && value->bytes && offset >= 0 && size >= 0 &&
      offset + size <= (int64_t)value->bytes->size)
    memcpy(value->bytes->data + offset, data, (size_t)size);
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_TransferData(
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args *args) {
  PJRT_Error *error = check_index(args->transfer_manager, args->buffer_index);
  if (error) return error;
  write_down(args->transfer_manager, args->buffer_index, args->data, args->offset,
             args->transfer_size);
  record_arrival(args->transfer_manager, args->buffer_index, args->transfer_size);
  args->done_with_h2d_transfer = &vt_ready_event;
  return NULL;
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_TransferLiteral(
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args *args) {
  PJRT_AsyncHostToDeviceTransferManager *manager = args->transfer_manager;
  PJRT_Error *error = check_index(manager, args->buffer_index);
  if (error) return error;
  int64_t size = manager->shapes[args->buffer_index]->logical_bytes;
  write_down(manager, args->buffer_index, args->data, 0, size);
  record_arrival(manager, args->buffer_index, size);
  args->done_with_h2d_transfer = &vt_ready_event;
  return NULL;
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args *args) {
  PJRT_AsyncHostToDeviceTransferManager *manager = args->transfer_manager;
  PJRT_Error *error = check_index(manager, args->buffer_index);
  if (error) return error;
  args->buffer_out = manager->buffers[args->buffer_index];
  manager->buffers[args->buffer_index] = NULL;
  if (args->buffer_out) return NULL;
  return vt_error(PJRT_Error_Code_INVALID_ARGUMENT, "buffer %d was retrieved before",
                  args->buffer_index);
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_Device(
    PJRT_AsyncHostToDeviceTransferManager_Device_Args *args) {
  args->device_out = args->transfer_manager->device;
  return NULL;
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_BufferCount(
    PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args *args) {
  args->buffer_count = args->transfer_manager->num_buffers;
  return NULL;
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_BufferSize(
    PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args *args) {
  PJRT_Error *error = check_index(args->transfer_manager, args->buffer_index);
  if (error) return error;
  args->buffer_size = (size_t)args->transfer_manager->shapes[args->buffer_index]->device_bytes;
  return NULL;
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_SetBufferError(
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args *args) {
  PJRT_AsyncHostToDeviceTransferManager *manager = args->transfer_manager;
  PJRT_Error *error = check_index(manager, args->buffer_index);
  if (error) return error;
  PJRT_Buffer *buffer = manager->buffers[args->buffer_index];
  if (!buffer)
    return vt_error(PJRT_Error_Code_UNIMPLEMENTED,
                    "PJRT_AsyncHostToDeviceTransferManager_SetBufferError after the buffer was "
                    "retrieved is not simulated by vtpu");
  vt_buffer_poison(buffer, args->error_code, args->error_message, args->error_message_size);
  return NULL;
}

PJRT_Error *PJRT_AsyncHostToDeviceTransferManager_AddMetadata(
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args *args) {
  (void)args; /* notes for a profiler of the real transfer */
  return NULL;
}

/* ---- device to host ---- */

static _Thread_local bool is_assuming;

void vt_set_assuming(bool assuming) { is_assuming = assuming; }

static uint8_t value_flag(uint16_t why) {
  return is_assuming ? VT_FLAG_ASSUMED : why ? VT_FLAG_FABRICATED : 0;
}

PJRT_Error *PJRT_Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args *args) {
  PJRT_Buffer *buffer = args->src;
  size_t size = (size_t)buffer->shape->logical_bytes;
  if (!args->dst) {
    args->dst_size = size;
    return NULL;
  }
  PJRT_Error *error = vt_buffer_unusable(buffer, "ToLiteral()");
  if (error) return error;
  if (args->dst_size < size)
    return vt_error(PJRT_Error_Code_INVALID_ARGUMENT, "%zu bytes do not fit into %zu", size,
                    args->dst_size);
  uint32_t stack = vt_stack_here();
  uint16_t why = 0;
  error = vt_buffer_read(buffer, args->dst, args->host_layout, &why);
  if (error && !why) return error;
  int64_t began = vt_now(); /* computing a value is nothing that happens on the slice */
  args->event = vt_event_at(record((transfer){VT_DEVICE_TO_HOST, buffer, (int64_t)size, began, stack,
                                              size ? value_flag(why) : 0, why, 0}));
  return error; /* of what is unknown: the slice would have sent it all the same */
}

PJRT_Error *PJRT_Buffer_CopyRawToHost(PJRT_Buffer_CopyRawToHost_Args *args) {
  PJRT_Error *error = vt_buffer_unusable(args->buffer, "CopyRawToHost()");
  if (error) return error;
  if (args->offset < 0 || args->transfer_size < 0 ||
      args->offset + args->transfer_size > args->buffer->shape->device_bytes)
    return vt_error(PJRT_Error_Code_INVALID_ARGUMENT,
                    "CopyRawToHost of %lld bytes at %lld: the buffer has %lld",
                    (long long)args->transfer_size, (long long)args->offset,
                    (long long)args->buffer->shape->device_bytes);
  int64_t began = vt_now();
  uint32_t stack = vt_stack_here();
  memset(args->dst, 0, (size_t)args->transfer_size);
  args->event = vt_event_at(record((transfer){VT_DEVICE_TO_HOST, args->buffer, args->transfer_size,
                                              began, stack, VT_FLAG_FABRICATED, VT_WHY_RAW, 0}));
  return NULL;
}

/* ---- between memories ---- */

static PJRT_Error *copy_to(PJRT_Buffer *from, PJRT_Memory *memory, PJRT_Buffer **to) {
  PJRT_Error *error = vt_buffer_unusable(from, "CopyToMemorySpace()");
  if (error) return error;
  int64_t began = vt_now();
  uint32_t stack = vt_stack_here();
  *to = vt_buffer_new(from->shape, memory, stack, &error);
  if (!*to) return error;
  vt_host_time here = vt_host_time_now();
  pthread_mutex_lock(&vt_lock);
  (*to)->value = vt_value_retain(from->value);
  (*to)->transfer = ++transfers;
  vt_event event = {
      .kind = VT_COPY,
      .flags = (uint8_t)(memory->kind | from->memory->kind << VT_FLAG_SOURCE_SHIFT),
      .time_ns = began, .host_ns = vt_now() - began, .bytes = from->shape->device_bytes,
      .address = -1, .subject = (*to)->id, .stack = stack,
      .device = memory->device->description->id,
      .detail = (uint32_t)from->memory->device->description->id,
      .thread = here.thread, .cpu_ns = here.cpu_ns,
      .awaits_execution = from->execution, .awaits_transfer = from->transfer};
  vt_record(&event);
  pthread_mutex_unlock(&vt_lock);
  (*to)->ready_ns = keep_pace(event, (*to)->transfer, from->ready_ns);
  return NULL;
}

PJRT_Error *PJRT_Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args *args) {
  return copy_to(args->buffer, args->dst_memory, &args->dst_buffer);
}

PJRT_Error *PJRT_Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args *args) {
  return copy_to(args->buffer, &args->dst_device->memories[VT_DEVICE], &args->dst_buffer);
}
