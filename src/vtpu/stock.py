"""The way in without vtpu's help: `TPU_LIBRARY_PATH=.../vtpu/device/_core.so`.

Whoever loads a TPU's shared object by its path calls `GetPjrtApi`, which comes here. The slice is the
one that the environment names.
"""

from __future__ import annotations


def function_table() -> object:
    """The PJRT function table, as a capsule. A slice that cannot be had is said by its functions."""
    from vtpu.device.attach import function_table as table_of
    from vtpu.plugin import _print_report

    return table_of(_print_report)
