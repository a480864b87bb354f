/* Errors, events, and what the plugin says of itself. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "pace.h"

vt_upcalls vt_python;
pthread_mutex_t vt_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- errors ---- */

/* For when there is no memory to make an error with. */
static PJRT_Error no_memory = {PJRT_Error_Code_RESOURCE_EXHAUSTED, "vtpu: no host memory", 20};

PJRT_Error *vt_no_memory(void) { return &no_memory; }

PJRT_Error *vt_error(PJRT_Error_Code code, const char *format, ...) {
  PJRT_Error *error = malloc(sizeof *error);
  if (!error) return &no_memory;
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int size = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *message = malloc((size_t)size + 1);
  if (message) vsnprintf(message, (size_t)size + 1, format, again);
  va_end(again);
  if (!message) {
    free(error);
    return &no_memory;
  }
  *error = (PJRT_Error){code, message, (size_t)size};
  return error;
}

void vt_error_free(PJRT_Error *error) {
  if (!error || error == &no_memory) return;
  free(error->message);
  free(error);
}

void PJRT_Error_Destroy(PJRT_Error_Destroy_Args *args) { vt_error_free(args->error); }

void PJRT_Error_Message(PJRT_Error_Message_Args *args) {
  args->message = args->error->message;
  args->message_size = args->error->message_size;
}

PJRT_Error *PJRT_Error_GetCode(PJRT_Error_GetCode_Args *args) {
  args->code = args->error->code;
  return NULL;
}

const char *vt_human_bytes(int64_t bytes, char out[32]) {
  static const char units[] = "KMGTPE";
  if (bytes < 1024) {
    snprintf(out, 32, "%lldB", (long long)bytes);
    return out;
  }
  double value = (double)bytes / 1024;
  int unit = 0;
  while (value >= 1024 && units[unit + 1]) {
    value /= 1024;
    unit++;
  }
  snprintf(out, 32, unit == 0 ? "%.1f%c" : "%.2f%c", value, units[unit]);
  return out;
}

/* ---- events: without pace everything the slice does is done when the call returns ---- */

struct PJRT_Event {
  bool is_shared;
  bool is_ready;
  bool is_timed;
  int64_t ready_ns; /* timed: when it is ready by itself */
  PJRT_Error_Code code;
  char *message;
  struct waiter {
    void (*callback)(PJRT_Error *, void *);
    void *argument;
    struct waiter *next;
  } *waiters;
};

PJRT_Event vt_ready_event = {.is_shared = true, .is_ready = true};
static pthread_cond_t event_set = PTHREAD_COND_INITIALIZER;

PJRT_Event *vt_failed_event(PJRT_Error_Code code, const char *message) {
  PJRT_Event *event = calloc(1, sizeof *event);
  if (!event) return NULL;
  *event = (PJRT_Event){.is_ready = true, .code = code, .message = strdup(message)};
  return event;
}

PJRT_Event *vt_event_at(int64_t ready_ns) {
  if (vt_is_ready_at(ready_ns)) return &vt_ready_event;
  PJRT_Event *event = calloc(1, sizeof *event);
  if (!event) return &vt_ready_event; /* without memory too early, rather than never */
  event->is_timed = true;
  event->ready_ns = ready_ns;
  return event;
}

static bool is_ready(const PJRT_Event *event) {
  return event->is_timed ? vt_is_ready_at(event->ready_ns) : event->is_ready;
}

static PJRT_Error *event_error(const PJRT_Event *event) {
  return event->code ? vt_error(event->code, "%s", event->message) : NULL;
}

PJRT_Error *PJRT_Event_Create(PJRT_Event_Create_Args *args) {
  args->event = calloc(1, sizeof *args->event);
  return args->event ? NULL : vt_no_memory();
}

PJRT_Error *PJRT_Event_Set(PJRT_Event_Set_Args *args) {
  PJRT_Event *event = args->event;
  pthread_mutex_lock(&vt_lock);
  if (args->error_code) event->message = strndup(args->error_message, args->error_message_size);
  event->code = args->error_code;
  event->is_ready = true;
  struct waiter *waiters = event->waiters;
  event->waiters = NULL;
  pthread_cond_broadcast(&event_set);
  pthread_mutex_unlock(&vt_lock);
  while (waiters) {
    struct waiter *next = waiters->next;
    waiters->callback(event_error(event), waiters->argument);
    free(waiters);
    waiters = next;
  }
  return NULL;
}

PJRT_Error *PJRT_Event_Destroy(PJRT_Event_Destroy_Args *args) {
  if (!args->event || args->event->is_shared) return NULL;
  free(args->event->message);
  free(args->event);
  return NULL;
}

PJRT_Error *PJRT_Event_IsReady(PJRT_Event_IsReady_Args *args) {
  args->is_ready = is_ready(args->event);
  return NULL;
}

PJRT_Error *PJRT_Event_Error(PJRT_Event_Error_Args *args) { return event_error(args->event); }

PJRT_Error *PJRT_Event_Await(PJRT_Event_Await_Args *args) {
  if (args->event->is_timed) {
    vt_pace_wait(args->event->ready_ns);
  } else if (!args->event->is_shared) {
    pthread_mutex_lock(&vt_lock);
    while (!args->event->is_ready) pthread_cond_wait(&event_set, &vt_lock);
    pthread_mutex_unlock(&vt_lock);
  }
  return event_error(args->event);
}

PJRT_Error *PJRT_Event_OnReady(PJRT_Event_OnReady_Args *args) {
  PJRT_Event *event = args->event;
  if (event->is_timed) {
    bool is_kept = vt_pace_call(event->ready_ns, args->callback, args->user_arg);
    return is_kept ? NULL : vt_no_memory();
  }
  if (!event->is_shared) {
    pthread_mutex_lock(&vt_lock);
    if (!event->is_ready) {
      struct waiter *waiter = malloc(sizeof *waiter);
      if (waiter) {
        *waiter = (struct waiter){args->callback, args->user_arg, event->waiters};
        event->waiters = waiter;
      }
      pthread_mutex_unlock(&vt_lock);
      return waiter ? NULL : vt_no_memory();
    }
    pthread_mutex_unlock(&vt_lock);
  }
  args->callback(event_error(event), args->user_arg);
  return NULL;
}

/* ---- plugin ---- */

/* What libtpu of this date reports; the StableHLO version bounds what JAX sends, and is set from
 * the compiler's own answer before a client exists. */
static int64_t stablehlo_current[3], stablehlo_minimum[3];
static PJRT_NamedValue plugin_attributes[3];

void vt_set_stablehlo_versions(const int64_t current[3], const int64_t minimum[3]) {
  memcpy(stablehlo_current, current, sizeof stablehlo_current);
  memcpy(stablehlo_minimum, minimum, sizeof stablehlo_minimum);
}

PJRT_Error *PJRT_Plugin_Initialize(PJRT_Plugin_Initialize_Args *args) {
  (void)args;
  return NULL;
}

PJRT_Error *PJRT_Plugin_Attributes(PJRT_Plugin_Attributes_Args *args) {
  plugin_attributes[0] = (PJRT_NamedValue){
      .struct_size = sizeof(PJRT_NamedValue), .name = "xla_version", .name_size = 11,
      .type = PJRT_NamedValue_kInt64, .int64_value = 2, .value_size = 1};
  plugin_attributes[1] = (PJRT_NamedValue){
      .struct_size = sizeof(PJRT_NamedValue), .name = "stablehlo_current_version",
      .name_size = 25, .type = PJRT_NamedValue_kInt64List,
      .int64_array_value = stablehlo_current, .value_size = 3};
  plugin_attributes[2] = (PJRT_NamedValue){
      .struct_size = sizeof(PJRT_NamedValue), .name = "stablehlo_minimum_version",
      .name_size = 25, .type = PJRT_NamedValue_kInt64List,
      .int64_array_value = stablehlo_minimum, .value_size = 3};
  args->attributes = plugin_attributes;
  args->num_attributes = 3;
  return NULL;
}

/* ---- what Python answers ---- */

static PJRT_Error *no_python(void) {
  return vt_error(PJRT_Error_Code_UNAVAILABLE, "vtpu: the Python interpreter is shutting down");
}

#define UPCALL(function, member)                                \
  PJRT_Error *function(function##_Args *args) {                 \
    if (!vt_python_alive()) return no_python();                 \
    PJRT_Error *volatile error = NULL;                          \
    VT_PAUSED(VT_WITH_PYTHON(error = vt_python.member(args)));  \
    vt_may_stay();                                              \
    return error;                                               \
  }
UPCALL(PJRT_Client_Create, create_client)
UPCALL(PJRT_Client_Compile, compile)
UPCALL(PJRT_Compile, compile_ahead)
UPCALL(PJRT_Executable_DeserializeAndLoad, deserialize)
UPCALL(PJRT_TopologyDescription_Create, create_topology)
UPCALL(PJRT_TopologyDescription_Deserialize, deserialize_topology)
