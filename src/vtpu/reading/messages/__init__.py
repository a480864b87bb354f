"""Messages of XLA, the TPU runtime, JAX and others about memory, found in any text.

`read_messages` is the only way in. Templates have the names T1 to T27.
"""

from vtpu.reading.messages.read import Messages, read_messages

__all__ = ["Messages", "read_messages"]
