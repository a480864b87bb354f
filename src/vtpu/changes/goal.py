"""What a fix is to improve."""

from __future__ import annotations

from enum import StrEnum


class Goal(StrEnum):
    """What counts: that the program fits, the least memory at no more than 15 % of a step, or the step."""

    FIT = "fit"
    MEMORY = "memory"
    SPEED = "speed"
