#include "callbacks.h"

#include <stdlib.h>
#include <string.h>

typedef PJRT_Error *(*callback_error)(PJRT_Error_Code, char *, size_t);

static PJRT_Error *make_error(PJRT_Error_Code code, char *message, size_t size) {
  return vt_error(code, "%.*s", (int)size, message);
}

static const vt_host_transfer *channel(const PJRT_Executable *executable, int64_t id) {
  for (size_t i = 0; i < executable->num_host_transfers; i++)
    if (executable->host_transfers[i].channel_id == id) return &executable->host_transfers[i];
  return NULL;
}

static void free_zeros(void *data, void *argument) {
  (void)argument;
  free(data);
}

static void record(const PJRT_Device *device, int64_t channel_id, int64_t bytes, int64_t began,
                   vt_origin origin) {
  pthread_mutex_lock(&vt_lock);
  vt_record(&(vt_event){.kind = VT_CALLBACK, .flags = VT_FLAG_FABRICATED, .time_ns = began,
                        .host_ns = vt_now() - began, .bytes = bytes, .address = -1,
                        .stack = origin.stack, .program = origin.program,
                        .device = device->description->id, .detail = (uint32_t)channel_id});
  pthread_mutex_unlock(&vt_lock);
}

/* Not when the compiler removed the transfer, nor when another device makes it. */
static bool takes_part(const vt_host_transfer *transfer, int logical) {
  return transfer && (transfer->only_on < 0 || transfer->only_on == logical);
}

static PJRT_Error *send(const PJRT_Executable *executable, const PJRT_SendCallbackInfo *info,
                        const PJRT_Device *device, int logical, vt_origin origin) {
  const vt_host_transfer *transfer = channel(executable, info->channel_id);
  if (!takes_part(transfer, logical)) return NULL;
  size_t size = (size_t)transfer->bytes;
  PJRT_Chunk chunk = {.data = calloc(1, size + 1), .size = size, .deleter = free_zeros};
  if (!chunk.data) return vt_no_memory();
  int64_t began = vt_now();
  callback_error to_error = make_error;
  PJRT_Error *error = info->send_callback(&chunk, &to_error, size, true, info->user_arg);
  record(device, info->channel_id, transfer->bytes, began, origin);
  return error;
}

/* ---- what the host gives back ---- */

struct PJRT_CopyToDeviceStream {
  int64_t total, current;
};

PJRT_Error *PJRT_CopyToDeviceStream_Destroy(PJRT_CopyToDeviceStream_Destroy_Args *args) {
  free(args->stream);
  return NULL;
}

PJRT_Error *PJRT_CopyToDeviceStream_AddChunk(PJRT_CopyToDeviceStream_AddChunk_Args *args) {
  PJRT_Chunk *chunk = args->chunk;
  args->stream->current += (int64_t)chunk->size;
  if (chunk->deleter) chunk->deleter(chunk->data, chunk->deleter_arg);
  args->transfer_complete = &vt_ready_event;
  return NULL;
}

PJRT_Error *PJRT_CopyToDeviceStream_TotalBytes(PJRT_CopyToDeviceStream_TotalBytes_Args *args) {
  args->total_bytes = args->stream->total;
  return NULL;
}

PJRT_Error *PJRT_CopyToDeviceStream_GranuleSize(PJRT_CopyToDeviceStream_GranuleSize_Args *args) {
  args->granule_size_in_bytes = 1;
  return NULL;
}

PJRT_Error *PJRT_CopyToDeviceStream_CurrentBytes(PJRT_CopyToDeviceStream_CurrentBytes_Args *args) {
  args->current_bytes = args->stream->current;
  return NULL;
}

static PJRT_Error *receive(const PJRT_Executable *executable, const PJRT_RecvCallbackInfo *info,
                           int logical) {
  const vt_host_transfer *transfer = channel(executable, info->channel_id);
  if (!takes_part(transfer, logical)) return NULL;
  PJRT_CopyToDeviceStream *stream = calloc(1, sizeof *stream);
  if (!stream) return vt_no_memory();
  stream->total = transfer->bytes;
  info->recv_callback(stream, info->user_arg);
  return NULL;
}

PJRT_Error *vt_run_host_callbacks(PJRT_LoadedExecutable_Execute_Args *args, vt_origin origin) {
  const PJRT_ExecuteOptions *options = args->options;
  const PJRT_LoadedExecutable *loaded = args->executable;
  for (size_t d = 0; d < args->num_devices; d++) {
    const PJRT_Device *device = args->execute_device ? args->execute_device
                                                     : loaded->addressable[d];
    int logical = args->execute_device ? 0 : loaded->logical_ids[d];
    for (size_t i = 0; i < options->num_send_ops; i++) {
      PJRT_Error *error =
          send(loaded->executable, &options->send_callbacks[d][i], device, logical,
               origin);
      if (error) return error;
    }
    for (size_t i = 0; i < options->num_recv_ops; i++) {
      PJRT_Error *error = receive(loaded->executable, &options->recv_callbacks[d][i], logical);
      if (error) return error;
    }
  }
  return NULL;
}
