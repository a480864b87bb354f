#define _GNU_SOURCE /* pthread_timedjoin_np */
#include "pace.h"

#include <Python.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "core.h"

enum {
  BETWEEN_SIGNALS_NS = 100000000, /* a tenth of a second: Ctrl-C is noticed so soon */
  LONGEST_END_S = 3
};

typedef struct call {
  int64_t at_ns;
  uint64_t number; /* calls for one time come in the order in which they were asked for */
  void (*callback)(PJRT_Error *, void *);
  void *argument;
} call;

volatile bool vt_pace_on;

/* Guarded by vt_lock. The calls are a heap, the next one first. */
static call *calls;
static size_t num_calls, capacity;
static uint64_t last_number;
static bool runs, ends;
static pthread_t timer;
static pthread_cond_t changed; /* an earlier call, or the end */

bool vt_is_ready_at(int64_t ready_ns) { return !vt_pace_on || vt_now() >= ready_ns; }

/* ---- the heap ---- */

static bool is_before(const call *a, const call *b) {
  return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void swap(size_t a, size_t b) {
  call moved = calls[a];
  calls[a] = calls[b];
  calls[b] = moved;
}

static bool push(call c) {
  if (num_calls == capacity) {
    size_t grown = capacity ? capacity * 2 : 64;
    call *moved = realloc(calls, grown * sizeof *calls);
    if (!moved) return false;
    calls = moved;
    capacity = grown;
  }
  size_t i = num_calls++;
  calls[i] = c;
  for (; i && is_before(&calls[i], &calls[(i - 1) / 2]); i = (i - 1) / 2) swap(i, (i - 1) / 2);
  return true;
}

static call pop(void) {
  call first = calls[0];
  calls[0] = calls[--num_calls];
  for (size_t i = 0, child; (child = 2 * i + 1) < num_calls; i = child) {
    if (child + 1 < num_calls && is_before(&calls[child + 1], &calls[child])) child++;
    if (!is_before(&calls[child], &calls[i])) break;
    swap(i, child);
  }
  return first;
}

/* ---- the timer ---- */

/* Until then, or something changed. The caller holds the lock. */
static void wait_until(int64_t at_ns) {
  struct timespec when = vt_deadline(at_ns);
  pthread_cond_timedwait(&changed, &vt_lock, &when);
}

static void *call_back(void *unused) {
  pthread_mutex_lock(&vt_lock);
  while (!ends || num_calls) {
    if (!num_calls) {
      pthread_cond_wait(&changed, &vt_lock);
    } else if (!ends && vt_now() < calls[0].at_ns) {
      wait_until(calls[0].at_ns);
    } else {
      call due = pop();
      pthread_mutex_unlock(&vt_lock);
      due.callback(NULL, due.argument);
      pthread_mutex_lock(&vt_lock);
    }
  }
  pthread_mutex_unlock(&vt_lock);
  return unused;
}

bool vt_pace_start(void) {
  pthread_condattr_t steady;
  pthread_condattr_init(&steady);
  pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
  pthread_cond_init(&changed, &steady);
  pthread_condattr_destroy(&steady);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  runs = vt_pace_on = pthread_create(&timer, NULL, call_back, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return runs;
}

void vt_pace_end(void) {
  pthread_mutex_lock(&vt_lock);
  bool is_running = runs;
  runs = vt_pace_on = false;
  ends = true;
  if (is_running) pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&vt_lock);
  if (!is_running) return;
  struct timespec latest;
  clock_gettime(CLOCK_REALTIME, &latest);
  latest.tv_sec += LONGEST_END_S;
  pthread_timedjoin_np(timer, NULL, &latest);
}

void vt_pace_forked(void) {
  runs = vt_pace_on = false;
  num_calls = 0;
}

/* ---- waiting ---- */

bool vt_pace_call(int64_t ready_ns, void (*callback)(PJRT_Error *, void *), void *argument) {
  pthread_mutex_lock(&vt_lock);
  bool is_kept = runs && push((call){ready_ns, ++last_number, callback, argument});
  if (is_kept && calls[0].number == last_number) pthread_cond_broadcast(&changed);
  bool is_over = !runs;
  pthread_mutex_unlock(&vt_lock);
  if (is_over) callback(NULL, argument);
  return is_kept || is_over;
}

static void wait_a_little(int64_t ready_ns) {
  pthread_mutex_lock(&vt_lock);
  int64_t soon = vt_now() + BETWEEN_SIGNALS_NS;
  if (vt_pace_on) wait_until(soon < ready_ns ? soon : ready_ns);
  pthread_mutex_unlock(&vt_lock);
}

/* A thread of Python's may have to run a signal's handler, which may raise. */
static bool is_interrupted(void) {
  volatile bool interrupted = false;
  if (vt_python_alive() && PyGILState_GetThisThreadState())
    VT_WITH_PYTHON(interrupted = vt_python.check_signals());
  return interrupted;
}

static void wait_without_python(int64_t ready_ns) {
  while (!vt_is_ready_at(ready_ns)) {
    wait_a_little(ready_ns);
    if (!vt_is_ready_at(ready_ns) && is_interrupted()) return;
  }
}

void vt_pace_wait(int64_t ready_ns) {
  if (vt_is_ready_at(ready_ns)) return;
  PyThreadState *state = vt_python_alive() && PyGILState_Check() ? PyEval_SaveThread() : NULL;
  wait_without_python(ready_ns);
  if (state) VT_WITH_PYTHON(PyEval_RestoreThread(state));
  vt_may_stay();
}
