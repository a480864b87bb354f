"""Device memory with addresses."""

from vtpu.hbm._arena import Arena, Block

__all__ = ["Arena", "Block"]
