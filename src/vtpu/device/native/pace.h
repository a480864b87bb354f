/* Pace: what the slice would have ready later is ready later here, too.
 *
 * Python says when (vt_python.place_*), by the virtual clock, whose time is that of the log here. Whoever
 * waits for an event really waits; callbacks come from a thread of the core's own, which is none of
 * Python's and takes no signals. Without pace all is ready at once.
 */
#ifndef VTPU_PACE_H
#define VTPU_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "pjrt.h"

extern volatile bool vt_pace_on;

bool vt_pace_start(void); /* false: there is no room for a thread */
void vt_pace_end(void);   /* from now on everything is ready. Callbacks may need the interpreter's lock */
void vt_pace_forked(void);

bool vt_is_ready_at(int64_t ready_ns);
/* Waits until then, without the interpreter's lock; ends early for a signal to Python. No lock of the
 * core's may be held. */
void vt_pace_wait(int64_t ready_ns);
/* Calls back at that time. False: out of memory. */
bool vt_pace_call(int64_t ready_ns, void (*callback)(PJRT_Error *, void *), void *argument);

#endif
