/* The writer: a thread that has what happened written down while the program runs.
 *
 * It sleeps until something happened, then a second longer or until the log is long, and calls Python.
 * The user's threads never write: no signal's exception can interrupt it half-way, no line of theirs
 * waits for the disk. It is none of Python's threads and takes no signals.
 */
#include "writer.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#include "core.h"

enum { LONG = 16384, LATEST_S = 1 }; /* events pending; age of the oldest */

/* Guarded by vt_lock. A round is one call of Python; asked: the last one that somebody waits for. */
static pthread_cond_t work, written = PTHREAD_COND_INITIALIZER;
static uint64_t asked, done;
static bool runs, ends;
static pthread_t writer;

void vt_writer_notice(size_t pending) {
  if (runs && (pending == 1 || pending == LONG)) pthread_cond_signal(&work);
}

static void wait_for_work(void) {
  while (asked == done && !vt_pending()) pthread_cond_wait(&work, &vt_lock);
  struct timespec latest;
  clock_gettime(CLOCK_MONOTONIC, &latest);
  latest.tv_sec += LATEST_S;
  while (asked == done && vt_pending() < LONG)
    if (pthread_cond_timedwait(&work, &vt_lock, &latest) == ETIMEDOUT) return;
}

static void *write_along(void *unused) {
  pthread_mutex_lock(&vt_lock);
  while (!ends || asked != done) {
    wait_for_work();
    uint64_t round = asked;
    pthread_mutex_unlock(&vt_lock);
    if (vt_python_alive()) VT_WITH_PYTHON(vt_python.flush());
    pthread_mutex_lock(&vt_lock);
    done = round;
    pthread_cond_broadcast(&written);
  }
  pthread_mutex_unlock(&vt_lock);
  return unused;
}

static void make_condition(void) {
  pthread_condattr_t steady; /* a clock that nobody sets */
  pthread_condattr_init(&steady);
  pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
  pthread_cond_init(&work, &steady);
  pthread_condattr_destroy(&steady);
}

bool vt_writer_start(void) {
  pthread_mutex_lock(&vt_lock);
  make_condition();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  runs = pthread_create(&writer, NULL, write_along, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  bool is_started = runs;
  pthread_mutex_unlock(&vt_lock);
  return is_started;
}

void vt_writer_hurry(void) {
  pthread_mutex_lock(&vt_lock);
  if (runs) {
    asked++;
    pthread_cond_signal(&work);
  }
  pthread_mutex_unlock(&vt_lock);
}

void vt_writer_catch_up(void) {
  pthread_mutex_lock(&vt_lock);
  if (runs && !pthread_equal(writer, pthread_self())) { /* a finalizer may run on the writer */
    uint64_t round = ++asked;
    pthread_cond_signal(&work);
    while (done < round) pthread_cond_wait(&written, &vt_lock);
  }
  pthread_mutex_unlock(&vt_lock);
}

void vt_writer_end(void) {
  pthread_mutex_lock(&vt_lock);
  vt_log_close();
  bool is_running = runs;
  if (is_running) {
    runs = false;
    ends = true;
    asked++;
    pthread_cond_signal(&work);
  }
  pthread_mutex_unlock(&vt_lock);
  if (is_running) pthread_join(writer, NULL);
}

void vt_writer_forked(void) { runs = false; }
