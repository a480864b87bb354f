"""Why a program ran out of memory at compile time, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from vtpu.analysis.program.out_of_memory import Failure, HbmFailure


def plain(value: Any) -> dict[str, Any]:
    """A frozen value of plain ones."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(asdict(value))


def failure_as_json(failure: Failure) -> dict[str, Any]:
    """The JSON value; a size of a message is `{"bytes": …, "rounding": …}`."""
    if not isinstance(failure, HbmFailure):
        return {"memory": failure.space, **plain(failure)}
    tried = failure.rematerialization
    return {
        "memory": "HBM",
        "refusal": plain(failure.refusal),
        "need_bytes": failure.need_bytes,
        "stated": plain(failure.stated) if failure.stated else None,
        "limit_bytes": failure.limit_bytes,
        "over_bytes": failure.over_bytes,
        "padding_bytes": failure.padding_bytes,
        "free_at_peak_bytes": failure.free_at_peak_bytes,
        "by_role": [plain(g) for g in failure.by_role],
        "estimates": plain(failure.estimates),
        "rematerialization": plain(tried) if tried else None,
    }
