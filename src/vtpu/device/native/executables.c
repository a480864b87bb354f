/* Executables: the answers that compiling gave, and loading. */
#include <stdlib.h>
#include <string.h>

#include "values.h"

/* Programs that are gone, for Python to forget: destroying a handle never runs Python. */
static uint32_t *gone;
static size_t num_gone, gone_capacity;

static void note_gone(uint32_t program) {
  if (num_gone == gone_capacity) {
    size_t capacity = gone_capacity ? 2 * gone_capacity : 64;
    uint32_t *grown = realloc(gone, capacity * sizeof *gone);
    if (!grown) return; /* Python keeps that program's text until the end */
    gone = grown;
    gone_capacity = capacity;
  }
  gone[num_gone++] = program;
}

size_t vt_take_gone_programs(uint32_t *out, size_t most) {
  pthread_mutex_lock(&vt_lock);
  size_t count = num_gone < most ? num_gone : most;
  num_gone -= count;
  if (count) memcpy(out, gone + num_gone, count * sizeof *out);
  pthread_mutex_unlock(&vt_lock);
  return count;
}

void vt_executable_release(PJRT_Executable *executable) {
  pthread_mutex_lock(&vt_lock);
  vt_executable_unreference(executable);
  pthread_mutex_unlock(&vt_lock);
}

void vt_executable_unreference(PJRT_Executable *executable) {
  if (--executable->references) return;
  if (vt_values_on) note_gone(executable->program); /* else Python keeps no text */
  for (size_t i = 0; i < executable->num_costs; i++) free((char *)executable->costs[i].name);
  void *owned[] = {executable->name, executable->outputs, executable->parameters,
                   executable->is_donated, executable->host_transfers, executable->costs,
                   executable->fingerprint, executable->hlo, executable->options,
                   executable->serialized, executable->output_types, executable->output_dims,
                   executable->output_ranks, executable->output_kinds,
                   executable->output_kind_sizes, executable->output_layouts, executable};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

PJRT_Error *PJRT_Executable_Destroy(PJRT_Executable_Destroy_Args *args) {
  vt_executable_release(args->executable);
  return NULL;
}

PJRT_Error *PJRT_Executable_Name(PJRT_Executable_Name_Args *args) {
  args->executable_name = args->executable->name;
  args->executable_name_size = strlen(args->executable->name);
  return NULL;
}

PJRT_Error *PJRT_Executable_NumReplicas(PJRT_Executable_NumReplicas_Args *args) {
  args->num_replicas = (size_t)args->executable->num_replicas;
  return NULL;
}

PJRT_Error *PJRT_Executable_NumPartitions(PJRT_Executable_NumPartitions_Args *args) {
  args->num_partitions = (size_t)args->executable->num_partitions;
  return NULL;
}

PJRT_Error *PJRT_Executable_NumOutputs(PJRT_Executable_NumOutputs_Args *args) {
  args->num_outputs = args->executable->num_outputs;
  return NULL;
}

PJRT_Error *PJRT_Executable_SizeOfGeneratedCodeInBytes(
    PJRT_Executable_SizeOfGeneratedCodeInBytes_Args *args) {
  args->size_in_bytes = args->executable->memory_stats.generated_code_size_in_bytes;
  return NULL;
}

PJRT_Error *PJRT_Executable_GetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args *args) {
  args->properties = args->executable->costs;
  args->num_properties = args->executable->num_costs;
  return NULL;
}

PJRT_Error *PJRT_Executable_OutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args *args) {
  args->num_outputs = args->executable->num_outputs;
  args->memory_kinds = (char **)args->executable->output_kinds;
  args->memory_kind_sizes = args->executable->output_kind_sizes;
  return NULL;
}

PJRT_Error *PJRT_Executable_OutputElementTypes(PJRT_Executable_OutputElementTypes_Args *args) {
  args->output_types = args->executable->output_types;
  args->num_output_types = args->executable->num_outputs;
  return NULL;
}

PJRT_Error *PJRT_Executable_OutputDimensions(PJRT_Executable_OutputDimensions_Args *args) {
  args->num_outputs = args->executable->num_outputs;
  args->dims = args->executable->output_dims;
  args->dim_sizes = args->executable->output_ranks;
  return NULL;
}

/* Asked twice: first for the size, then with room for the bytes. */
PJRT_Error *PJRT_Executable_OptimizedProgram(PJRT_Executable_OptimizedProgram_Args *args) {
  PJRT_Program *program = args->program;
  program->format = "hlo_with_config";
  program->format_size = strlen(program->format);
  if (program->code) {
    if (program->code_size < args->executable->hlo_size)
      return vt_error(PJRT_Error_Code_INVALID_ARGUMENT, "the program has %zu bytes, room is for %zu",
                      args->executable->hlo_size, program->code_size);
    memcpy(program->code, args->executable->hlo, args->executable->hlo_size);
  }
  program->code_size = args->executable->hlo_size;
  return NULL;
}

PJRT_Error *PJRT_Executable_Fingerprint(PJRT_Executable_Fingerprint_Args *args) {
  args->executable_fingerprint = args->executable->fingerprint;
  args->executable_fingerprint_size = args->executable->fingerprint_size;
  return NULL;
}

PJRT_Error *PJRT_LoadedExecutable_Fingerprint(PJRT_LoadedExecutable_Fingerprint_Args *args) {
  args->executable_fingerprint = args->executable->executable->fingerprint;
  args->executable_fingerprint_size = args->executable->executable->fingerprint_size;
  return NULL;
}

PJRT_Error *PJRT_Executable_GetCompiledMemoryStats(
    PJRT_Executable_GetCompiledMemoryStats_Args *args) {
  PJRT_Executable_GetCompiledMemoryStats_Args given = *args;
  size_t size = given.struct_size < sizeof given ? given.struct_size : sizeof given;
  memcpy(args, &given.executable->memory_stats, size);
  args->struct_size = given.struct_size;
  args->extension_start = given.extension_start;
  args->executable = given.executable;
  return NULL;
}

/* The bytes belong to the executable: whoever got them must not free them. */
static void keep_executable(PJRT_SerializedExecutable *serialized) { (void)serialized; }
static void keep_options(PJRT_SerializedCompileOptions *serialized) { (void)serialized; }
static void keep_assignment(PJRT_DeviceAssignmentSerialized *serialized) { (void)serialized; }

PJRT_Error *PJRT_Executable_Serialize(PJRT_Executable_Serialize_Args *args) {
  args->serialized_bytes = args->executable->serialized;
  args->serialized_bytes_size = args->executable->serialized_size;
  args->serialized_executable = (PJRT_SerializedExecutable *)args->executable;
  args->serialized_executable_deleter = keep_executable;
  return NULL;
}

PJRT_Error *PJRT_Executable_GetCompileOptions(PJRT_Executable_GetCompileOptions_Args *args) {
  args->serialized_bytes = args->executable->options;
  args->serialized_bytes_size = args->executable->options_size;
  args->serialized_compile_options = (PJRT_SerializedCompileOptions *)args->executable;
  args->serialized_compile_options_deleter = keep_options;
  return NULL;
}

/* ---- loaded executables ---- */

PJRT_Error *PJRT_LoadedExecutable_GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args *args) {
  pthread_mutex_lock(&vt_lock);
  args->loaded_executable->executable->references++;
  pthread_mutex_unlock(&vt_lock);
  args->executable = args->loaded_executable->executable;
  return NULL;
}

PJRT_Error *PJRT_LoadedExecutable_AddressableDevices(
    PJRT_LoadedExecutable_AddressableDevices_Args *args) {
  args->addressable_devices = args->executable->addressable;
  args->num_addressable_devices = args->executable->num_addressable;
  return NULL;
}

PJRT_Error *PJRT_LoadedExecutable_GetDeviceAssignment(
    PJRT_LoadedExecutable_GetDeviceAssignment_Args *args) {
  args->serialized_bytes = args->executable->assignment;
  args->serialized_bytes_size = args->executable->assignment_size;
  args->serialized_device_assignment = (PJRT_DeviceAssignmentSerialized *)args->executable;
  args->serialized_device_assignment_deleter = keep_assignment;
  return NULL;
}

PJRT_Error *PJRT_LoadedExecutable_Delete(PJRT_LoadedExecutable_Delete_Args *args) {
  args->executable->is_deleted = true;
  return NULL;
}

PJRT_Error *PJRT_LoadedExecutable_IsDeleted(PJRT_LoadedExecutable_IsDeleted_Args *args) {
  args->is_deleted = args->executable->is_deleted;
  return NULL;
}

PJRT_Error *PJRT_LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args *args) {
  PJRT_LoadedExecutable *loaded = args->executable;
  vt_executable_release(loaded->executable);
  free(loaded->addressable);
  free(loaded->logical_ids);
  free(loaded->assignment);
  free(loaded);
  return NULL;
}
