#include "values.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strides.h"

bool vt_values_on;
enum vt_unknown vt_fill_unknown_with = VT_UNKNOWN_ZEROS;

int64_t vt_history_limit = INT64_MAX;

static vt_launch *oldest, *newest; /* launches that remember their arguments */
static int64_t history;            /* bytes of all launches */

/* ---- values ---- */

vt_value *vt_value_of_host(const vt_shape *shape, vt_bytes *bytes) {
  vt_value *value = calloc(1, sizeof *value);
  if (!value) return NULL;
  value->shape = shape;
  value->references = 1;
  value->bytes = bytes;
  if (!bytes) value->why = VT_WHY_FORGOTTEN;
  return value;
}

vt_value *vt_value_of_memory(const vt_shape *shape, const void *data, const int64_t *strides,
                             size_t num_strides) {
  size_t size = (size_t)shape->logical_bytes;
  vt_bytes *bytes;
  if (!num_strides || vt_strides_are_dense(shape, strides)) {
    bytes = vt_bytes_copy(data, size);
  } else {
    bytes = vt_bytes_new(size);
    if (bytes) vt_gather(shape, bytes->data, data, strides);
  }
  return vt_value_of_host(shape, bytes);
}

vt_value *vt_value_retain(vt_value *value) {
  if (value) value->references++;
  return value;
}

bool vt_value_is_pending(const vt_value *value) { return !value->bytes && !value->why; }

/* ---- launches ---- */

static size_t size_of(const vt_launch *launch) {
  return sizeof *launch +
         (size_t)launch->num_devices * launch->executable->num_outputs * sizeof(vt_value) +
         (size_t)launch->num_local *
             (launch->executable->num_parameters * sizeof(vt_value *) + sizeof(int));
}

static void unlink_launch(vt_launch *launch) {
  if (launch->older) launch->older->newer = launch->newer;
  if (launch->newer) launch->newer->older = launch->older;
  if (oldest == launch) oldest = launch->newer;
  if (newest == launch) newest = launch->older;
  launch->older = launch->newer = NULL;
}

static void link_newest(vt_launch *launch) {
  launch->older = newest;
  if (newest) newest->newer = launch;
  newest = launch;
  if (!oldest) oldest = launch;
}

/* Queues a launch whose arguments nobody needs any more. Chains of launches are long: what their
 * arguments set free is queued too, not followed. */
static void settle(vt_launch *launch, vt_launch **queue) {
  if (launch->holds || launch->is_settling || (launch->pending && launch->live)) return;
  if (launch->live && !launch->arguments) return;
  launch->is_settling = true;
  launch->next_settling = *queue;
  *queue = launch;
}

static void release_one(vt_value *value, vt_launch **queue) {
  if (!value || --value->references) return;
  bool was_pending = vt_value_is_pending(value);
  vt_bytes_release(value->bytes);
  value->bytes = NULL;
  vt_launch *launch = value->launch;
  if (!launch) {
    free(value);
    return;
  }
  launch->live--;
  if (was_pending) launch->pending--;
  settle(launch, queue);
}

/* The results on other hosts' devices live as long as that on the first device here. */
static void release_companions(vt_value *value, vt_launch **queue) {
  vt_launch *launch = value ? value->launch : NULL;
  if (!launch || launch->num_local == launch->num_devices || value->references != 1) return;
  size_t outputs = launch->executable->num_outputs;
  size_t index = (size_t)(value - launch->values), first = (size_t)launch->logical_ids[0];
  if (index / outputs != first) return;
  for (int d = 0; d < launch->num_devices; d++) {
    bool is_local = false;
    for (int i = 0; i < launch->num_local; i++) is_local |= launch->logical_ids[i] == d;
    if (!is_local) release_one(&launch->values[(size_t)d * outputs + index % outputs], queue);
  }
}

static void release_arguments(vt_launch *launch, vt_launch **queue) {
  vt_value **arguments = launch->arguments;
  if (!arguments) return;
  launch->arguments = NULL;
  unlink_launch(launch);
  size_t count = (size_t)launch->num_local * launch->executable->num_parameters;
  for (size_t i = 0; i < count; i++) {
    release_companions(arguments[i], queue);
    release_one(arguments[i], queue);
  }
  free(arguments);
}

static void work_off(vt_launch *queue) {
  while (queue) {
    vt_launch *launch = queue;
    queue = launch->next_settling;
    launch->is_settling = false;
    release_arguments(launch, &queue);
    if (launch->live || launch->holds) continue;
    history -= (int64_t)size_of(launch);
    vt_executable_unreference(launch->executable);
    free(launch);
  }
}

void vt_value_release(vt_value *value) {
  vt_launch *queue = NULL;
  release_companions(value, &queue);
  release_one(value, &queue);
  work_off(queue);
}

static void no_longer_pending(vt_value *value) {
  vt_launch *queue = NULL, *launch = value->launch;
  if (!launch) return;
  launch->pending--;
  settle(launch, &queue);
  work_off(queue);
}

void vt_value_know(vt_value *value, vt_bytes *bytes) {
  if (!value->references || !vt_value_is_pending(value)) {
    vt_bytes_release(bytes);
    return;
  }
  value->bytes = bytes;
  no_longer_pending(value);
}

void vt_value_give_up(vt_value *value, uint16_t why) {
  if (!value->references || !vt_value_is_pending(value)) return;
  value->why = why;
  no_longer_pending(value);
}

bool vt_forget_oldest_launch(void) {
  vt_launch *launch = oldest;
  if (!launch) return false;
  size_t count = (size_t)launch->num_devices * launch->executable->num_outputs;
  unlink_launch(launch); /* also while somebody holds it: it is not found again */
  launch->holds++;
  for (size_t i = 0; i < count; i++) vt_value_give_up(&launch->values[i], VT_WHY_FORGOTTEN);
  vt_launch_let_go(launch);
  return true;
}

static bool take_arguments(vt_launch *launch, PJRT_Buffer *const *const *arguments) {
  size_t count = launch->executable->num_parameters;
  launch->arguments = malloc((size_t)launch->num_local * count * sizeof(vt_value *) + 1);
  if (!launch->arguments) return false;
  for (int d = 0; d < launch->num_local; d++)
    for (size_t i = 0; i < count; i++)
      launch->arguments[(size_t)d * count + i] = vt_value_retain(arguments[d][i]->value);
  return true;
}

vt_launch *vt_launch_new(PJRT_LoadedExecutable *loaded, const int *logical_ids, size_t num_local,
                         PJRT_Buffer *const *const *arguments, uint64_t number) {
  PJRT_Executable *executable = loaded->executable;
  size_t num_devices = (size_t)executable->num_replicas * (size_t)executable->num_partitions;
  if (num_devices < num_local) num_devices = num_local;
  size_t num_values = num_devices * executable->num_outputs;
  vt_launch *launch = calloc(1, sizeof *launch + num_values * sizeof(vt_value) +
                                    num_local * sizeof(int));
  if (!launch) return NULL;
  launch->logical_ids = (int *)&launch->values[num_values];
  memcpy(launch->logical_ids, logical_ids, num_local * sizeof(int));
  launch->number = number;
  launch->executable = executable;
  launch->num_local = (int)num_local;
  launch->num_devices = (int)num_devices;
  if (!take_arguments(launch, arguments)) {
    free(launch);
    return NULL;
  }
  executable->references++;
  launch->holds = 1;
  link_newest(launch);
  history += (int64_t)size_of(launch);
  return launch;
}

void vt_launch_fill(vt_launch *launch, PJRT_Buffer **const *outputs) {
  size_t count = launch->executable->num_outputs;
  launch->live = launch->pending = (uint32_t)((size_t)launch->num_devices * count);
  for (int d = 0; d < launch->num_devices; d++)
    for (size_t o = 0; o < count; o++) {
      vt_value *value = &launch->values[(size_t)d * count + o];
      value->shape = launch->executable->outputs[o].shape;
      value->launch = launch;
      value->references = 1;
    }
  for (int d = 0; d < launch->num_local; d++)
    for (size_t o = 0; o < count; o++)
      outputs[d][o]->value = &launch->values[(size_t)launch->logical_ids[d] * count + o];
  while (history > vt_history_limit && oldest != launch && vt_forget_oldest_launch()) continue;
}

void vt_launch_let_go(vt_launch *launch) {
  vt_launch *queue = NULL;
  launch->holds--;
  settle(launch, &queue);
  work_off(queue);
}

/* ---- reading ---- */

static atomic_int computing;

int vt_threads_computing(void) { return atomic_load(&computing); }

/* The float types whose NaN is all ones in every byte, or the number of that byte pattern. */
void vt_fill_unknown(PJRT_Buffer_Type type, void *out, size_t size) {
  memset(out, 0, size);
  if (vt_fill_unknown_with != VT_UNKNOWN_NAN) return;
  switch (type) {
    case PJRT_Buffer_Type_F16:
    case PJRT_Buffer_Type_BF16:
    case PJRT_Buffer_Type_F32:
    case PJRT_Buffer_Type_F64:
    case PJRT_Buffer_Type_C64:
    case PJRT_Buffer_Type_C128:
    case PJRT_Buffer_Type_F8E5M2:
    case PJRT_Buffer_Type_F8E4M3FN:
    case PJRT_Buffer_Type_F8E4M3:
    case PJRT_Buffer_Type_F8E3M4:
    case PJRT_Buffer_Type_F8E8M0FNU:
      memset(out, 0xff, size);
      break;
    case PJRT_Buffer_Type_F8E4M3B11FNUZ:
    case PJRT_Buffer_Type_F8E5M2FNUZ:
    case PJRT_Buffer_Type_F8E4M3FNUZ:
      memset(out, 0x80, size);
      break;
    default:
      break; /* there is none */
  }
}

/* The bytes of a value, retained, after computing them if need be; NULL and *why without. */
static vt_bytes *bytes_of(vt_value *value, uint16_t *why) {
  if (vt_value_is_pending(value)) {
    if (!vt_python_alive() || vt_is_leaving()) {
      *why = VT_WHY_LEAVING;
      return NULL;
    }
    atomic_fetch_add(&computing, 1);
    VT_PAUSED(VT_WITH_PYTHON(vt_python.compute(value)));
    atomic_fetch_sub(&computing, 1);
  }
  pthread_mutex_lock(&vt_lock);
  vt_bytes *bytes = value->bytes;
  if (bytes) bytes->references++;
  *why = bytes ? 0 : value->why ? value->why : VT_WHY_INTERRUPTED;
  pthread_mutex_unlock(&vt_lock);
  return bytes;
}

PJRT_Error *vt_unknown_error(uint16_t why) {
  if (vt_fill_unknown_with != VT_UNKNOWN_ERROR) return NULL;
  if (!vt_python_alive()) return vt_error(PJRT_Error_Code_FAILED_PRECONDITION, "no value");
  PJRT_Error *error = NULL;
  VT_WITH_PYTHON(error = vt_python.unknown_error(why));
  return error;
}

PJRT_Error *vt_value_read(vt_value *value, const vt_shape *shape, void *out,
                          const PJRT_Buffer_MemoryLayout *layout, uint16_t *why) {
  vt_bytes *bytes = NULL;
  if (shape->logical_bytes == 0) return NULL;
  *why = vt_values_on ? VT_WHY_NEVER_WRITTEN : VT_WHY_OFF;
  if (value) bytes = bytes_of(value, why);
  if (!bytes) {
    PJRT_Error *error = vt_unknown_error(*why);
    if (!error) vt_fill_unknown(shape->type, out, (size_t)shape->logical_bytes);
    return error;
  }
  vt_scatter(shape, out, bytes->data, layout);
  pthread_mutex_lock(&vt_lock);
  vt_bytes_release(bytes);
  pthread_mutex_unlock(&vt_lock);
  return NULL;
}
