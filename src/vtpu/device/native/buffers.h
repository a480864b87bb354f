/* Buffers and their memory, for the files that make and end them. The caller holds vt_lock. */
#ifndef VTPU_BUFFERS_H
#define VTPU_BUFFERS_H

#include "core.h"

typedef struct vt_origin { /* who asked for memory */
  uint32_t stack, program;
} vt_origin;

/* A buffer with memory of its own; its ALLOCATE event is recorded. NULL: the memory is full. */
PJRT_Buffer *vt_buffer_place(const vt_shape *shape, PJRT_Memory *memory, vt_origin origin);
/* A buffer that takes over the memory of `donated`, which is deleted by that. */
PJRT_Buffer *vt_buffer_take_over(PJRT_Buffer *donated, const vt_shape *shape, vt_origin origin);
/* Gives the memory back and marks the buffer deleted. Does nothing the second time. */
void vt_buffer_end(PJRT_Buffer *buffer, bool is_donation);
/* Undoes vt_buffer_place. */
void vt_buffer_discard(PJRT_Buffer *buffer);
/* Notes that a running program reserved `bytes` beside what is in use. */
void vt_memory_note_reserved(PJRT_Memory *memory, int64_t bytes, uint64_t event);
/* The error of a request that did not fit; its FAILURE event is recorded. */
PJRT_Error *vt_buffer_full(PJRT_Memory *memory, int64_t bytes, vt_origin origin,
                           const char *prefix, const char *suffix);

/* The contents as vt_value_read gives them. No lock may be held. */
PJRT_Error *vt_buffer_read(PJRT_Buffer *buffer, void *out, const PJRT_Buffer_MemoryLayout *layout,
                           uint16_t *why);

#endif
