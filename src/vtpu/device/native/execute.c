/* Execution: check the arguments, place the outputs, reserve the temporaries, donate, call back.
 *
 * An execution either happens on all its devices or on none: everything that can fail comes before
 * the first donation, and what was placed until then is taken back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "callbacks.h"
#include "pace.h"
#include "values.h"

typedef struct launch {
  PJRT_LoadedExecutable *loaded;
  PJRT_Executable *executable;
  PJRT_LoadedExecutable_Execute_Args *args;
  vt_origin origin;
  uint64_t number;
  uint32_t awaits; /* the last transfer that filled an argument */
  bool *donates; /* per parameter: donated in this launch */
  vt_launch *values; /* held while the program calls the host; NULL when values are not followed */
} launch;

static uint64_t launches; /* guarded by vt_lock */

static PJRT_Device *device_of(const launch *l, size_t d) {
  return l->args->execute_device ? l->args->execute_device : l->loaded->addressable[d];
}

static int logical_id(const launch *l, size_t d) {
  if (l->args->execute_device)
    for (size_t i = 0; i < l->loaded->num_addressable; i++)
      if (l->loaded->addressable[i] == l->args->execute_device) return l->loaded->logical_ids[i];
  return d < l->loaded->num_addressable ? l->loaded->logical_ids[d] : 0;
}

/* "while running replica 0 and partition 3 of a replicated computation (...)" */
static const char *where(const launch *l, size_t d, char out[160]) {
  int id = logical_id(l, d), partitions = l->executable->num_partitions;
  snprintf(out, 160,
           ": while running replica %d and partition %d of a replicated computation (other "
           "replicas may have failed as well).",
           id / partitions, id % partitions);
  return out;
}

static PJRT_Error *check_donated_once(launch *l, PJRT_Buffer *buffer, size_t d, size_t i) {
  bool again = buffer->launch == l->number;
  size_t first = buffer->launch_argument;
  bool donated = l->donates[i] || (again && l->donates[first]);
  buffer->launch = l->number;
  if (!again) buffer->launch_argument = i;
  if (!again || !donated) return NULL;
  int id = logical_id(l, d), partitions = l->executable->num_partitions;
  const char *what = l->donates[i] && l->donates[first]
                         ? "Attempt to donate the same buffer twice in Execute()"
                         : "Attempt to donate a buffer which is also used by the same call to "
                           "Execute()";
  return vt_error(PJRT_Error_Code_INVALID_ARGUMENT,
                  "%s (flattened argument %zu, replica %d, partition %d, first use: %zu).", what,
                  i, id / partitions, id % partitions, first);
}

static PJRT_Error *check_argument(launch *l, size_t d, size_t i) {
  PJRT_Buffer *buffer = l->args->argument_lists[d][i];
  if (buffer->is_deleted)
    return vt_error(PJRT_Error_Code_INVALID_ARGUMENT,
                    "Buffer passed to Execute() as argument %zu to replica %d is deleted or "
                    "donated.",
                    i, logical_id(l, d) / l->executable->num_partitions);
  PJRT_Error *error = vt_buffer_unusable(buffer, "Execute()");
  if (error) return error;
  if (buffer->transfer > l->awaits) l->awaits = buffer->transfer;
  const vt_shape *expected = l->executable->parameters[i];
  if (expected && expected->device_bytes != buffer->shape->device_bytes)
    return vt_error(PJRT_Error_Code_INVALID_ARGUMENT,
                    "RuntimeProgramInputMismatch: Executable(%s) expected parameter %zu of size "
                    "%lld (%.*s) but got buffer with incompatible size %lld (%.*s)",
                    l->executable->name, i, (long long)expected->device_bytes,
                    (int)expected->layout_text_size, expected->layout_text,
                    (long long)buffer->shape->device_bytes, (int)buffer->shape->layout_text_size,
                    buffer->shape->layout_text);
  return check_donated_once(l, buffer, d, i);
}

static PJRT_Error *check_arguments(launch *l) {
  const PJRT_Executable *executable = l->executable;
  if (l->loaded->is_deleted)
    return vt_error(PJRT_Error_Code_INVALID_ARGUMENT, "Execute() called on deleted executable %s",
                    executable->name);
  if (l->args->num_devices && l->args->num_args != executable->num_parameters)
    return vt_error(PJRT_Error_Code_INVALID_ARGUMENT,
                    "Execution supplied %zu buffers but compiled program %s expected %zu buffers",
                    l->args->num_args, executable->name, executable->num_parameters);
  for (size_t d = 0; d < l->args->num_devices; d++)
    for (size_t i = 0; i < l->args->num_args; i++) {
      PJRT_Error *error = check_argument(l, d, i);
      if (error) return error;
    }
  return NULL;
}

/* Whether output `o` takes over the memory of a donated argument. */
static bool is_aliased(const launch *l, size_t o) {
  int64_t parameter = l->executable->outputs[o].alias;
  return parameter >= 0 && l->donates[parameter];
}

static PJRT_Error *place_outputs(launch *l) {
  const PJRT_Executable *executable = l->executable;
  char suffix[160];
  for (size_t d = 0; d < l->args->num_devices; d++)
    for (size_t o = 0; o < executable->num_outputs; o++) {
      const vt_output *output = &executable->outputs[o];
      l->args->output_lists[d][o] = NULL;
      if (is_aliased(l, o)) continue;
      PJRT_Memory *memory = &device_of(l, d)->memories[output->memory_kind];
      PJRT_Buffer *buffer = vt_buffer_place(output->shape, memory, l->origin);
      if (!buffer)
        return vt_buffer_full(memory, output->shape->device_bytes, l->origin, "",
                              where(l, d, suffix));
      l->args->output_lists[d][o] = buffer;
    }
  return NULL;
}

static PJRT_Error *reserve_temporaries(launch *l, uint64_t event) {
  int64_t bytes = l->executable->temp_bytes;
  for (size_t d = 0; bytes > 0 && d < l->args->num_devices; d++) {
    PJRT_Memory *hbm = &device_of(l, d)->memories[VT_DEVICE];
    int64_t reservable = vt_arena_reservable(&hbm->arena);
    if (bytes > reservable) {
      char wanted[32], free_text[32], reservable_text[32], suffix[160];
      vt_record(&(vt_event){.kind = VT_FAILURE, .flags = VT_FLAG_RESERVE, .bytes = bytes,
                            .address = -1, .device = hbm->device->description->id,
                            .stack = l->origin.stack, .program = l->origin.program,
                            .host_ns = -1});
      return vt_error(
          PJRT_Error_Code_RESOURCE_EXHAUSTED,
          "Error loading program '%s': Attempting to reserve %s at the bottom of memory. That was "
          "not possible. There are %s free, 0B reserved, and %s reservable. Scope: unknown.%s",
          l->executable->name, vt_human_bytes(bytes, wanted),
          vt_human_bytes(hbm->limit - hbm->in_use, free_text),
          vt_human_bytes(reservable, reservable_text), where(l, d, suffix));
    }
    vt_memory_note_reserved(hbm, bytes, event);
  }
  return NULL;
}

static void take_back_outputs(launch *l) {
  for (size_t d = 0; d < l->args->num_devices; d++)
    for (size_t o = 0; o < l->executable->num_outputs; o++)
      if (l->args->output_lists[d][o]) {
        vt_buffer_discard(l->args->output_lists[d][o]);
        l->args->output_lists[d][o] = NULL;
      }
}

static void donate(launch *l) {
  const PJRT_Executable *executable = l->executable;
  for (size_t d = 0; d < l->args->num_devices; d++) {
    PJRT_Buffer **arguments = l->args->argument_lists[d];
    for (size_t o = 0; o < executable->num_outputs; o++)
      if (is_aliased(l, o))
        l->args->output_lists[d][o] = vt_buffer_take_over(
            arguments[executable->outputs[o].alias], executable->outputs[o].shape, l->origin);
    for (size_t i = 0; i < l->args->num_args; i++)
      if (l->donates[i] && !arguments[i]->is_deleted) vt_buffer_end(arguments[i], true);
  }
}

static bool calls_host(const PJRT_LoadedExecutable_Execute_Args *args) {
  return args->options->num_send_ops || args->options->num_recv_ops;
}

/* What the outputs contain is known by what went in. Without memory for that it is unknown. */
static vt_launch *follow_values(const launch *l) {
  if (!vt_values_on || !l->args->num_devices) return NULL;
  int one = logical_id(l, 0);
  return vt_launch_new(l->loaded, l->args->execute_device ? &one : l->loaded->logical_ids,
                       l->args->num_devices,
                       (PJRT_Buffer *const *const *)l->args->argument_lists, l->number);
}

static void number_outputs(const launch *l) {
  for (size_t d = 0; d < l->args->num_devices; d++)
    for (size_t o = 0; o < l->executable->num_outputs; o++)
      l->args->output_lists[d][o]->execution = (uint32_t)l->number;
}

/* The execution happens: outputs take the place of what is donated. */
static void happen(launch *l) {
  vt_launch *values = follow_values(l);
  donate(l);
  number_outputs(l);
  if (!values) return;
  vt_launch_fill(values, l->args->output_lists);
  if (calls_host(l->args))
    l->values = values; /* until the host was called */
  else
    vt_launch_let_go(values);
}

/* The number by which JAX's profiler links the call to what the host did around it; -1: none. */
static int64_t profiler_context(const PJRT_LoadedExecutable_Execute_Args *args) {
  for (const PJRT_Extension_Base *e = args->extension_start; e; e = e->next)
    if (e->type == PJRT_Extension_Type_Profiler)
      return ((const PJRT_Profiler_Extension *)e)->traceme_context_id;
  return -1;
}

static vt_event event_of(const launch *l) {
  bool one = l->args->num_devices == 1;
  return (vt_event){.kind = VT_EXECUTE,
                    .bytes = l->executable->temp_bytes,
                    .address = profiler_context(l->args),
                    .subject = l->number,
                    .stack = l->origin.stack,
                    .program = l->origin.program,
                    .device = one ? device_of(l, 0)->description->id : -1,
                    .awaits_transfer = l->awaits,
                    .host_ns = -1};
}

/* Everything that happens on the devices. Takes the lock. */
static PJRT_Error *run(launch *l) {
  int64_t began = vt_now();
  pthread_mutex_lock(&vt_lock);
  l->number = ++launches;
  PJRT_Error *error = check_arguments(l);
  if (!error) {
    vt_event executed = event_of(l);
    uint64_t event = vt_record(&executed);
    error = place_outputs(l);
    if (!error) error = reserve_temporaries(l, event);
    if (error)
      take_back_outputs(l);
    else
      happen(l);
    vt_complete_event(event, vt_now() - began, error ? VT_FLAG_FAILED : 0);
  }
  pthread_mutex_unlock(&vt_lock);
  return error;
}

/* With real values when they can be had, else once with what the user wants for the unknown. */
static PJRT_Error *call_host(launch *l) {
  PJRT_Error *error = NULL;
  uint16_t why = !vt_values_on ? VT_WHY_OFF : !l->values ? VT_WHY_FORGOTTEN : VT_WHY_LEAVING;
  if (l->values && vt_python_alive() && !vt_is_leaving())
    VT_PAUSED(
        VT_WITH_PYTHON(why = vt_python.call_host(l->args, l->values, l->origin.stack, &error)));
  if (why) error = vt_run_host_callbacks(l->args, l->origin, why);
  if (!l->values) return error;
  pthread_mutex_lock(&vt_lock);
  vt_launch_let_go(l->values);
  pthread_mutex_unlock(&vt_lock);
  return error;
}

/* With pace: the outputs are there when the devices will have run the program, and the host is only so
 * far ahead of them. Returns when that is. */
static int64_t keep_pace(const launch *l) {
  if (!vt_pace_on || !vt_python_alive()) return 0;
  vt_event event = event_of(l);
  event.time_ns = vt_now();
  volatile int64_t ready_ns = 0;
  int64_t until_ns = 0;
  VT_WITH_PYTHON(ready_ns = vt_python.place_execution(&event, &until_ns));
  for (size_t d = 0; d < l->args->num_devices; d++)
    for (size_t o = 0; o < l->executable->num_outputs; o++)
      l->args->output_lists[d][o]->ready_ns = ready_ns;
  vt_pace_wait(until_ns);
  return ready_ns;
}

/* Executions whose programs have few parameters need no heap for the donation flags. */
enum { FEW = 256 };

PJRT_Error *PJRT_LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args *args) {
  PJRT_Executable *executable = args->executable->executable;
  size_t count = executable->num_parameters;
  bool few[FEW], *donates = count <= FEW ? few : malloc(count);
  if (!donates) return vt_no_memory();
  if (count) memcpy(donates, executable->is_donated, count);
  const PJRT_ExecuteOptions *options = args->options;
  for (size_t i = 0; i < options->num_non_donatable_input_indices; i++)
    donates[options->non_donatable_input_indices[i]] = false;
  launch l = {.loaded = args->executable,
              .executable = executable,
              .args = args,
              .origin = {.stack = vt_stack_here(), .program = executable->program},
              .donates = donates};
  PJRT_Error *error = run(&l);
  if (donates != few) free(donates);
  if (!error && calls_host(args)) {
    error = call_host(&l);
    if (error) {
      pthread_mutex_lock(&vt_lock);
      take_back_outputs(&l);
      pthread_mutex_unlock(&vt_lock);
    }
  }
  int64_t ready_ns = error ? 0 : keep_pace(&l);
  if (!error && args->device_complete_events)
    for (size_t d = 0; d < args->num_devices; d++)
      args->device_complete_events[d] = vt_event_at(ready_ns);
  vt_may_stay();
  return error;
}
