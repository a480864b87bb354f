"""The exceptions that vtpu raises for people: what happened, where, what to do.

VtpuError
├── UsageError          the command or call was wrong
├── CompilerMissing     no libtpu for this platform
└── CompilerDied        libtpu crashed, hung or was killed
"""

from __future__ import annotations


class VtpuError(Exception):
    """Something went wrong that a person can act on. `str()` is the whole message."""


class UsageError(VtpuError):
    """A command, argument or setting that cannot be followed."""


class CompilerMissing(VtpuError):
    """libtpu is not installed, or does not exist for this platform."""


class CompilerDied(VtpuError):
    """The process that held libtpu ended or did not answer. `log` is the end of what it printed."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log
