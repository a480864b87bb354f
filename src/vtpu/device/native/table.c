/* The function table, and the answer of everything that is not simulated.
 *
 * A function of the ABI is defined under its own name in the file where it belongs; the table takes
 * it from there. One that is defined nowhere falls back to the weak definition here, which answers
 * UNIMPLEMENTED with the function's name and leaves an event in the recording.
 */
#include "core.h"
#include "extensions.h"


enum {
#define COUNT(name, arguments) INDEX_##name,
  VTPU_STUBS(COUNT)
#undef COUNT
      NUM_FUNCTIONS
};

static const char *const function_names[] = {
#define NAME(name, arguments) #name,
    VTPU_STUBS(NAME)
#undef NAME
};

const char *vt_function_name(size_t index) {
  return index < NUM_FUNCTIONS ? function_names[index] : NULL;
}

PJRT_Error *vt_unsupported(uint32_t index) {
  uint32_t stack = vt_stack_here();
  pthread_mutex_lock(&vt_lock);
  vt_record(&(vt_event){.kind = VT_UNSUPPORTED, .stack = stack, .detail = index, .device = -1,
                        .address = -1, .host_ns = -1});
  pthread_mutex_unlock(&vt_lock);
  return vt_error(PJRT_Error_Code_UNIMPLEMENTED, "%s is not simulated by vtpu",
                  function_names[index]);
}

#define STUB(name, arguments)                                \
  __attribute__((weak)) PJRT_Error *name(arguments *args) { \
    (void)args;                                              \
    return vt_unsupported(INDEX_##name);                     \
  }
VTPU_STUBS(STUB)

static PJRT_Api api = {
    .struct_size = sizeof(PJRT_Api),
    .pjrt_api_version = {.struct_size = sizeof(PJRT_Api_Version),
                         .major_version = VTPU_PJRT_MAJOR,
                         .minor_version = VTPU_PJRT_MINOR},
    .PJRT_Error_Destroy = PJRT_Error_Destroy,
    .PJRT_Error_Message = PJRT_Error_Message,
#define ENTRY(name, arguments) .name = name,
    VTPU_STUBS(ENTRY)
#undef ENTRY
};

const PJRT_Api *vt_api(void) {
  api.extension_start = vt_extensions();
  return &api;
}
