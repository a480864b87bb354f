#define _GNU_SOURCE
#include "bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"
#include "values.h"

enum { ALIGNMENT = 64, SMALLEST_ON_DISK = 1 << 16 };

static int64_t memory_limit = INT64_MAX, disk_limit;
static char folder[4096];
static vt_bytes_state now;
static vt_bytes *recent; /* the last copy while it lives */

void vt_bytes_limit(int64_t memory, int64_t disk, const char *where) {
  pthread_mutex_lock(&vt_lock);
  memory_limit = memory;
  disk_limit = disk;
  snprintf(folder, sizeof folder, "%s", where);
  pthread_mutex_unlock(&vt_lock);
}

vt_bytes_state vt_bytes_now(void) {
  pthread_mutex_lock(&vt_lock);
  vt_bytes_state state = now;
  pthread_mutex_unlock(&vt_lock);
  return state;
}

/* Takes `size` bytes of one of the limits; whether there was room. */
static bool reserve(size_t size, bool *is_on_disk) {
  *is_on_disk = false;
  if (now.in_memory + (int64_t)size <= memory_limit) {
    now.in_memory += (int64_t)size;
    if (now.in_memory > now.peak_in_memory) now.peak_in_memory = now.in_memory;
    return true;
  }
  *is_on_disk = size >= SMALLEST_ON_DISK && now.on_disk + (int64_t)size <= disk_limit;
  if (!*is_on_disk) return false;
  now.on_disk += (int64_t)size;
  if (now.on_disk > now.peak_on_disk) now.peak_on_disk = now.on_disk;
  return true;
}

static void give_back(size_t size, bool is_on_disk) {
  if (is_on_disk)
    now.on_disk -= (int64_t)size;
  else
    now.in_memory -= (int64_t)size;
}

/* A mapped file that has no name, with its blocks taken: writing to it cannot fail later. */
static char *map_file(size_t size) {
  char name[sizeof folder + 32];
  snprintf(name, sizeof name, "%s/vtpu-values-XXXXXX", folder);
  int file = mkostemp(name, O_CLOEXEC);
  if (file < 0) return NULL;
  unlink(name);
  char *data = MAP_FAILED;
  if (posix_fallocate(file, 0, (off_t)size) == 0)
    data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return data == MAP_FAILED ? NULL : data;
}

static char *take(size_t size, bool is_on_disk) {
  if (is_on_disk) return map_file(size);
  return aligned_alloc(ALIGNMENT, (size / ALIGNMENT + 1) * ALIGNMENT);
}

/* Takes room, for which old executions are forgotten if need be; whether there is any. */
static bool make_room(vt_bytes *bytes) {
  pthread_mutex_lock(&vt_lock);
  bool has_room = reserve(bytes->size, &bytes->is_on_disk);
  while (!has_room && vt_forget_oldest_launch())
    has_room = reserve(bytes->size, &bytes->is_on_disk);
  pthread_mutex_unlock(&vt_lock);
  return has_room;
}

/* A disk that is full is one with a lower limit: what it holds now. */
static void lose_room(const vt_bytes *bytes) {
  pthread_mutex_lock(&vt_lock);
  give_back(bytes->size, bytes->is_on_disk);
  if (bytes->is_on_disk && disk_limit > now.on_disk) disk_limit = now.on_disk;
  pthread_mutex_unlock(&vt_lock);
}

vt_bytes *vt_bytes_new(size_t size) {
  vt_bytes *bytes = malloc(sizeof *bytes);
  if (!bytes) return NULL;
  bytes->references = 1;
  bytes->size = size;
  while (make_room(bytes)) {
    bytes->data = take(size, bytes->is_on_disk);
    if (bytes->data) return bytes;
    lose_room(bytes);
    if (!bytes->is_on_disk) break;
  }
  free(bytes);
  return NULL;
}

static vt_bytes *same_as_recent(const void *data, size_t size) {
  pthread_mutex_lock(&vt_lock);
  vt_bytes *candidate = recent && recent->size == size ? recent : NULL;
  if (candidate) candidate->references++;
  pthread_mutex_unlock(&vt_lock);
  if (!candidate || memcmp(candidate->data, data, size) == 0) return candidate;
  pthread_mutex_lock(&vt_lock);
  vt_bytes_release(candidate);
  pthread_mutex_unlock(&vt_lock);
  return NULL;
}

vt_bytes *vt_bytes_copy(const void *data, size_t size) {
  vt_bytes *bytes = same_as_recent(data, size);
  if (bytes) return bytes;
  bytes = vt_bytes_new(size);
  if (!bytes) return NULL;
  memcpy(bytes->data, data, size);
  pthread_mutex_lock(&vt_lock);
  recent = bytes;
  pthread_mutex_unlock(&vt_lock);
  return bytes;
}

void vt_bytes_release(vt_bytes *bytes) {
  if (!bytes || --bytes->references) return;
  if (recent == bytes) recent = NULL;
  give_back(bytes->size, bytes->is_on_disk);
  if (bytes->is_on_disk)
    munmap(bytes->data, bytes->size);
  else
    free(bytes->data);
  free(bytes);
}
