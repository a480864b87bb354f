#include "interrupts.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int watchers;
static struct sigaction previous;
static volatile sig_atomic_t noted;

static void note(int number, siginfo_t *info, void *context) {
  noted = 1;
  if (previous.sa_flags & SA_SIGINFO)
    previous.sa_sigaction(number, info, context);
  else
    previous.sa_handler(number);
}

static bool is_function(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) ||
         (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

static void begin(void) {
  struct sigaction current;
  noted = 0;
  if (sigaction(SIGINT, NULL, &current) != 0 || !is_function(&current)) return;
  previous = current;
  struct sigaction ours = current;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = note;
  sigaction(SIGINT, &ours, NULL);
}

static void end(void) {
  struct sigaction current;
  if (sigaction(SIGINT, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) &&
      current.sa_sigaction == note)
    sigaction(SIGINT, &previous, NULL);
}

void vt_watch_interrupts(bool watch) {
  pthread_mutex_lock(&lock);
  if (watch && watchers++ == 0) begin();
  if (!watch && --watchers == 0) end();
  pthread_mutex_unlock(&lock);
}

bool vt_interrupted(void) { return noted; }
