/* The profiler: what happened on the devices while a trace was taken, as an XSpace.
 *
 * A caller compares the table's size with its own and gives up, or dies, when they differ, so the
 * size is set to what the installed jaxlib knows (vt_set_profiler_table_size). Errors of the
 * profiler are errors of the ABI under another name.
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "extensions.h"

struct PLUGIN_Profiler {
  char *options; /* serialized ProfileOptions */
  size_t options_size;
  int64_t session; /* Python's number of it while it runs, else 0 */
  char *data;      /* the XSpace of what was collected last */
  size_t size;
};

static PLUGIN_Profiler_Error *as_profiler_error(PJRT_Error *error) {
  return (PLUGIN_Profiler_Error *)error;
}

static PJRT_Error *as_error(const PLUGIN_Profiler_Error *error) { return (PJRT_Error *)error; }

static void error_destroy(PLUGIN_Profiler_Error_Destroy_Args *args) {
  PJRT_Error_Destroy(&(PJRT_Error_Destroy_Args){.error = as_error(args->error)});
}

static void error_message(PLUGIN_Profiler_Error_Message_Args *args) {
  args->message = as_error(args->error)->message;
  args->message_size = as_error(args->error)->message_size;
}

static PLUGIN_Profiler_Error *error_get_code(PLUGIN_Profiler_Error_GetCode_Args *args) {
  args->code = (int)as_error(args->error)->code;
  return NULL;
}

static PLUGIN_Profiler_Error *create(PLUGIN_Profiler_Create_Args *args) {
  PLUGIN_Profiler *profiler = calloc(1, sizeof *profiler);
  char *options = malloc(args->options_size + 1);
  if (!profiler || !options) {
    free(profiler);
    free(options);
    return as_profiler_error(vt_no_memory());
  }
  memcpy(options, args->options, args->options_size);
  profiler->options = options;
  profiler->options_size = args->options_size;
  args->profiler = profiler;
  return NULL;
}

static PLUGIN_Profiler_Error *start(PLUGIN_Profiler_Start_Args *args) {
  PLUGIN_Profiler *profiler = args->profiler;
  if (!profiler->session && vt_python_alive())
    profiler->session = vt_python.begin_profile(profiler->options, profiler->options_size);
  return NULL;
}

static PLUGIN_Profiler_Error *stop(PLUGIN_Profiler_Stop_Args *args) {
  PLUGIN_Profiler *profiler = args->profiler;
  if (!profiler->session || !vt_python_alive()) return NULL;
  free(profiler->data);
  profiler->data = NULL;
  profiler->size = 0;
  PJRT_Error *error;
  VT_PAUSED(error = vt_python.end_profile(profiler->session, &profiler->data, &profiler->size));
  profiler->session = 0;
  return as_profiler_error(error);
}

static PLUGIN_Profiler_Error *destroy(PLUGIN_Profiler_Destroy_Args *args) {
  if (!args->profiler) return NULL;
  PLUGIN_Profiler_Error *error = stop(&(PLUGIN_Profiler_Stop_Args){.profiler = args->profiler});
  free(args->profiler->options);
  free(args->profiler->data);
  free(args->profiler);
  return error;
}

/* jaxlib reads the profiler's own bytes; a caller may also bring room for them. */
static PLUGIN_Profiler_Error *collect_data(PLUGIN_Profiler_CollectData_Args *args) {
  PLUGIN_Profiler *profiler = args->profiler;
  if (args->buffer && profiler->size)
    memcpy(args->buffer, profiler->data, profiler->size);
  else
    args->buffer = (uint8_t *)profiler->data;
  args->buffer_size_in_bytes = profiler->size;
  return NULL;
}

/* The later form of the same in two steps: the result is the profiler itself. */
static PLUGIN_Profiler_Error *consume(PLUGIN_Profiler_Consume_Args *args) {
  args->result = (PLUGIN_Profiler_ConsumeResult *)args->profiler;
  return NULL;
}

static void keep_result(PLUGIN_Profiler_ConsumeResult_Destroy_Args *args) { (void)args; }

static PLUGIN_Profiler_Error *serialize(PLUGIN_Profiler_Serialize_Args *args) {
  args->serialized_bytes = (uint8_t *)args->profiler->data;
  args->serialized_size = args->profiler->size;
  return NULL;
}

static PLUGIN_Profiler_Api table = {
    .struct_size = sizeof(PLUGIN_Profiler_Api),
    .error_destroy = error_destroy,
    .error_message = error_message,
    .error_get_code = error_get_code,
    .create = create,
    .destroy = destroy,
    .start = start,
    .stop = stop,
    .collect_data = collect_data,
    .consume = consume,
    .consume_result_destroy = keep_result,
    .serialize = serialize,
};

void vt_set_profiler_table_size(size_t size) { table.struct_size = size; }

static PJRT_Profiler_Extension extension = {
    .base = {.struct_size = sizeof extension, .type = PJRT_Extension_Type_Profiler},
    .profiler_api = &table,
    .traceme_context_id = -1,
};

PJRT_Extension_Base *vt_profiler_extension(void) { return &extension.base; }
