/* The thread that has what happened written down. None of this may be called within vt_lock, but
 * vt_writer_notice, which wants it. */
#ifndef VTPU_WRITER_H
#define VTPU_WRITER_H

#include <stdbool.h>
#include <stddef.h>

bool vt_writer_start(void);            /* false: there is no room for a thread */
void vt_writer_notice(size_t pending); /* an event was recorded; so many are pending */
void vt_writer_hurry(void);            /* now, not within a second; does not wait */
void vt_writer_catch_up(void);         /* waits until all that happened is written */
void vt_writer_end(void);              /* the same for the last time: later events are not recorded */
void vt_writer_forked(void);           /* in a child, which has no such thread */

#endif
