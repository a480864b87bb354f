/* An arena of device memory with addresses, filled from its high end.
 *
 * Buffers are carved from the high end of the best fitting free block (the smallest that holds the
 * request; the lowest address among equals). The temporaries of a running program are reserved as
 * one block at address 0, so they need the free block that begins there to be large enough.
 * Blocks never move: there is no compaction.
 *
 * Sizes and addresses are in bytes. Requests are rounded up to VT_ARENA_QUANTUM. Not thread-safe.
 */
#ifndef VTPU_ARENA_H
#define VTPU_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { VT_ARENA_QUANTUM = 512 };

typedef struct vt_block vt_block; /* a piece of the arena, in use or free */

typedef struct vt_arena {
  int64_t limit;    /* size of the arena */
  int64_t in_use;   /* bytes in blocks that are in use */
  vt_block *first;  /* the block at address 0; blocks are linked by address */
  vt_block **free;  /* free blocks, sorted by size, then address */
  size_t num_free;
  size_t free_capacity;
} vt_arena;

/* Returns 0, or -1 when the machine has no memory for the bookkeeping. */
int vt_arena_init(vt_arena *arena, int64_t limit);
void vt_arena_clear(vt_arena *arena);

/* A block of at least `size` > 0 bytes, or NULL when no free block holds it. */
vt_block *vt_arena_allocate(vt_arena *arena, int64_t size);
void vt_arena_free(vt_arena *arena, vt_block *block);

int64_t vt_block_address(const vt_block *block);
int64_t vt_block_size(const vt_block *block);

/* Bytes of the largest free block; bytes free at address 0, which a program can reserve. */
int64_t vt_arena_largest_free(const vt_arena *arena);
int64_t vt_arena_reservable(const vt_arena *arena);

/* `size` rounded up as the arena does. */
int64_t vt_arena_round(int64_t size);

#endif
