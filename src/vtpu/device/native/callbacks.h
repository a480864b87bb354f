/* Host callbacks of a program: what it sends to the host and expects back. */
#ifndef VTPU_CALLBACKS_H
#define VTPU_CALLBACKS_H

#include "buffers.h"

/* Calls the host functions of an execution, once each, with zeros in place of the values that the
 * slice did not compute. Runs Python; the caller holds no lock. */
PJRT_Error *vt_run_host_callbacks(PJRT_LoadedExecutable_Execute_Args *args, vt_origin origin);

#endif
