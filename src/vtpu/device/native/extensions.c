#include "extensions.h"

#include <string.h>

#include "core.h"

/* ---- layouts: a layout handle is the shape that has it, so there is nothing to free ---- */

static PJRT_Error *layout_destroy(PJRT_Layouts_MemoryLayout_Destroy_Args *args) {
  (void)args;
  return NULL;
}

static void keep_layout(PJRT_Layouts_SerializedLayout *serialized) { (void)serialized; }

static PJRT_Error *layout_serialize(PJRT_Layouts_MemoryLayout_Serialize_Args *args) {
  const vt_shape *shape = (const vt_shape *)args->layout;
  args->serialized_bytes = shape->layout_text;
  args->serialized_bytes_size = shape->layout_text_size;
  args->serialized_layout = (PJRT_Layouts_SerializedLayout *)shape;
  args->serialized_layout_deleter = keep_layout;
  return NULL;
}

static PJRT_Error *client_default_layout(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args *args) {
  PJRT_Error *error = NULL;
  args->layout = (PJRT_Layouts_MemoryLayout *)vt_shape_default(args->type, args->dims,
                                                               args->num_dims, &error);
  return error;
}

static PJRT_Error *topology_default_layout(
    PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args *args) {
  PJRT_Error *error = NULL;
  args->layout = (PJRT_Layouts_MemoryLayout *)vt_python.topology_layout(
      args->topology_description, args->type, args->dims, args->num_dims, &error);
  return error;
}

static PJRT_Error *buffer_layout(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args *args) {
  args->layout = (PJRT_Layouts_MemoryLayout *)args->buffer->shape;
  return NULL;
}

static PJRT_Error *output_layouts(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args *args) {
  args->num_outputs = args->executable->num_outputs;
  args->layouts = args->executable->output_layouts;
  return NULL;
}

static PJRT_Layouts_Extension layouts = {
    .base = {.struct_size = sizeof layouts, .type = PJRT_Extension_Type_Layouts},
    .PJRT_Layouts_MemoryLayout_Destroy = layout_destroy,
    .PJRT_Layouts_MemoryLayout_Serialize = layout_serialize,
    .PJRT_Layouts_PJRT_Client_GetDefaultLayout = client_default_layout,
    .PJRT_Layouts_PJRT_Buffer_MemoryLayout = buffer_layout,
    .PJRT_Layouts_PJRT_Topology_GetDefaultLayout = topology_default_layout,
    .PJRT_Layouts_PJRT_Executable_GetOutputLayouts = output_layouts,
};

/* ---- memory descriptions: every device has the same three kinds ---- */

static PJRT_MemoryDescription kinds[VT_MEMORY_KINDS] = {
    {VT_DEVICE}, {VT_PINNED_HOST}, {VT_UNPINNED_HOST}};
static PJRT_MemoryDescription *kind_list[VT_MEMORY_KINDS] = {&kinds[0], &kinds[1], &kinds[2]};

static PJRT_Error *describe_memories(PJRT_DeviceDescription_MemoryDescriptions_Args *args) {
  args->memory_descriptions = kind_list;
  args->num_memory_descriptions = VT_MEMORY_KINDS;
  args->default_memory_index = VT_DEVICE;
  return NULL;
}

static PJRT_Error *describe_kind(PJRT_MemoryDescription_Kind_Args *args) {
  args->kind_id = args->memory_description->kind;
  args->kind = (char *)vt_memory_kind_names[args->kind_id];
  args->kind_size = strlen(args->kind);
  return NULL;
}

static PJRT_MemoryDescriptions_Extension memory_descriptions = {
    .base = {.struct_size = sizeof memory_descriptions,
             .type = PJRT_Extension_Type_MemoryDescriptions},
    .PJRT_DeviceDescription_MemoryDescriptions = describe_memories,
    .PJRT_MemoryDescription_Kind = describe_kind,
};

PJRT_Extension_Base *vt_extensions(void) {
  layouts.base.next = &memory_descriptions.base;
  memory_descriptions.base.next = vt_profiler_extension();
  return &layouts.base;
}
