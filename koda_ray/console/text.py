"""Words and numbers as people read them, and nothing from a model that could move the cursor."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime

from koda_ray.types import now

__all__ = ["age", "clean", "duration", "one_line", "plural", "size", "slug", "time_left"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_SLUG_CHARS = 48
_SOON_S = 0.5


def clean(text: str) -> str:
    """Remove control characters and direction marks: a model's words must not drive the terminal."""
    return _CONTROL.sub("", _SEQUENCE.sub("", text.replace("\t", "    ")))


def one_line(text: str, width: int) -> str:
    """Return text on one line of at most ``width`` characters."""
    line = " ".join(clean(text).split())
    return line if len(line) <= width else f"{line[: max(0, width - 1)]}…"


def duration(seconds: float) -> str:
    """Say a length of time: ``0.8 s``, ``42 s``, ``3:05``, ``1:02:03``."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"


def time_left(seconds: float | None, percent: float) -> str:
    """Say how long work will still take: ``12 s left``; nothing where nobody knows, or it is as good as over."""
    return "" if seconds is None or seconds < _SOON_S or percent >= 100 else f"{duration(seconds)} left"


def age(at: datetime | None) -> str:
    """Say how long ago something was: ``3 s``, ``5 min``, ``2 h``, ``9 d``; ``?`` where nobody knows."""
    if at is None:
        return "?"
    seconds = max(0.0, (now() - at).total_seconds())
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: float) -> str:
    """Say a number of bytes: ``512 B``, ``3.2 kB``, ``14 MB``."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def plural(count: int, noun: str) -> str:
    """Say how many: ``1 scene``, ``3 scenes``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def slug(prompt: str) -> str:
    """Make a folder's name from a prompt: its first words, in its own script."""
    words = re.findall(r"\w+", unicodedata.normalize("NFC", prompt).lower())
    name = ""
    for word in words:
        longer = f"{name}-{word}" if name else word[:_SLUG_CHARS]
        if len(longer) > _SLUG_CHARS or len(longer.encode()) > 200:
            break
        name = longer
    return name.strip("_-") or "video"
