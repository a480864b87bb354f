/* Contents of arrays in this machine's memory, or on its disk when there are many. */
#ifndef VTPU_BYTES_H
#define VTPU_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vt_bytes {
  uint32_t references; /* guarded by vt_lock */
  bool is_on_disk;
  size_t size;
  char *data; /* aligned so that a CPU client can use it in place */
} vt_bytes;

/* Room for `size` bytes, not yet filled; NULL when neither memory nor disk may take more. The caller
 * holds no lock: others' contents may be forgotten for it. */
vt_bytes *vt_bytes_new(size_t size);
/* A copy of `size` bytes. The same contents many times in a row, as for each device of a replicated
 * array, are kept once. */
vt_bytes *vt_bytes_copy(const void *data, size_t size);
void vt_bytes_release(vt_bytes *bytes); /* the caller holds vt_lock; NULL is fine */

/* What may be kept, in bytes, and the folder for what goes to disk. */
void vt_bytes_limit(int64_t memory, int64_t disk, const char *folder);

typedef struct vt_bytes_state {
  int64_t in_memory, on_disk, peak_in_memory, peak_on_disk;
} vt_bytes_state;
vt_bytes_state vt_bytes_now(void);

#endif
