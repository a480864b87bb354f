/* The event log: fixed-size records in a growing array, drained by Python. Guarded by vt_lock. */
#include <stdlib.h>
#include <time.h>

#include "core.h"
#include "writer.h"

static vt_event *events;
static size_t num_events, capacity;
static uint64_t first_number, dropped; /* number of events[0]; events lost for want of memory */
static int64_t began;
static bool is_closed; /* the recording ended, or belongs to the parent of this process */

int64_t vt_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  if (!began) began = ns;
  return ns - began;
}

struct timespec vt_deadline(int64_t at_ns) {
  int64_t ns = began + at_ns;
  return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

uint64_t vt_record(const vt_event *event) {
  if (is_closed) return first_number;
  if (num_events == capacity) {
    size_t grown = capacity ? capacity * 2 : 1024;
    vt_event *moved = realloc(events, grown * sizeof *events);
    if (!moved) {
      dropped++;
      return first_number + num_events;
    }
    events = moved;
    capacity = grown;
  }
  events[num_events] = *event;
  if (!event->thread) events[num_events].cpu_ns = -1;
  if (!event->time_ns) events[num_events].time_ns = vt_now();
  vt_writer_notice(++num_events);
  return first_number + num_events - 1;
}

void vt_record_alone(const vt_event *event) {
  pthread_mutex_lock(&vt_lock);
  vt_record(event);
  pthread_mutex_unlock(&vt_lock);
}

void vt_complete_event(uint64_t number, int64_t host_ns, uint8_t flags) {
  if (number - first_number >= num_events) return;
  vt_event *event = &events[number - first_number];
  vt_host_time here = vt_host_time_now();
  event->host_ns = host_ns;
  event->flags |= flags;
  event->thread = here.thread;
  event->cpu_ns = here.cpu_ns;
}

bool vt_is_waiting_on(const vt_event *wait) {
  if (!num_events) return false;
  const vt_event *last = &events[num_events - 1];
  return last->kind == VT_WAIT && last->thread == wait->thread &&
         last->awaits_execution == wait->awaits_execution &&
         last->awaits_transfer == wait->awaits_transfer;
}

size_t vt_pending(void) { return num_events; }
uint64_t vt_dropped(void) { return dropped; }

void vt_log_close(void) { is_closed = true; }

void vt_log_forget(void) {
  free(events);
  events = NULL;
  num_events = capacity = 0;
}

size_t vt_drain(vt_event **out) {
  pthread_mutex_lock(&vt_lock);
  size_t count = num_events;
  *out = events;
  first_number += count;
  events = NULL;
  num_events = capacity = 0;
  pthread_mutex_unlock(&vt_lock);
  return count;
}
