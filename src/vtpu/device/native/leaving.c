#include "leaving.h"

#include <Python.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "core.h"
#include "pace.h"
#include "writer.h"

#if PY_VERSION_HEX >= 0x030d0000
#define is_finalizing Py_IsFinalizing
#else
#define is_finalizing _Py_IsFinalizing
#endif

/* Longer than the functions that run at exit take, shorter than anybody's patience. */
enum { LONGEST_WAIT_MS = 3000 };

static volatile bool alive, leaving;
static atomic_int staying;
static pthread_t leader; /* the thread that ends the interpreter */

bool vt_python_alive(void) { return alive && !is_finalizing(); }
void vt_set_python_alive(bool is_alive) { alive = is_alive; }

void vt_stay(void *unused) {
  (void)unused;
  for (;;) pause();
}

void vt_begin_leaving(void) {
  leader = pthread_self();
  leaving = true;
}

bool vt_is_leaving(void) { return leaving && !pthread_equal(pthread_self(), leader); }

/* Not a thread of jaxlib's own: one of Python's waits for it. */
static bool can_stay(void) {
  return !pthread_equal(pthread_self(), leader) && PyGILState_GetThisThreadState() &&
         !PyGILState_Check();
}

void vt_may_stay(void) {
  if (!leaving || !can_stay()) return;
  atomic_fetch_add(&staying, 1);
  for (int ms = 0; ms < LONGEST_WAIT_MS; ms++) {
    if (is_finalizing()) vt_stay(NULL);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  atomic_fetch_sub(&staying, 1);
  leaving = false; /* the end does not come: it may wait for this thread */
}

static void close_locks(void) {
  pthread_mutex_lock(&vt_lock);
  pthread_mutex_lock(&vt_shapes_lock);
}

static void open_locks(void) {
  pthread_mutex_unlock(&vt_shapes_lock);
  pthread_mutex_unlock(&vt_lock);
}

/* The recording is the parent's, and so is what it has not written yet. */
static void begin_child(void) {
  vt_log_close();
  vt_log_forget();
  vt_writer_forked();
  vt_pace_forked();
  open_locks();
}

void vt_prepare_for_forks(void) {
  static bool is_done;
  if (!is_done) is_done = pthread_atfork(close_locks, open_locks, begin_child) == 0;
}

int vt_threads_staying(void) { return atomic_load(&staying); }
