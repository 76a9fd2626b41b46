"""What of a folder stays out of an image: ``.dockerignore``, by the rules that Docker's own builder follows.

It counts for every image of a folder, built or copied: what is secret in it is so without a Dockerfile, too.

A line names files and folders by a pattern from the folder's root, whatever is below them included; one that begins
with ``!`` takes back in what an earlier one left out. ``*`` and ``?`` stay within a name, ``**`` goes across folders.

Source: Docker's reference of ``.dockerignore``, and Go's ``path.Clean`` and ``filepath.Match`` that it refers to.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from koda_ray.errors import InvalidInput

__all__ = ["Entry", "Ignored"]

_FILE = ".dockerignore"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file, folder or link of a folder; ``name`` is its path from there, with slashes."""

    name: str
    path: Path
    mode: int
    size_bytes: int


@dataclass(frozen=True)
class Ignored:
    """The lines of a ``.dockerignore`` that say something; none leaves nothing out."""

    patterns: tuple[str, ...] = ()

    @classmethod
    def of(cls, folder: Path, *, dockerfile: Path | None = None) -> Ignored:
        """Read what goes with a folder: the file of its Dockerfile's own name, else its own; blocks.

        Args:
            folder: The folder, whether or not a Dockerfile is in it.
            dockerfile: What builds it, where something does.

        Raises:
            InvalidInput: INVALID_INPUT, it is no text, or holds a pattern that is none.
        """
        of_build = () if dockerfile is None else (dockerfile.with_name(f"{dockerfile.name}{_FILE}"),)
        for path in (*of_build, folder / _FILE):
            if path.is_file():
                try:
                    lines = path.read_text("utf-8-sig").splitlines()
                    found = cls(tuple(line for line in map(_cleaned, lines) if line))
                    _ = found._rules
                except (OSError, UnicodeDecodeError) as error:
                    raise InvalidInput(f"{path} cannot be read: {error}; mend it, or remove it") from None
                except re.error:
                    raise InvalidInput(
                        f"{path} holds a pattern that is none; look for a '[' without its ']', and put '\\' before one "
                        "that is meant as it stands"
                    ) from None
                return found
        return cls()

    def leaves_out(self, name: str) -> bool:
        """Whether a path from the folder's root stays out; the last line that names it, or a folder above, says so."""
        out = False
        above = _with_parents(name)
        for pattern, back_in in self._rules:
            if out == back_in and any(pattern.fullmatch(one) for one in above):
                out = not back_in
        return out

    def entries(self, folder: Path) -> Iterator[Entry]:
        """Go through what of a folder does not stay out, parents first and by name; sockets and the like do. Blocks."""
        back_in = any(back_in for _, back_in in self._rules)
        waiting = [("", folder)]
        while waiting:
            within, here = waiting.pop()
            below: list[tuple[str, Path]] = []
            with os.scandir(here) as found:
                for entry in sorted(found, key=lambda one: os.fsencode(one.name)):
                    name, path = f"{within}{entry.name}", Path(entry.path)
                    seen = entry.stat(follow_symlinks=False)
                    out = bool(self.patterns) and self.leaves_out(name)
                    if stat.S_ISDIR(seen.st_mode) and (back_in or not out):
                        below.append((f"{name}/", path))
                    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
                    if not out and any(kind(seen.st_mode) for kind in kinds):
                        size = seen.st_size if stat.S_ISREG(seen.st_mode) else 0
                        yield Entry(name=name, path=path, mode=seen.st_mode, size_bytes=size)
            waiting += reversed(below)

    @cached_property
    def _rules(self) -> tuple[tuple[re.Pattern[str], bool], ...]:
        return tuple((_compiled(line.removeprefix("!")), line.startswith("!")) for line in self.patterns)


def _cleaned(line: str) -> str:
    if line.startswith("#"):
        return ""
    line = line.strip()
    mark, line = ("!", line[1:].strip()) if line.startswith("!") else ("", line)
    path = posixpath.normpath(line).strip("/") if line else ""
    return "" if path in ("", ".") else mark + path


def _with_parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _compiled(pattern: str) -> re.Pattern[str]:
    written: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**", at):
            at += 2
            if pattern.startswith("/", at):
                at += 1
                written.append("(?:.*/)?")
            else:
                written.append(".*")
            continue
        if char == "\\" and at + 1 < len(pattern):
            at += 1
            written.append(re.escape(pattern[at]))
        elif char == "[":
            end = pattern.find("]", at + 2)
            if end < 0:
                raise re.error("a '[' without its ']'", pattern, at)
            inside = pattern[at + 1 : end]
            negated = inside.startswith(("^", "!"))
            written.append(f"[{'^/' if negated else ''}{inside[negated:].replace('[', chr(92) + '[')}]")
            at = end
        else:
            written.append({"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char))
        at += 1
    return re.compile("".join(written), re.DOTALL)
