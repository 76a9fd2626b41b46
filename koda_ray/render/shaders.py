"""What Mesa compiled to draw a user's pages, kept on this machine for that user's next ones.

On the processor a page with WebGL compiles its shaders for a second before it shows anything, the same ones in each
browser. Mesa keeps what it compiled in files; a browser gets its own copy of its user's, and what it adds is taken
when it has ended. It is machine code that whoever breaks into a browser could write: so it never leaves its user, and
is run by nothing but that user's browsers, isolated as they are. Frames are the same with it and without.

Source: Mesa, docs/envvars (MESA_SHADER_CACHE_DIR); a file each, by the hash of all that decides it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from koda_ray.render.graphics import Graphics, graphics_libraries
from koda_ray.render.isolation import own_folder, write_whole

__all__ = ["ShaderCache", "shader_environment"]

_ROOT = "koda-shaders"
_FOLDER = "mesa_shader_cache"
_GROUP, _FILE = re.compile(r"[0-9a-f]{2}"), re.compile(r"[0-9a-f]{38}")
MAX_FILE_BYTES = 2 * 1024 * 1024
MAX_BYTES = 8 * 1024 * 1024
"""How much is kept for a user; a page's shaders take a tenth of a megabyte."""
MAX_USERS = 64
"""For how many users at once something is kept."""
_UNUSED_S = 7 * 24 * 3600.0
_LEFT_S = 3600.0
_MAX_SEEN = 10_000


def shader_environment(folder: Path) -> tuple[tuple[str, str], ...]:
    """Return what has Mesa keep what it compiles in a folder; Chromium forbids it where nobody says otherwise."""
    return (
        ("MESA_SHADER_CACHE_DISABLE", "false"),
        ("MESA_SHADER_CACHE_DIR", str(folder)),
        ("MESA_SHADER_CACHE_MAX_SIZE", f"{MAX_BYTES >> 20}M"),
    )


@dataclass(frozen=True, slots=True)
class ShaderCache:
    """One user's, for one way to draw.

    Args:
        user_id: Whose pages are drawn.
        graphics: What draws them.
    """

    user_id: str
    graphics: Graphics

    @property
    def is_of_use(self) -> bool:
        """Whether it is Mesa's llvmpipe that compiles."""
        return self.graphics.kind == "software" and self.graphics.rasterizer.startswith("llvmpipe")

    def lend(self, folder: Path) -> None:
        """Copy what is kept into a browser's folder, as its owner's.

        Raises:
            Missing: Somebody else has a folder of the name of ours.
            OSError: There is no room.
        """
        owner = folder.stat()
        target = folder / _FOLDER
        _make(target, owner)
        kept = self._kept()
        for name, read in _files(kept.parent, kept.name):
            if (data := read()) is None:
                continue
            path = target / name
            if not path.parent.is_dir():
                _make(path.parent, owner)
            path.write_bytes(data)
            os.chown(path, owner.st_uid, owner.st_gid)
        if kept.is_dir():
            os.utime(kept)

    def take(self, folder: Path) -> None:
        """Keep what a browser that has ended added, as far as there is room: the oldest goes.

        Raises:
            Missing: As `lend`.
            OSError: There is no room.
        """
        kept = self._kept()
        known = {name for name, _ in _files(kept.parent, kept.name)}
        fresh, taken = False, 0
        for name, read in _files(folder, _FOLDER):
            if name in known or not (data := read()):
                continue
            taken += len(data)
            if taken > MAX_BYTES:
                break
            for each in (kept, (kept / name).parent):
                each.mkdir(mode=0o700, exist_ok=True)
            write_whole(kept / name, data)
            fresh = True
        if fresh:
            _thin(kept)
            _sweep(kept.parent)

    def _kept(self) -> Path:
        drawn = [self.user_id, self.graphics.identity, self.graphics.flags, graphics_libraries()]
        return _root() / hashlib.sha256(json.dumps(drawn).encode()).hexdigest()[:32]


def _root() -> Path:
    """Return the folder that has all users', into which nobody but us can look."""
    root = own_folder(_ROOT)
    root.chmod(0o700)
    return root


def _make(folder: Path, owner: os.stat_result) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, owner.st_uid, owner.st_gid)


def _files(folder: Path, name: str) -> Iterator[tuple[str, Callable[[], bytes | None]]]:
    """List a cache's files that are named like Mesa's, each with what reads it; whoever wrote it may have been anybody.

    Links are followed nowhere on the way, since each folder is opened from the one before it.
    """
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
        cache = stack.enter_context(_descriptor(name, stack.enter_context(_descriptor(folder))))
        left = [_MAX_SEEN]
        for group in _names(cache, left):
            if not _GROUP.fullmatch(group):
                continue
            with contextlib.suppress(OSError), _descriptor(group, cache) as here:
                for file in _names(here, left):
                    if _FILE.fullmatch(file):
                        yield f"{group}/{file}", partial(_read, file, here)


def _names(folder: int, left: list[int]) -> Iterator[str]:
    """Name what is in a folder, as long as there is something ``left`` of how much is looked at."""
    with os.scandir(folder) as entries:
        for entry in entries:
            left[0] -= 1
            if left[0] < 0:
                return
            yield entry.name


@contextlib.contextmanager
def _descriptor(folder: Path | str, within: int | None = None) -> Generator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(name: str, within: int) -> bytes | None:
    """Read a file that a page may have made: no link, no pipe, and not more than one may have."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=within)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = os.read(descriptor, MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    return data if len(data) <= MAX_FILE_BYTES else None


def _thin(kept: Path) -> None:
    """Remove the oldest until what is kept is no more than it may be, and what a process left that was killed."""
    seen: list[tuple[float, int, Path]] = []
    for path in kept.glob("*/*"):
        with contextlib.suppress(OSError):
            found = path.stat()
            if not _FILE.fullmatch(path.name) and time.time() - found.st_mtime > _LEFT_S:
                path.unlink()
                continue
            seen.append((found.st_mtime, found.st_size, path))
    left = sum(size for _, size, _ in seen)
    for _, size, path in sorted(seen):
        if left <= MAX_BYTES:
            break
        path.unlink(missing_ok=True)
        left -= size


def _sweep(root: Path) -> None:
    """Remove what nobody has used for a week, and that of the users who come to be too many."""
    seen: list[tuple[float, Path]] = []
    for folder in root.iterdir():
        with contextlib.suppress(OSError):
            seen.append((folder.stat().st_mtime, folder))
    newest = sorted(seen, reverse=True)
    for rank, (used, folder) in enumerate(newest):
        if rank >= MAX_USERS or time.time() - used > _UNUSED_S:
            shutil.rmtree(folder, ignore_errors=True)
