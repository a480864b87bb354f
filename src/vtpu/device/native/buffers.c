/* Buffers: their memory, and what JAX asks of each. */
#include "buffers.h"

#include <Python.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

static uint64_t next_buffer_id = 1;

static void note_peak(PJRT_Memory *memory, int64_t total, uint64_t event) {
  if (total > memory->peak_total) {
    memory->peak_total = total;
    memory->peak_event = event;
  }
}

static bool take_memory(PJRT_Buffer *buffer) {
  PJRT_Memory *memory = buffer->memory;
  int64_t bytes = buffer->shape->device_bytes;
  if (memory->has_arena && bytes > 0) {
    buffer->block = vt_arena_allocate(&memory->arena, bytes);
    if (!buffer->block) return false;
    memory->in_use = memory->arena.in_use;
  } else {
    memory->in_use += bytes;
  }
  buffer->holds_bytes = true;
  memory->num_allocations++;
  if (bytes > memory->largest_allocation) memory->largest_allocation = bytes;
  if (memory->in_use > memory->peak_in_use) memory->peak_in_use = memory->in_use;
  return true;
}

static vt_event event_of(const PJRT_Buffer *buffer, enum vt_event_kind kind) {
  return (vt_event){.kind = kind,
                    .flags = (uint8_t)buffer->memory->kind,
                    .device = buffer->memory->device->description->id,
                    .bytes = buffer->block ? vt_block_size(buffer->block)
                                           : buffer->shape->device_bytes,
                    .address = buffer->block ? vt_block_address(buffer->block) : -1,
                    .subject = buffer->id,
                    .detail = buffer->shape->id,
                    .host_ns = -1};
}

static void record_allocation(PJRT_Buffer *buffer, vt_origin origin, uint8_t flags) {
  vt_event event = event_of(buffer, VT_ALLOCATE);
  event.stack = origin.stack;
  event.program = origin.program;
  event.flags |= flags;
  note_peak(buffer->memory, buffer->memory->in_use, vt_record(&event));
}

static PJRT_Buffer *new_handle(const vt_shape *shape, PJRT_Memory *memory) {
  PJRT_Buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) return NULL;
  buffer->shape = shape;
  buffer->memory = memory;
  buffer->id = next_buffer_id++;
  return buffer;
}

PJRT_Buffer *vt_buffer_place(const vt_shape *shape, PJRT_Memory *memory, vt_origin origin) {
  PJRT_Buffer *buffer = new_handle(shape, memory);
  if (!buffer) return NULL;
  if (!take_memory(buffer)) {
    free(buffer);
    return NULL;
  }
  record_allocation(buffer, origin, 0);
  return buffer;
}

static void release_value(PJRT_Buffer *buffer) {
  vt_value *value = buffer->value;
  buffer->value = NULL;
  vt_value_release(value);
}

PJRT_Buffer *vt_buffer_take_over(PJRT_Buffer *donated, const vt_shape *shape, vt_origin origin) {
  PJRT_Buffer *buffer = new_handle(shape, donated->memory);
  if (!buffer) return NULL;
  vt_event freed = event_of(donated, VT_FREE);
  freed.flags |= VT_FLAG_ALIASED;
  vt_record(&freed);
  buffer->block = donated->block;
  buffer->holds_bytes = donated->holds_bytes;
  donated->block = NULL;
  donated->holds_bytes = false;
  donated->is_deleted = true;
  release_value(donated);
  record_allocation(buffer, origin, VT_FLAG_ALIASED);
  return buffer;
}

static void give_memory_back(PJRT_Buffer *buffer, uint8_t flags) {
  if (!buffer->holds_bytes) return;
  vt_event event = event_of(buffer, VT_FREE);
  event.flags |= flags;
  vt_record(&event);
  PJRT_Memory *memory = buffer->memory;
  if (buffer->block) {
    vt_arena_free(&memory->arena, buffer->block);
    memory->in_use = memory->arena.in_use;
  } else {
    memory->in_use -= buffer->shape->device_bytes;
  }
  buffer->block = NULL;
  buffer->holds_bytes = false;
}

void vt_buffer_end(PJRT_Buffer *buffer, bool is_donation) {
  buffer->is_deleted = true;
  release_value(buffer);
  if (buffer->external_references == 0) give_memory_back(buffer, is_donation ? VT_FLAG_ALIASED : 0);
}

void vt_buffer_discard(PJRT_Buffer *buffer) {
  release_value(buffer);
  give_memory_back(buffer, 0);
  free(buffer);
}

void vt_memory_note_reserved(PJRT_Memory *memory, int64_t bytes, uint64_t event) {
  if (bytes > memory->peak_reserved) memory->peak_reserved = bytes;
  note_peak(memory, memory->in_use + bytes, event);
}

PJRT_Error *vt_buffer_full(PJRT_Memory *memory, int64_t bytes, vt_origin origin,
                           const char *prefix, const char *suffix) {
  char wanted[32], free_text[32], largest_text[32], fragmented[160] = "";
  int64_t free_bytes = memory->limit - memory->in_use;
  int64_t largest = vt_arena_largest_free(&memory->arena);
  vt_record(&(vt_event){.kind = VT_FAILURE, .flags = (uint8_t)memory->kind, .bytes = bytes,
                        .address = -1, .device = memory->device->description->id,
                        .stack = origin.stack, .program = origin.program, .host_ns = -1});
  if (bytes <= free_bytes)
    snprintf(fragmented, sizeof fragmented,
             " Due to fragmentation, the largest contiguous region of free memory is %s.",
             vt_human_bytes(largest, largest_text));
  return vt_error(PJRT_Error_Code_RESOURCE_EXHAUSTED,
                  "%sAttempting to allocate %s. That was not possible. There are %s free.%s; "
                  "(%s)%s",
                  prefix, vt_human_bytes(bytes, wanted), vt_human_bytes(free_bytes, free_text),
                  fragmented, memory->device->place, suffix);
}

PJRT_Buffer *vt_buffer_new(const vt_shape *shape, PJRT_Memory *memory, uint32_t stack,
                           PJRT_Error **error) {
  vt_origin origin = {.stack = stack};
  pthread_mutex_lock(&vt_lock);
  PJRT_Buffer *buffer = vt_buffer_place(shape, memory, origin);
  if (!buffer)
    *error = vt_buffer_full(memory, shape->device_bytes, origin,
                            "Error allocating device buffer: ", "");
  pthread_mutex_unlock(&vt_lock);
  return buffer;
}

PJRT_Error *vt_buffer_read(PJRT_Buffer *buffer, void *out, const PJRT_Buffer_MemoryLayout *layout,
                           uint16_t *why) {
  pthread_mutex_lock(&vt_lock);
  vt_value *value = vt_value_retain(buffer->value);
  pthread_mutex_unlock(&vt_lock);
  PJRT_Error *error = vt_value_read(value, buffer->shape, out, layout, why);
  pthread_mutex_lock(&vt_lock);
  vt_value_release(value);
  pthread_mutex_unlock(&vt_lock);
  return error;
}

/* ---- what JAX asks of a buffer ---- */

PJRT_Error *PJRT_Buffer_ElementType(PJRT_Buffer_ElementType_Args *args) {
  args->type = args->buffer->shape->type;
  return NULL;
}

PJRT_Error *PJRT_Buffer_Dimensions(PJRT_Buffer_Dimensions_Args *args) {
  args->dims = args->buffer->shape->dims;
  args->num_dims = args->buffer->shape->rank;
  return NULL;
}

PJRT_Error *PJRT_Buffer_UnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args *args) {
  args->unpadded_dims = args->buffer->shape->dims;
  args->num_dims = args->buffer->shape->rank;
  return NULL;
}

PJRT_Error *PJRT_Buffer_DynamicDimensionIndices(PJRT_Buffer_DynamicDimensionIndices_Args *args) {
  args->dynamic_dim_indices = NULL;
  args->num_dynamic_dims = 0;
  return NULL;
}

PJRT_Error *PJRT_Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args *args) {
  args->layout = args->buffer->shape->layout;
  return NULL;
}

PJRT_Error *PJRT_Buffer_OnDeviceSizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args *args) {
  args->on_device_size_in_bytes = (size_t)args->buffer->shape->device_bytes;
  return NULL;
}

PJRT_Error *PJRT_Buffer_Device(PJRT_Buffer_Device_Args *args) {
  args->device = args->buffer->memory->device;
  return NULL;
}

PJRT_Error *PJRT_Buffer_Memory(PJRT_Buffer_Memory_Args *args) {
  args->memory = args->buffer->memory;
  return NULL;
}

PJRT_Error *PJRT_Buffer_IsDeleted(PJRT_Buffer_IsDeleted_Args *args) {
  args->is_deleted = args->buffer->is_deleted;
  return NULL;
}

PJRT_Error *PJRT_Buffer_IsOnCpu(PJRT_Buffer_IsOnCpu_Args *args) {
  args->is_on_cpu = false;
  return NULL;
}

/* Who waits for an array asks for its event without the interpreter's lock; is_ready() keeps that. The
 * caller may hold locks of its own, so the lock cannot be taken here, and the wait has no stack. */
static void record_wait(const PJRT_Buffer *buffer) {
  if (!vt_python_alive() || PyGILState_Check()) return;
  vt_host_time here = vt_host_time_now();
  vt_event wait = {.kind = VT_WAIT, .flags = (uint8_t)buffer->memory->kind, .address = -1,
                   .device = buffer->memory->device->description->id, .subject = buffer->id,
                   .thread = here.thread, .cpu_ns = here.cpu_ns,
                   .awaits_execution = buffer->execution, .awaits_transfer = buffer->transfer};
  pthread_mutex_lock(&vt_lock);
  if (!vt_is_waiting_on(&wait)) vt_record(&wait);
  pthread_mutex_unlock(&vt_lock);
}

PJRT_Error *PJRT_Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args *args) {
  const PJRT_Buffer *buffer = args->buffer;
  record_wait(buffer);
  args->event = buffer->error_code ? vt_failed_event(buffer->error_code, buffer->error_message)
                                   : vt_event_at(buffer->ready_ns);
  return args->event ? NULL : vt_no_memory();
}

PJRT_Error *vt_buffer_unusable(const PJRT_Buffer *buffer, const char *what) {
  if (buffer->is_deleted)
    return vt_error(PJRT_Error_Code_INVALID_ARGUMENT, "%s called on deleted or donated buffer",
                    what);
  if (buffer->error_code) return vt_error(buffer->error_code, "%s", buffer->error_message);
  return NULL;
}

void vt_buffer_poison(PJRT_Buffer *buffer, PJRT_Error_Code code, const char *message,
                      size_t message_size) {
  char *copy = strndup(message, message_size);
  pthread_mutex_lock(&vt_lock);
  char *old = buffer->error_message;
  buffer->error_message = copy;
  buffer->error_code = copy ? code : PJRT_Error_Code_OK;
  pthread_mutex_unlock(&vt_lock);
  free(old);
}

/* A number that no other live buffer has: the memory's id above 44 bits of address. */
static uintptr_t address_of(const PJRT_Buffer *buffer) {
  uintptr_t base = ((uintptr_t)buffer->memory->id + 1) << 44;
  return base + (buffer->block ? (uintptr_t)vt_block_address(buffer->block)
                               : ((uintptr_t)buffer->id << 9));
}

PJRT_Error *PJRT_Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args *args) {
  args->buffer_pointer = address_of(args->buffer);
  return NULL;
}

static PJRT_Error *show_host_bytes(PJRT_Buffer *buffer) {
  size_t device_bytes = (size_t)buffer->shape->device_bytes;
  size_t logical_bytes = (size_t)buffer->shape->logical_bytes;
  void *bytes = calloc(1, (device_bytes > logical_bytes ? device_bytes : logical_bytes) + 1);
  if (!bytes) return vt_no_memory();
  uint16_t why;
  PJRT_Error *error = vt_buffer_read(buffer, bytes, NULL, &why);
  if (error) {
    free(bytes);
    return error;
  }
  buffer->host_bytes = bytes;
  return NULL;
}

PJRT_Error *PJRT_Buffer_OpaqueDeviceMemoryDataPointer(
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args *args) {
  PJRT_Buffer *buffer = args->buffer;
  if (buffer->foreign) {
    args->device_memory_ptr = buffer->foreign;
  } else if (buffer->memory->kind == VT_DEVICE) {
    args->device_memory_ptr = (void *)address_of(buffer);
  } else { /* whoever asks may read it */
    if (!buffer->host_bytes) {
      PJRT_Error *error = show_host_bytes(buffer);
      if (error) return error;
    }
    args->device_memory_ptr = buffer->host_bytes;
  }
  return NULL;
}

PJRT_Error *PJRT_Buffer_IncreaseExternalReferenceCount(
    PJRT_Buffer_IncreaseExternalReferenceCount_Args *args) {
  pthread_mutex_lock(&vt_lock);
  args->buffer->external_references++;
  pthread_mutex_unlock(&vt_lock);
  return NULL;
}

PJRT_Error *PJRT_Buffer_DecreaseExternalReferenceCount(
    PJRT_Buffer_DecreaseExternalReferenceCount_Args *args) {
  PJRT_Buffer *buffer = args->buffer;
  pthread_mutex_lock(&vt_lock);
  if (--buffer->external_references == 0 && buffer->is_deleted) give_memory_back(buffer, 0);
  pthread_mutex_unlock(&vt_lock);
  return NULL;
}

static void return_foreign(PJRT_Buffer *buffer) {
  void (*on_delete)(void *, void *) = buffer->on_delete;
  buffer->on_delete = NULL;
  if (on_delete) on_delete(buffer->foreign, buffer->on_delete_argument);
}

PJRT_Error *PJRT_Buffer_Delete(PJRT_Buffer_Delete_Args *args) {
  pthread_mutex_lock(&vt_lock);
  vt_buffer_end(args->buffer, false);
  pthread_mutex_unlock(&vt_lock);
  return_foreign(args->buffer);
  return NULL;
}

PJRT_Error *PJRT_Buffer_Destroy(PJRT_Buffer_Destroy_Args *args) {
  PJRT_Buffer *buffer = args->buffer;
  pthread_mutex_lock(&vt_lock);
  release_value(buffer);
  give_memory_back(buffer, 0);
  pthread_mutex_unlock(&vt_lock);
  return_foreign(buffer);
  free(buffer->host_bytes);
  free(buffer->error_message);
  free(buffer);
  return NULL;
}

/* Memory that somebody else owns: it takes none of the slice's. */
PJRT_Error *PJRT_Client_CreateViewOfDeviceBuffer(PJRT_Client_CreateViewOfDeviceBuffer_Args *args) {
  PJRT_Error *error = NULL;
  const vt_shape *shape = vt_shape_with_layout(args->element_type, args->dims, args->num_dims,
                                               args->layout, &error);
  if (!shape) return error;
  PJRT_Memory *memory = args->memory ? args->memory : &args->device->memories[VT_DEVICE];
  pthread_mutex_lock(&vt_lock);
  args->buffer = new_handle(shape, memory);
  pthread_mutex_unlock(&vt_lock);
  if (!args->buffer) return vt_no_memory();
  args->buffer->foreign = args->device_buffer_ptr;
  args->buffer->on_delete = args->on_delete_callback;
  args->buffer->on_delete_argument = args->on_delete_callback_arg;
  if (vt_values_on && memory->kind != VT_DEVICE) /* whose memory there is to read */
    args->buffer->value = vt_value_of_memory(shape, args->device_buffer_ptr, NULL, 0);
  return NULL;
}

PJRT_Error *PJRT_Client_CreateUninitializedBuffer(
    PJRT_Client_CreateUninitializedBuffer_Args *args) {
  PJRT_Error *error = NULL;
  const vt_shape *shape = vt_shape_with_layout(args->shape_element_type, args->shape_dims,
                                               args->shape_num_dims, args->shape_layout, &error);
  if (!shape) return error;
  PJRT_Memory *memory = args->memory ? args->memory : &args->device->memories[VT_DEVICE];
  args->buffer = vt_buffer_new(shape, memory, vt_stack_here(), &error);
  return error;
}

/* A buffer whose contents are an error from the start. It takes no memory. */
PJRT_Error *PJRT_Client_CreateErrorBuffer(PJRT_Client_CreateErrorBuffer_Args *args) {
  PJRT_Error *error = NULL;
  const vt_shape *shape = vt_shape_with_layout(args->shape_element_type, args->shape_dims,
                                               args->shape_num_dims, args->shape_layout, &error);
  if (!shape) return error;
  pthread_mutex_lock(&vt_lock);
  args->buffer = new_handle(shape, args->memory);
  pthread_mutex_unlock(&vt_lock);
  if (!args->buffer) return vt_no_memory();
  vt_buffer_poison(args->buffer, args->error_code, args->error_message, args->error_message_size);
  return NULL;
}
