"""What is code in a project, and keeping commands from writing any: it comes from the code generator alone.

An orchestrator that may run commands could write code with one. So the project is looked at before and after, and
what a command made of its code is undone, links and directories in place of files included. Other files may come and
go, and generated files may be removed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import PurePosixPath

from koda_ray.sandbox.base import Sandbox, Snapshot
from koda_ray.sandbox.policy import is_template_owned

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


@asynccontextmanager
async def code_kept(sandbox: Sandbox) -> AsyncGenerator[list[str]]:
    """Undo what happens to the project's code meanwhile; the list that is yielded names it afterwards, sorted."""
    before = await sandbox.snapshot()
    put_back: list[str] = []
    try:
        yield put_back
    finally:
        put_back += await _put_back(sandbox, before)


async def _put_back(sandbox: Sandbox, before: Snapshot) -> list[str]:
    after = await sandbox.snapshot(known=before.stamps)
    written = {path for path, data in after.changed.items() if is_code(path) and before.changed.get(path) != data}
    written.update(path for path in after.skipped if is_code(path) and path not in before.skipped)
    missing = {path for path in before.stamps if is_code(path) and path not in after.stamps}
    if not written and not any(map(is_template_owned, missing)):
        return []
    # all of it as it was: a file that was moved is otherwise neither here nor there
    wanted = {path: data for path, data in before.changed.items() if is_code(path) or path == THEATRE_STATE_PATH}
    above = {name for path in wanted for name in _with_parents(path)}
    spared = {path for path in after.skipped if not is_code(path) and path not in above}  # of which nobody has a copy
    wanted |= {
        path: after.changed.get(path, before.changed.get(path, b""))
        for path in after.stamps
        if not is_code(path) and spared.isdisjoint(_with_parents(path))
    }
    modes = {path: mode for path, mode in before.modes.items() if is_code(path)}
    modes |= {path: mode for path, mode in after.modes.items() if not is_code(path)}
    taken = wanted.keys() | spared
    folders = [path for path in after.folders if taken.isdisjoint(_with_parents(path))]
    await sandbox.restore(wanted, modes=modes, folders=folders, spared=sorted(spared))
    return sorted(written | missing)


def _with_parents(path: str) -> list[str]:
    return [path, *map(str, PurePosixPath(path).parents)]
