# cython: language_level=3
"""The arena of device memory for Python: the same code that the native core places buffers with."""

from libc.stdint cimport int64_t

cdef extern from "arena.h":
    ctypedef struct vt_block
    ctypedef struct vt_arena:
        int64_t limit
        int64_t in_use
    int vt_arena_init(vt_arena *arena, int64_t limit)
    void vt_arena_clear(vt_arena *arena)
    vt_block *vt_arena_allocate(vt_arena *arena, int64_t size)
    void vt_arena_free(vt_arena *arena, vt_block *block)
    int64_t vt_block_address(const vt_block *block)
    int64_t vt_block_size(const vt_block *block)
    int64_t vt_arena_largest_free(const vt_arena *arena)
    int64_t vt_arena_reservable(const vt_arena *arena)


cdef class Block:
    """A block of an arena. `address` and `size` are in bytes."""

    cdef vt_block *block
    cdef readonly int64_t address
    cdef readonly int64_t size


cdef class Arena:
    """HBM of `limit` bytes, filled from its high end, best fit, never compacted.

    An assumption in its details: libtpu's allocator is not public.
    """

    cdef vt_arena arena

    def __cinit__(self, int64_t limit):
        if limit <= 0 or vt_arena_init(&self.arena, limit) != 0:
            raise ValueError(f"an arena of {limit} bytes")

    def __dealloc__(self):
        vt_arena_clear(&self.arena)

    def allocate(self, int64_t size):
        """A block of at least `size` > 0 bytes, or None when no free block holds it."""
        if size <= 0:
            raise ValueError(f"a block of {size} bytes")
        cdef vt_block *block = vt_arena_allocate(&self.arena, size)
        if block == NULL:
            return None
        cdef Block made = Block.__new__(Block)
        made.block = block
        made.address = vt_block_address(block)
        made.size = vt_block_size(block)
        return made

    def free(self, Block block not None):
        """Gives a block back; once."""
        if block.block == NULL:
            raise ValueError("the block was freed before")
        vt_arena_free(&self.arena, block.block)
        block.block = NULL

    def reserve(self, int64_t size, int program=0):
        """Whether a program finds `size` bytes at address 0 for a run; it gives them back after it."""
        return size <= vt_arena_reservable(&self.arena)

    @property
    def limit(self):
        """The size of the arena."""
        return self.arena.limit

    @property
    def in_use(self):
        """Bytes in blocks that are in use."""
        return self.arena.in_use

    @property
    def reserved(self):
        """Bytes that programs keep between runs: none."""
        return 0

    @property
    def pool_bytes(self):
        """Bytes that are taken from the chip: all of them."""
        return self.arena.limit

    @property
    def largest_free(self):
        """Bytes of the largest free block."""
        return vt_arena_largest_free(&self.arena)

    @property
    def reservable(self):
        """Bytes free at address 0, which a program can reserve for its temporaries."""
        return vt_arena_reservable(&self.arena)
