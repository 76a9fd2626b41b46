"""A log that has an end: a file, and the one before it, for programs that nobody sees."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["OutputLog"]

_MOST_BYTES = 1024 * 1024


class OutputLog:
    """Takes the place of a program's output: text goes to a file, which makes room when it is full.

    Args:
        path: The file; what was full before is beside it, as ``.old``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("a", encoding="utf-8")

    def write(self, text: str) -> int:
        """Append a text."""
        if self._file.tell() > _MOST_BYTES and self._path.exists():  # it may have gone with its folder
            self._file.close()
            os.replace(self._path, self._path.with_suffix(".old"))
            self._file = self._path.open("a", encoding="utf-8")
        return self._file.write(text)

    def flush(self) -> None:
        """Have all of it in the file."""
        self._file.flush()

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._file.close()
