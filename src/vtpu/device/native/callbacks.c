#include "callbacks.h"

#include <stdlib.h>
#include <string.h>

#include "values.h"

typedef PJRT_Error *(*callback_error)(PJRT_Error_Code, char *, size_t);

static PJRT_Error *make_error(PJRT_Error_Code code, char *message, size_t size) {
  return vt_error(code, "%.*s", (int)size, message);
}

static const vt_host_transfer *channel(const PJRT_Executable *executable, int64_t id) {
  for (size_t i = 0; i < executable->num_host_transfers; i++)
    if (executable->host_transfers[i].channel_id == id) return &executable->host_transfers[i];
  return NULL;
}

static void free_data(void *data, void *argument) {
  (void)argument;
  free(data);
}

static void record(const PJRT_Device *device, int64_t channel_id, int64_t bytes, int64_t began,
                   vt_origin origin, uint16_t why) {
  vt_host_time here = vt_host_time_now();
  pthread_mutex_lock(&vt_lock);
  vt_record(&(vt_event){.kind = VT_CALLBACK,
                        .thread = here.thread, .cpu_ns = here.cpu_ns,
                        .flags = why ? VT_FLAG_FABRICATED : 0, .why = why, .time_ns = began,
                        .host_ns = vt_now() - began, .bytes = bytes, .address = -1,
                        .stack = origin.stack, .program = origin.program,
                        .device = device->description->id, .detail = (uint32_t)channel_id});
  pthread_mutex_unlock(&vt_lock);
}

/* Not when the compiler removed the transfer, nor when another device makes it. */
static bool takes_part(const vt_host_transfer *transfer, int logical) {
  return transfer && (transfer->only_on < 0 || transfer->only_on == logical);
}

static const PJRT_SendCallbackInfo *send_info(const PJRT_ExecuteOptions *options, size_t d,
                                              int64_t id) {
  for (size_t i = 0; i < options->num_send_ops; i++)
    if (options->send_callbacks[d][i].channel_id == id) return &options->send_callbacks[d][i];
  return NULL;
}

static const PJRT_RecvCallbackInfo *recv_info(const PJRT_ExecuteOptions *options, size_t d,
                                              int64_t id) {
  for (size_t i = 0; i < options->num_recv_ops; i++)
    if (options->recv_callbacks[d][i].channel_id == id) return &options->recv_callbacks[d][i];
  return NULL;
}

static const PJRT_Device *device_of(const PJRT_LoadedExecutable_Execute_Args *args, size_t d) {
  return args->execute_device ? args->execute_device : args->executable->addressable[d];
}

/* `data`: what the host sees, which this takes over; 0 or `why` it is not the real thing. */
static PJRT_Error *send(PJRT_LoadedExecutable_Execute_Args *args, size_t d,
                        const PJRT_SendCallbackInfo *info, void *data, size_t size,
                        vt_origin origin, uint16_t why) {
  PJRT_Chunk chunk = {.data = data, .size = size, .deleter = free_data};
  int64_t began = vt_now();
  callback_error to_error = make_error;
  PJRT_Error *error = info->send_callback(&chunk, &to_error, size, true, info->user_arg);
  record(device_of(args, d), info->channel_id, (int64_t)size, began, origin, why);
  return error;
}

PJRT_Error *vt_send_to_host(PJRT_LoadedExecutable_Execute_Args *args, size_t d, int64_t channel_id,
                            const void *data, size_t size, vt_origin origin) {
  const PJRT_SendCallbackInfo *info = send_info(args->options, d, channel_id);
  if (!info) return NULL;
  void *copy = malloc(size + 1);
  if (!copy) return vt_no_memory();
  memcpy(copy, data, size);
  vt_pause_end(); /* what the user's function does is no work of vtpu's */
  PJRT_Error *error = send(args, d, info, copy, size, origin, 0);
  vt_pause_begin();
  return error;
}

/* ---- what the host gives back ---- */

/* It may come in pieces and from another thread, which ends the stream when it likes. */
typedef struct arrival {
  pthread_mutex_t lock;
  pthread_cond_t came;
  int references;
  int64_t current, total;
  char *data;
} arrival;

struct PJRT_CopyToDeviceStream {
  arrival *arrival;
};

static arrival *new_arrival(int64_t total) {
  arrival *a = calloc(1, sizeof *a);
  if (!a) return NULL;
  a->data = calloc(1, (size_t)total + 1);
  if (!a->data) {
    free(a);
    return NULL;
  }
  pthread_mutex_init(&a->lock, NULL);
  pthread_cond_init(&a->came, NULL);
  a->references = 2; /* the stream's and the waiting execution's */
  a->total = total;
  return a;
}

static void release_arrival(arrival *a) {
  pthread_mutex_lock(&a->lock);
  bool is_last = --a->references == 0;
  pthread_cond_broadcast(&a->came);
  pthread_mutex_unlock(&a->lock);
  if (!is_last) return;
  pthread_mutex_destroy(&a->lock);
  pthread_cond_destroy(&a->came);
  free(a->data);
  free(a);
}

/* Until all has come, or the other side ended the stream. */
static void wait_for(arrival *a) {
  pthread_mutex_lock(&a->lock);
  while (a->current < a->total && a->references == 2) pthread_cond_wait(&a->came, &a->lock);
  pthread_mutex_unlock(&a->lock);
}

PJRT_Error *PJRT_CopyToDeviceStream_Destroy(PJRT_CopyToDeviceStream_Destroy_Args *args) {
  release_arrival(args->stream->arrival);
  free(args->stream);
  return NULL;
}

PJRT_Error *PJRT_CopyToDeviceStream_AddChunk(PJRT_CopyToDeviceStream_AddChunk_Args *args) {
  PJRT_Chunk *chunk = args->chunk;
  arrival *a = args->stream->arrival;
  pthread_mutex_lock(&a->lock);
  bool fits = a->current + (int64_t)chunk->size <= a->total;
  if (fits) {
    memcpy(a->data + a->current, chunk->data, chunk->size);
    a->current += (int64_t)chunk->size;
  }
  pthread_cond_broadcast(&a->came);
  pthread_mutex_unlock(&a->lock);
  if (chunk->deleter) chunk->deleter(chunk->data, chunk->deleter_arg);
  args->transfer_complete = &vt_ready_event;
  return fits ? NULL
              : vt_error(PJRT_Error_Code_INVALID_ARGUMENT,
                         "the host sends more than the %lld bytes that the program receives",
                         (long long)a->total);
}

PJRT_Error *PJRT_CopyToDeviceStream_TotalBytes(PJRT_CopyToDeviceStream_TotalBytes_Args *args) {
  args->total_bytes = args->stream->arrival->total;
  return NULL;
}

PJRT_Error *PJRT_CopyToDeviceStream_GranuleSize(PJRT_CopyToDeviceStream_GranuleSize_Args *args) {
  args->granule_size_in_bytes = 1;
  return NULL;
}

PJRT_Error *PJRT_CopyToDeviceStream_CurrentBytes(PJRT_CopyToDeviceStream_CurrentBytes_Args *args) {
  args->current_bytes = args->stream->arrival->current;
  return NULL;
}

static PJRT_Error *receive(const PJRT_RecvCallbackInfo *info, int64_t bytes, arrival **out) {
  PJRT_CopyToDeviceStream *stream = calloc(1, sizeof *stream);
  if (stream) stream->arrival = new_arrival(bytes);
  if (!stream || !stream->arrival) {
    free(stream);
    return vt_no_memory();
  }
  *out = stream->arrival;
  info->recv_callback(stream, info->user_arg);
  return NULL;
}

PJRT_Error *vt_receive_from_host(PJRT_LoadedExecutable_Execute_Args *args, size_t d,
                                 int64_t channel_id, void *data, size_t size) {
  const PJRT_RecvCallbackInfo *info = recv_info(args->options, d, channel_id);
  arrival *a = NULL;
  if (!info) return NULL;
  vt_pause_end();
  PJRT_Error *error = receive(info, (int64_t)size, &a);
  if (!error) wait_for(a);
  vt_pause_begin();
  if (error) return error;
  memcpy(data, a->data, size);
  release_arrival(a);
  return NULL;
}

static PJRT_Error *send_unknown(PJRT_LoadedExecutable_Execute_Args *args, size_t d,
                                const PJRT_SendCallbackInfo *info,
                                const vt_host_transfer *transfer, vt_origin origin, uint16_t why) {
  size_t size = (size_t)transfer->bytes;
  void *data = malloc(size + 1);
  if (!data) return vt_no_memory();
  vt_fill_unknown(transfer->type, data, size);
  return send(args, d, info, data, size, origin, why);
}

static PJRT_Error *call_with_unknown(PJRT_LoadedExecutable_Execute_Args *args, size_t d,
                                     int logical, vt_origin origin, uint16_t why) {
  const PJRT_ExecuteOptions *options = args->options;
  const PJRT_Executable *executable = args->executable->executable;
  PJRT_Error *error = NULL;
  for (size_t i = 0; !error && i < options->num_send_ops; i++) {
    const PJRT_SendCallbackInfo *info = &options->send_callbacks[d][i];
    const vt_host_transfer *transfer = channel(executable, info->channel_id);
    if (takes_part(transfer, logical))
      error = send_unknown(args, d, info, transfer, origin, why);
  }
  for (size_t i = 0; !error && i < options->num_recv_ops; i++) {
    const PJRT_RecvCallbackInfo *info = &options->recv_callbacks[d][i];
    const vt_host_transfer *transfer = channel(executable, info->channel_id);
    arrival *a = NULL;
    if (takes_part(transfer, logical)) error = receive(info, transfer->bytes, &a);
    if (a) release_arrival(a);
  }
  return error;
}

/* The report names also the lines whose functions were not called. */
static void record_refused(const PJRT_LoadedExecutable_Execute_Args *args, size_t d, int logical,
                           vt_origin origin, uint16_t why) {
  for (size_t i = 0; i < args->options->num_send_ops; i++) {
    int64_t id = args->options->send_callbacks[d][i].channel_id;
    const vt_host_transfer *transfer = channel(args->executable->executable, id);
    if (takes_part(transfer, logical))
      record(device_of(args, d), id, transfer->bytes, vt_now(), origin, why);
  }
}

PJRT_Error *vt_run_host_callbacks(PJRT_LoadedExecutable_Execute_Args *args, vt_origin origin,
                                  uint16_t why) {
  PJRT_Error *refused = vt_unknown_error(why), *error = NULL;
  for (size_t d = 0; !error && d < args->num_devices; d++) {
    int logical = args->execute_device ? 0 : args->executable->logical_ids[d];
    if (refused)
      record_refused(args, d, logical, origin, why);
    else
      error = call_with_unknown(args, d, logical, origin, why);
  }
  return refused ? refused : error;
}
