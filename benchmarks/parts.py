"""A long measurement in parts: it says which is under way, and goes on after the last one that was measured."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["PartsKept"]


class PartsKept:
    """The parts of a measurement, each kept as soon as it is measured.

    Args:
        file: Where the whole's figures go; the parts stand beside it, in ``FILE.parts``, until the whole is `finished`.
        resume: Whether parts that stand there are taken as they are.
        total: How many parts there are.
        again: Those that are measured again all the same.

    Raises:
        SystemExit: Where there is nothing to resume.
    """

    def __init__(self, file: Path | None, *, resume: bool, total: int, again: Sequence[str] = ()) -> None:
        self._file = file and file.with_name(f"{file.name}.parts")
        self._total = total
        self._done = 0
        self._had: dict[str, Any] = {}
        if resume:
            if self._file is None or not self._file.is_file():
                raise SystemExit(f"there is nothing to resume in {self._file or 'no file'}: run this without --resume")
            self._had = json.loads(self._file.read_text())
        for name in again:
            if self._had.pop(name, None) is None:
                raise SystemExit(f"no part {name!r} was measured before; there are: {', '.join(self._had) or 'none'}")

    async def part(self, name: str, measure: Callable[[], Awaitable[Any]]) -> Any:
        """Return what a part measured: now, or before what is resumed was stopped.

        Args:
            name: The part's.
            measure: Measures it; what it returns goes through JSON, and is asked for again where that is None.
        """
        self._done += 1
        head = f"[{self._done}/{self._total}] {name}"
        if self._had.get(name) is not None:
            print(f"{head}: measured before", file=sys.stderr, flush=True)
            return self._had[name]
        print(f"{head} ...", file=sys.stderr, flush=True)
        began = time.monotonic()
        found = json.loads(json.dumps(await measure()))
        print(f"{head}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        self._had[name] = found
        if self._file is not None:
            written = self._file.with_name(f"{self._file.name}.new")
            written.write_text(json.dumps(self._had))
            written.replace(self._file)
        return found

    def finished(self) -> None:
        """Forget the parts: the whole is written."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)
