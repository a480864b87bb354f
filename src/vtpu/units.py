"""Exact quantities and their text: bytes, seconds, counts.

Bytes are integers everywhere; GiB, MiB and KiB exist only in text, with two decimals. A rounded text
never crosses a limit: whoever compares compares the integers.
"""

from __future__ import annotations

import re

KIB, MIB, GIB, TIB, PIB, EIB = (1 << power for power in range(10, 70, 10))
_UNITS = ((EIB, "EiB"), (PIB, "PiB"), (TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))

_BYTES = re.compile(r"\s*([\d_,]+(?:\.\d+)?)\s*([KMGTP]?)(i?)B?\s*", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def format_bytes(size: int) -> str:
    """`size` for people: `15.75 GiB`, `4.00 MiB`, `512 B`. Zero is `0 B`."""
    for unit, name in _UNITS:
        if abs(size) >= unit:
            return f"{size / unit:,.2f} {name}"
    return f"{size} B"


def parse_bytes(text: str) -> int:
    """The bytes that a person wrote: `14.5 GiB`, `14.5G`, `900MB`, `512`.

    `K`, `M`, `G`, `T` alone or with `i` are binary, as XLA prints them; with a `B` and no `i` they
    are decimal, as data sheets print them.

    Raises:
        ValueError: `text` is not a size.
    """
    match = _BYTES.fullmatch(text)
    if not match:
        raise ValueError(f"not a size in bytes: {text!r} (write 14.5GiB, 900MB or 512)")
    number, prefix, binary = match.groups()
    is_decimal = prefix and not binary and text.strip().lower().endswith("b")
    base = 1000 if is_decimal else 1024
    return round(float(number.replace(",", "").replace("_", "")) * base ** _POWERS[prefix.upper()])


def format_seconds(seconds: float) -> str:
    """A duration for people: `1 min 20 s`, `2.35 s`, `12.0 ms`, `8.1 µs`, `5.6 ns`."""
    if seconds >= 60:
        whole = round(seconds)
        return f"{whole // 60} min {whole % 60} s"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.1f} ms"
    if seconds >= 1e-7 or not seconds:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e9:.1f} ns"


def format_flops(count: float) -> str:
    """A number of floating-point operations for people: `7.40 TFLOP`, `12 FLOP`."""
    for unit, name in ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")):
        if count >= unit:
            return f"{count / unit:,.2f} {name}"
    return f"{count:,.0f} FLOP"


def format_rate(value: float, unit: str) -> str:
    """An amount per second, in decimal units as data sheets have them: `197 TFLOP/s`, `819 GB/s`."""
    for factor, name in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:,.3g} {name}{unit}/s"
    return f"{value:,.3g} {unit}/s"


def format_count(count: int) -> str:
    """A number of things, with thousands apart."""
    return f"{count:,}"


def counted(count: int, noun: str) -> str:
    """A number of things with their name: `1 device`, `4 devices`."""
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"
