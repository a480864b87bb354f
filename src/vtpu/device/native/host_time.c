#include "host_time.h"

#include <stdatomic.h>
#include <time.h>

#include "core.h"

static atomic_uint threads;
static _Thread_local uint32_t number;
static _Thread_local int depth;                 /* of vtpu's own work on this thread */
static _Thread_local int64_t own_ns, own_began; /* CPU time of it */

/* Guarded by vt_lock. */
static int pausing; /* threads that do vtpu's own work */
static int64_t pause_began;

/* The kernel is asked: about half a microsecond. */
static int64_t cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

vt_host_time vt_host_time_now(void) {
  if (!number) number = atomic_fetch_add(&threads, 1) + 1;
  return (vt_host_time){number, (depth ? own_began : cpu_ns()) - own_ns};
}

void vt_pause_begin(void) {
  if (depth++) return;
  own_began = cpu_ns();
  pthread_mutex_lock(&vt_lock);
  if (!pausing++) pause_began = vt_now();
  pthread_mutex_unlock(&vt_lock);
}

void vt_pause_end(void) {
  if (--depth) return;
  own_ns += cpu_ns() - own_began;
  vt_host_time here = vt_host_time_now();
  pthread_mutex_lock(&vt_lock);
  if (!--pausing)
    vt_record(&(vt_event){.kind = VT_PAUSE,
                          .time_ns = pause_began,
                          .host_ns = vt_now() - pause_began,
                          .address = -1,
                          .device = -1,
                          .thread = here.thread,
                          .cpu_ns = here.cpu_ns});
  pthread_mutex_unlock(&vt_lock);
}
