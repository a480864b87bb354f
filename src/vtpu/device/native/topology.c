/* What the slice is: topology, devices, memories, client. All of it constant after creation. */
#include <stdlib.h>
#include <string.h>

#include "core.h"

const char *const vt_memory_kind_names[VT_MEMORY_KINDS] = {"device", "pinned_host",
                                                           "unpinned_host"};

/* ---- topology ---- */

PJRT_Error *PJRT_TopologyDescription_Destroy(PJRT_TopologyDescription_Destroy_Args *args) {
  vt_topology_release(args->topology);
  return NULL;
}

static void free_named_values(PJRT_NamedValue *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    free((char *)values[i].name);
    if (values[i].type == PJRT_NamedValue_kString) free((char *)values[i].string_value);
    if (values[i].type == PJRT_NamedValue_kInt64List) free((void *)values[i].int64_array_value);
  }
  free(values);
}

void vt_topology_release(PJRT_TopologyDescription *topology) {
  if (!topology || --topology->references > 0) return;
  for (size_t i = 0; i < topology->num_devices; i++) {
    PJRT_DeviceDescription *device = &topology->device_storage[i];
    free(device->kind);
    free(device->debug_string);
    free(device->to_string);
    free_named_values(device->attributes, device->num_attributes);
  }
  free(topology->device_storage);
  free(topology->devices);
  free_named_values(topology->attributes, topology->num_attributes);
  free(topology->name);
  free(topology->platform_version);
  free(topology->serialized);
  free(topology);
}

PJRT_Error *PJRT_TopologyDescription_PlatformName(
    PJRT_TopologyDescription_PlatformName_Args *args) {
  args->platform_name = "tpu";
  args->platform_name_size = 3;
  return NULL;
}

PJRT_Error *PJRT_TopologyDescription_PlatformVersion(
    PJRT_TopologyDescription_PlatformVersion_Args *args) {
  args->platform_version = args->topology->platform_version;
  args->platform_version_size = strlen(args->topology->platform_version);
  return NULL;
}

PJRT_Error *PJRT_TopologyDescription_GetDeviceDescriptions(
    PJRT_TopologyDescription_GetDeviceDescriptions_Args *args) {
  args->descriptions = args->topology->devices;
  args->num_descriptions = args->topology->num_devices;
  return NULL;
}

static void keep_topology(PJRT_SerializedTopology *serialized) { (void)serialized; }

PJRT_Error *PJRT_TopologyDescription_Serialize(PJRT_TopologyDescription_Serialize_Args *args) {
  args->serialized_bytes = args->topology->serialized;
  args->serialized_bytes_size = args->topology->serialized_size;
  args->serialized_topology = (PJRT_SerializedTopology *)args->topology;
  args->serialized_topology_deleter = keep_topology;
  return NULL;
}

PJRT_Error *PJRT_TopologyDescription_Attributes(PJRT_TopologyDescription_Attributes_Args *args) {
  args->attributes = args->topology->attributes;
  args->num_attributes = args->topology->num_attributes;
  return NULL;
}

/* ---- device descriptions ---- */

PJRT_Error *PJRT_DeviceDescription_Id(PJRT_DeviceDescription_Id_Args *args) {
  args->id = args->device_description->id;
  return NULL;
}

PJRT_Error *PJRT_DeviceDescription_ProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args *args) {
  args->process_index = args->device_description->process_index;
  return NULL;
}

PJRT_Error *PJRT_DeviceDescription_Attributes(PJRT_DeviceDescription_Attributes_Args *args) {
  args->attributes = args->device_description->attributes;
  args->num_attributes = args->device_description->num_attributes;
  return NULL;
}

PJRT_Error *PJRT_DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args *args) {
  args->device_kind = args->device_description->kind;
  args->device_kind_size = strlen(args->device_description->kind);
  return NULL;
}

PJRT_Error *PJRT_DeviceDescription_DebugString(PJRT_DeviceDescription_DebugString_Args *args) {
  args->debug_string = args->device_description->debug_string;
  args->debug_string_size = strlen(args->device_description->debug_string);
  return NULL;
}

PJRT_Error *PJRT_DeviceDescription_ToString(PJRT_DeviceDescription_ToString_Args *args) {
  args->to_string = args->device_description->to_string;
  args->to_string_size = strlen(args->device_description->to_string);
  return NULL;
}

/* ---- devices ---- */

PJRT_Error *PJRT_Device_GetDescription(PJRT_Device_GetDescription_Args *args) {
  args->device_description = args->device->description;
  return NULL;
}

PJRT_Error *PJRT_Device_IsAddressable(PJRT_Device_IsAddressable_Args *args) {
  args->is_addressable = args->device->is_addressable;
  return NULL;
}

PJRT_Error *PJRT_Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args *args) {
  args->local_hardware_id = args->device->local_hardware_id;
  return NULL;
}

PJRT_Error *PJRT_Device_AddressableMemories(PJRT_Device_AddressableMemories_Args *args) {
  args->memories = args->device->memory_list;
  args->num_memories = args->device->is_addressable ? VT_MEMORY_KINDS : 0;
  return NULL;
}

PJRT_Error *PJRT_Device_DefaultMemory(PJRT_Device_DefaultMemory_Args *args) {
  if (!args->device->is_addressable)
    return vt_error(PJRT_Error_Code_INVALID_ARGUMENT, "%s belongs to another host",
                    args->device->description->debug_string);
  args->memory = &args->device->memories[VT_DEVICE];
  return NULL;
}

/* The fields that a TPU fills; the others are said to be unset. */
PJRT_Error *PJRT_Device_MemoryStats(PJRT_Device_MemoryStats_Args *args) {
  if (!args->device->is_addressable)
    return vt_error(PJRT_Error_Code_INVALID_ARGUMENT,
                    "MemoryStats is only supported for addressable PjRt devices");
  PJRT_Memory *hbm = &args->device->memories[VT_DEVICE];
  pthread_mutex_lock(&vt_lock);
  args->bytes_in_use = hbm->arena.in_use;
  args->peak_bytes_in_use = hbm->peak_in_use;
  args->num_allocs = hbm->num_allocations;
  args->largest_alloc_size = hbm->largest_allocation;
  args->bytes_limit = hbm->limit;
  args->bytes_reserved = 0; /* nothing runs between two calls of the host */
  args->peak_bytes_reserved = hbm->peak_reserved;
  args->bytes_reservable_limit = vt_arena_reservable(&hbm->arena);
  args->largest_free_block_bytes = vt_arena_largest_free(&hbm->arena);
  pthread_mutex_unlock(&vt_lock);
  args->peak_bytes_in_use_is_set = args->num_allocs_is_set = args->largest_alloc_size_is_set =
      args->bytes_limit_is_set = args->bytes_reserved_is_set = args->peak_bytes_reserved_is_set =
          args->bytes_reservable_limit_is_set = args->largest_free_block_bytes_is_set = true;
  args->pool_bytes_is_set = args->peak_pool_bytes_is_set = false;
  return NULL;
}

PJRT_Error *PJRT_Device_CreateAsyncTrackingEvent(PJRT_Device_CreateAsyncTrackingEvent_Args *args) {
  args->event = NULL; /* allowed; there is nothing asynchronous to track */
  return NULL;
}

PJRT_Error *PJRT_AsyncTrackingEvent_Destroy(PJRT_AsyncTrackingEvent_Destroy_Args *args) {
  (void)args;
  return NULL;
}

/* ---- memories ---- */

PJRT_Error *PJRT_Memory_Id(PJRT_Memory_Id_Args *args) {
  args->id = args->memory->id;
  return NULL;
}

PJRT_Error *PJRT_Memory_Kind(PJRT_Memory_Kind_Args *args) {
  args->kind = (char *)vt_memory_kind_names[args->memory->kind];
  args->kind_size = strlen(args->kind);
  return NULL;
}

PJRT_Error *PJRT_Memory_Kind_Id(PJRT_Memory_Kind_Id_Args *args) {
  args->kind_id = args->memory->kind;
  return NULL;
}

PJRT_Error *PJRT_Memory_DebugString(PJRT_Memory_DebugString_Args *args) {
  args->debug_string = args->memory->debug_string;
  args->debug_string_size = strlen(args->memory->debug_string);
  return NULL;
}

PJRT_Error *PJRT_Memory_ToString(PJRT_Memory_ToString_Args *args) {
  args->to_string = args->memory->debug_string;
  args->to_string_size = strlen(args->memory->debug_string);
  return NULL;
}

PJRT_Error *PJRT_Memory_AddressableByDevices(PJRT_Memory_AddressableByDevices_Args *args) {
  args->devices = &args->memory->device;
  args->num_devices = 1;
  return NULL;
}

/* ---- client ---- */

PJRT_Error *PJRT_Client_Destroy(PJRT_Client_Destroy_Args *args) {
  (void)args; /* arrays may outlive the client at exit, so its devices and memories stay */
  return NULL;
}

PJRT_Error *PJRT_Client_PlatformName(PJRT_Client_PlatformName_Args *args) {
  args->platform_name = "tpu";
  args->platform_name_size = 3;
  return NULL;
}

PJRT_Error *PJRT_Client_PlatformVersion(PJRT_Client_PlatformVersion_Args *args) {
  args->platform_version = args->client->topology->platform_version;
  args->platform_version_size = strlen(args->client->topology->platform_version);
  return NULL;
}

PJRT_Error *PJRT_Client_ProcessIndex(PJRT_Client_ProcessIndex_Args *args) {
  args->process_index = args->client->process_index;
  return NULL;
}

PJRT_Error *PJRT_Client_Devices(PJRT_Client_Devices_Args *args) {
  args->devices = args->client->devices;
  args->num_devices = args->client->num_devices;
  return NULL;
}

PJRT_Error *PJRT_Client_AddressableDevices(PJRT_Client_AddressableDevices_Args *args) {
  args->addressable_devices = args->client->addressable;
  args->num_addressable_devices = args->client->num_addressable;
  return NULL;
}

PJRT_Error *PJRT_Client_AddressableMemories(PJRT_Client_AddressableMemories_Args *args) {
  args->addressable_memories = args->client->memories;
  args->num_addressable_memories = args->client->num_memories;
  return NULL;
}

PJRT_Error *PJRT_Client_LookupDevice(PJRT_Client_LookupDevice_Args *args) {
  for (size_t i = 0; i < args->client->num_devices; i++)
    if (args->client->devices[i]->description->id == args->id) {
      args->device = args->client->devices[i];
      return NULL;
    }
  return vt_error(PJRT_Error_Code_INVALID_ARGUMENT, "No matching device found for device_id %d",
                  args->id);
}

PJRT_Error *PJRT_Client_LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args *args) {
  for (size_t i = 0; i < args->client->num_addressable; i++)
    if (args->client->addressable[i]->local_hardware_id == args->local_hardware_id) {
      args->addressable_device = args->client->addressable[i];
      return NULL;
    }
  return vt_error(PJRT_Error_Code_INVALID_ARGUMENT,
                  "No matching device found for local_hardware_id %d", args->local_hardware_id);
}

PJRT_Error *PJRT_Client_TopologyDescription(PJRT_Client_TopologyDescription_Args *args) {
  args->topology = args->client->topology;
  return NULL;
}

/* One device per (replica, partition), in the order of the client's devices. */
PJRT_Error *PJRT_Client_DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args *args) {
  PJRT_Client *client = args->client;
  size_t count = (size_t)args->num_replicas * (size_t)args->num_partitions;
  if (count > client->num_devices || count > args->default_assignment_size)
    return vt_error(PJRT_Error_Code_INVALID_ARGUMENT,
                    "%d replicas of %d partitions need %zu devices; the slice has %zu",
                    args->num_replicas, args->num_partitions, count, client->num_devices);
  bool fits_host = count <= client->num_addressable;
  for (size_t i = 0; i < count; i++)
    args->default_assignment[i] =
        (fits_host ? client->addressable : client->devices)[i]->description->id;
  return NULL;
}

PJRT_Error *PJRT_Client_UpdateGlobalProcessInfo(PJRT_Client_UpdateGlobalProcessInfo_Args *args) {
  (void)args; /* the other hosts of a virtual slice do not fail */
  return NULL;
}
