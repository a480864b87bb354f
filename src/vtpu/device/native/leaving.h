/* Leaving: what becomes of threads while the interpreter goes away.
 *
 * Python ends a thread that asks for its lock too late (pthread_exit), and a thread that is ended
 * within C++ frames which must not throw ends the process with SIGABRT. So threads that are in the
 * core at that time stay in it: the process ends without them, as it does without any daemon thread.
 */
#ifndef VTPU_LEAVING_H
#define VTPU_LEAVING_H

#include <pthread.h>
#include <stdbool.h>

/* Runs `statement`, which takes the interpreter's lock: a thread that Python ends in it stays. */
#define VT_WITH_PYTHON(statement)       \
  do {                                  \
    pthread_cleanup_push(vt_stay, NULL); \
    statement;                          \
    pthread_cleanup_pop(0);             \
  } while (0)

void vt_stay(void *unused); /* does not return */

/* From now on threads that come through vt_may_stay wait for the interpreter's end. */
void vt_begin_leaving(void);
/* Called by threads on their way back to a caller that will take the interpreter's lock. */
void vt_may_stay(void);
int vt_threads_staying(void);
/* Whether the interpreter ends soon, for another thread than the one that ends it. */
bool vt_is_leaving(void);

/* A forked child finds the core's locks open. Does nothing the second time. */
void vt_prepare_for_forks(void);

bool vt_python_alive(void);
void vt_set_python_alive(bool is_alive);

#endif
