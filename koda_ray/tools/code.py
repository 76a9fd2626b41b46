"""What is code in a project, and keeping commands from writing any: it comes from the code generator alone.

An orchestrator that may run commands could write code with one. So the project is looked at before and after, and
what a command made of its code is undone, links and directories in place of files included. Other files may come and
go, and generated files may be removed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from koda_ray.errors import QuotaExceeded, StorageError, Unavailable
from koda_ray.sandbox.base import FileStamp, Sandbox, Skip, Snapshot
from koda_ray.sandbox.policy import is_template_owned
from koda_ray.sandbox.reading_memory import SMALL_BYTES, ReadingMemory

__all__ = ["THEATRE_STATE_PATH", "code_kept", "diff_of", "is_code"]

THEATRE_STATE_PATH = "src/theatre/state.json"
"""Keyframes: data that the person's editor in the live preview writes as well, at any moment."""
_SUFFIXES = frozenset({".cjs", ".css", ".cts", ".html", ".js", ".json", ".jsx", ".mjs", ".mts", ".ts", ".tsx", ".wasm"})


def is_code(path: str) -> bool:
    """Whether a file decides what the project does: source, page, style, and whatever its build reads."""
    if path == THEATRE_STATE_PATH:
        return False
    plain = PurePosixPath(path)
    if path.startswith("public/"):
        return plain.suffix.lower() in _SUFFIXES - {".json"}  # a picture, a sound, an animation's data
    hidden = plain.name.startswith(".")  # .env, .babelrc, .postcssrc: read by the build without being asked
    return f"{path}/".startswith("src/") or is_template_owned(path) or hidden or plain.suffix.lower() in _SUFFIXES


def diff_of(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Show how files would change, in the unified form; a new one is all additions."""
    from difflib import unified_diff  # needed seldom, and every session's process has this module

    shown: list[str] = []
    for path, text in sorted(after.items()):
        old, new = before.get(path, "").splitlines(), text.splitlines()
        names = (f"a/{path}" if path in before else "/dev/null", f"b/{path}")
        shown += unified_diff(old, new, *names, lineterm="")
    return "\n".join(shown)


@dataclass(frozen=True, kw_only=True)
class _Before:
    """What is remembered of a project while a command runs: everything of its code, of the rest what there was."""

    stamps: Mapping[str, FileStamp]
    skipped: Mapping[str, Skip]
    modes: Mapping[str, int]
    code: Mapping[str, bytes]


@asynccontextmanager
async def code_kept(sandbox: Sandbox, memory: ReadingMemory) -> AsyncGenerator[list[str]]:
    """Undo what happens to the project's code meanwhile; the list that is yielded names it afterwards, sorted.

    Where that cannot be looked at any more, the sandbox ends: what is made of the last checkpoint has its code as it
    was.

    Raises:
        QuotaExceeded: The project has too much code to remember it meanwhile, or too many files to read.
        Unavailable: There was no room to read the project into.
        StorageError: What counts the room could not be written.
    """
    before = await _remembered(sandbox, memory)
    put_back: list[str] = []
    try:
        yield put_back
    finally:
        try:
            put_back += await _put_back(sandbox, memory, before)
        except (Unavailable, QuotaExceeded, StorageError):
            await sandbox.destroy()
            raise


async def _remembered(sandbox: Sandbox, memory: ReadingMemory) -> _Before:
    async with memory.reading(lambda most: sandbox.snapshot(most_bytes=most)) as found:
        code = {path: data for path, data in found.changed.items() if is_code(path) or path == THEATRE_STATE_PATH}
        if (size := sum(map(len, code.values()))) > SMALL_BYTES:
            raise QuotaExceeded(
                f"the project's code has {size:,} bytes, and commands run where it has {SMALL_BYTES:,} at most, since "
                "what they do to it is undone: put data into public/, or leave out what is not needed"
            )
        return _Before(stamps=found.stamps, skipped=found.skipped, modes=found.modes, code=code)


async def _put_back(sandbox: Sandbox, memory: ReadingMemory, before: _Before) -> list[str]:
    async with memory.reading(lambda most: sandbox.snapshot(known=before.stamps, most_bytes=most)) as after:
        if not _changed(before, after):
            return []
    # all of it as it was: a file that was moved is otherwise neither here nor there
    async with memory.reading(lambda most: sandbox.snapshot(most_bytes=most)) as after:
        await _restore(sandbox, before, after)
        return sorted(_changed(before, after))


def _changed(before: _Before, after: Snapshot) -> set[str]:
    """Return what is to be undone: code that was written, and what a command removed of the template's own."""
    written = {path for path, data in after.changed.items() if is_code(path) and before.code.get(path) != data}
    written.update(path for path in after.skipped if is_code(path) and path not in before.skipped)
    missing = {path for path in before.stamps if is_code(path) and path not in after.stamps}
    return written | missing if written or any(map(is_template_owned, missing)) else set()


async def _restore(sandbox: Sandbox, before: _Before, after: Snapshot) -> None:
    wanted = dict(before.code)
    above = {name for path in wanted for name in _with_parents(path)}
    spared = {path for path in after.skipped if not is_code(path) and path not in above}  # of which nobody has a copy
    wanted |= {
        path: data
        for path, data in after.changed.items()
        if not is_code(path) and spared.isdisjoint(_with_parents(path))
    }
    modes = {path: mode for path, mode in before.modes.items() if is_code(path)}
    modes |= {path: mode for path, mode in after.modes.items() if not is_code(path)}
    taken = wanted.keys() | spared
    folders = [path for path in after.folders if taken.isdisjoint(_with_parents(path))]
    await sandbox.restore(wanted, modes=modes, folders=folders, spared=sorted(spared))


def _with_parents(path: str) -> list[str]:
    return [path, *map(str, PurePosixPath(path).parents)]
