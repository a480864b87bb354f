/* Host callbacks of a program: what it sends to the host and expects back. */
#ifndef VTPU_CALLBACKS_H
#define VTPU_CALLBACKS_H

#include "buffers.h"

/* Calls the host functions of an execution, once each, with what the user wants in place of the
 * values that the slice did not compute for the reason `why`; when that is an error, none is called.
 * Runs Python; the caller holds no lock. */
PJRT_Error *vt_run_host_callbacks(PJRT_LoadedExecutable_Execute_Args *args, vt_origin origin,
                                  uint16_t why);

/* One send of an execution with the contents `data`, and one receive, on the table of the d-th of its
 * devices on this host. Both run Python, within a pause that they leave meanwhile; the caller holds
 * no lock. A channel that the program does
 * not have is none. */
PJRT_Error *vt_send_to_host(PJRT_LoadedExecutable_Execute_Args *args, size_t d, int64_t channel_id,
                            const void *data, size_t size, vt_origin origin);
PJRT_Error *vt_receive_from_host(PJRT_LoadedExecutable_Execute_Args *args, size_t d,
                                 int64_t channel_id, void *data, size_t size);

#endif
