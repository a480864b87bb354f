#include "arena.h"

#include <stdlib.h>
#include <string.h>

struct vt_block {
  int64_t address;
  int64_t size;
  vt_block *lower;  /* neighbours by address */
  vt_block *higher;
  int is_free;
};

int64_t vt_block_address(const vt_block *block) { return block->address; }
int64_t vt_block_size(const vt_block *block) { return block->size; }

int64_t vt_arena_round(int64_t size) {
  return (size + VT_ARENA_QUANTUM - 1) / VT_ARENA_QUANTUM * VT_ARENA_QUANTUM;
}

/* Index of the first free block that does not sort before (size, address). */
static size_t lower_bound(const vt_arena *arena, int64_t size, int64_t address) {
  size_t low = 0, high = arena->num_free;
  while (low < high) {
    size_t middle = (low + high) / 2;
    const vt_block *block = arena->free[middle];
    if (block->size < size || (block->size == size && block->address < address))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static int add_free(vt_arena *arena, vt_block *block) {
  if (arena->num_free == arena->free_capacity) {
    size_t capacity = arena->free_capacity ? 2 * arena->free_capacity : 16;
    vt_block **grown = realloc(arena->free, capacity * sizeof *grown);
    if (!grown) return -1;
    arena->free = grown;
    arena->free_capacity = capacity;
  }
  size_t at = lower_bound(arena, block->size, block->address);
  memmove(arena->free + at + 1, arena->free + at, (arena->num_free - at) * sizeof *arena->free);
  arena->free[at] = block;
  arena->num_free++;
  block->is_free = 1;
  return 0;
}

static void remove_free(vt_arena *arena, vt_block *block) {
  size_t at = lower_bound(arena, block->size, block->address);
  memmove(arena->free + at, arena->free + at + 1, (arena->num_free - at - 1) * sizeof *arena->free);
  arena->num_free--;
  block->is_free = 0;
}

int vt_arena_init(vt_arena *arena, int64_t limit) {
  memset(arena, 0, sizeof *arena);
  arena->limit = limit;
  vt_block *all = calloc(1, sizeof *all);
  if (!all) return -1;
  all->size = limit;
  arena->first = all;
  return add_free(arena, all);
}

void vt_arena_clear(vt_arena *arena) {
  for (vt_block *block = arena->first; block;) {
    vt_block *next = block->higher;
    free(block);
    block = next;
  }
  free(arena->free);
  memset(arena, 0, sizeof *arena);
}

/* Splits `size` bytes off the high end of a block that is not in the free list. */
static vt_block *split_high_end(vt_block *block, int64_t size) {
  vt_block *top = malloc(sizeof *top);
  if (!top) return NULL;
  block->size -= size;
  *top = (vt_block){.address = block->address + block->size, .size = size, .lower = block,
                    .higher = block->higher};
  if (block->higher) block->higher->lower = top;
  block->higher = top;
  return top;
}

vt_block *vt_arena_allocate(vt_arena *arena, int64_t size) {
  size = vt_arena_round(size);
  size_t at = lower_bound(arena, size, 0);
  if (at == arena->num_free) return NULL;
  vt_block *fit = arena->free[at];
  remove_free(arena, fit);
  vt_block *taken = fit;
  if (fit->size > size) {
    taken = split_high_end(fit, size);
    add_free(arena, fit); /* cannot fail: its old place in the list is vacant */
    if (!taken) return NULL;
  }
  arena->in_use += size;
  return taken;
}

/* Joins a block with its higher neighbour, which disappears. */
static void absorb_higher(vt_block *block) {
  vt_block *gone = block->higher;
  block->size += gone->size;
  block->higher = gone->higher;
  if (gone->higher) gone->higher->lower = block;
  free(gone);
}

void vt_arena_free(vt_arena *arena, vt_block *block) {
  arena->in_use -= block->size;
  if (block->higher && block->higher->is_free) {
    remove_free(arena, block->higher);
    absorb_higher(block);
  }
  if (block->lower && block->lower->is_free) {
    block = block->lower;
    remove_free(arena, block);
    absorb_higher(block);
  }
  add_free(arena, block); /* on failure the bytes stay lost to the arena, nothing is corrupted */
}

int64_t vt_arena_largest_free(const vt_arena *arena) {
  return arena->num_free ? arena->free[arena->num_free - 1]->size : 0;
}

int64_t vt_arena_reservable(const vt_arena *arena) {
  return arena->first && arena->first->is_free ? arena->first->size : 0;
}
