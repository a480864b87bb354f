/* The time of the host's threads, and what of it is vtpu's own work.
 *
 * Compiling and computing values take time on this machine that passes on no slice. While a thread
 * does such work, its CPU time is not counted, and a PAUSE is recorded.
 */
#ifndef VTPU_HOST_TIME_H
#define VTPU_HOST_TIME_H

#include <stdint.h>

/* Which thread this is, from 1 in the order in which they came here, and the CPU time that it used
 * so far, nanoseconds, without vtpu's own work. */
typedef struct vt_host_time {
  uint32_t thread;
  int64_t cpu_ns;
} vt_host_time;

vt_host_time vt_host_time_now(void);

/* Around work of vtpu's own on this thread; may be nested. No lock may be held. */
void vt_pause_begin(void);
void vt_pause_end(void);

/* Runs `statement` as vtpu's own work. */
#define VT_PAUSED(statement) \
  do {                       \
    vt_pause_begin();        \
    statement;               \
    vt_pause_end();          \
  } while (0)

#endif
