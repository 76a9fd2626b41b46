"""What is said where hostile code runs, as it may be kept: text that can be written down, shown and sent on.

A page, a build or a sandbox may say anything: halves of surrogate pairs, which no database takes and no event can be
sent with, what a terminal would obey, numbers of a million digits. Whatever of it becomes a message, a name or a number
of ours goes through here once, where it comes in.
"""

from __future__ import annotations

import re

__all__ = ["LARGEST", "plain", "unbroken", "whole"]

LARGEST = 2**53 - 1
"""No whole number is larger: those of JSON are exact so far. Source: RFC 8259, section 6."""

_MOST_DIGITS = 9
# what a terminal would obey, and what is half a character
_UNSPEAKABLE = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\ud800-\\udfff]")


def plain(said: str, most: int) -> str:
    """Return words for a message: at most so many characters, none of which a terminal obeys."""
    return _UNSPEAKABLE.sub("\ufffd", said[:most])


def unbroken(said: str) -> str:
    """Return text that can be written as Unicode: a half of a surrogate pair becomes U+FFFD, all else stays."""
    return said.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole(digits: str | None) -> int | None:
    """Read a line's or a column's number; None where there is none, or one that nothing has."""
    return int(digits) if digits and len(digits) <= _MOST_DIGITS else None
