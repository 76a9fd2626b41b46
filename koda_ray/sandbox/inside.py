"""The helper that runs inside a sandbox which is reached over a wire: its project's files, by the same code as here.

It is this package's own modules in an archive (``shipped.py``), started anew for each call by a Python without any
other package: ``python3 -I -S helper.pyz files`` answers one question of ``packed``'s form, from standard input or the
file it is given, on standard output. It works on files as the project's own user, so it can do no more than hostile
code could by itself, and whoever asked takes its answer for hostile too. ``processes`` (as root, in a folder of
root's) is ``keeper``'s part, ``terminal`` is ``inside_terminal``'s.
"""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

from koda_ray.errors import KodaError, TemplateNotFound
from koda_ray.sandbox import keeper
from koda_ray.sandbox.base import FileStamp
from koda_ray.sandbox.packed import MAX_FILES_BYTES, Header, pack, unpack
from koda_ray.sandbox.policy import PROJECT_ROOT
from koda_ray.sandbox.retold import describe_error
from koda_ray.sandbox.tree import DiskLimit, ProjectTree
from koda_ray.sandbox.watching import Watcher

__all__ = ["main"]

_Answer = tuple[Header, dict[str, bytes]]


def main(argv: Sequence[str]) -> int:
    """Answer one question.

    Args:
        argv: ``files``, ``processes`` or ``terminal``; then the question in base64, ``@`` and the file that holds it,
            or ``-`` where it is the input.
    """
    part, question = argv
    if question == "-":
        data = sys.stdin.buffer.read()
    else:
        data = Path(question[1:]).read_bytes() if question.startswith("@") else base64.b64decode(question)
    header, files = unpack(data)
    if part == "terminal":
        from koda_ray.sandbox.inside_terminal import serve  # not loaded for each question

        serve(_texts(header["argv"]), rows=int(str(header["rows"])), columns=int(str(header["columns"])))
        return 0
    call = _PARTS[part].get(str(header.get("do")))
    if call is None:
        return 64
    try:
        answer, bodies = call(header, files)
        answer = {"ok": True, **answer}
    except KodaError as error:
        answer, bodies = {"ok": False, "error": describe_error(error)}, {}
    sys.stdout.buffer.write(pack(answer, bodies))
    sys.stdout.buffer.flush()
    return 0


def _tree() -> ProjectTree:
    root = Path(PROJECT_ROOT)
    stage = root.parent / ".koda-stage"
    stage.mkdir(mode=0o700, exist_ok=True)
    disk = DiskLimit(size_bytes=MAX_FILES_BYTES, words="the disk of its template")
    return ProjectTree(root, stage=stage, owner=None, disk=disk)


def _check(header: Header, files: Mapping[str, bytes]) -> _Answer:
    if header.get("project") == "any":
        if not Path(PROJECT_ROOT).is_dir():
            raise TemplateNotFound(f"the template holds no {PROJECT_ROOT}")
        return {}, {}
    for path in (Path(PROJECT_ROOT), Path(PROJECT_ROOT) / "node_modules"):
        if not path.is_dir():
            raise TemplateNotFound(f"the template holds no {path}")
    if not (Path(PROJECT_ROOT) / "package.json").is_file():
        raise TemplateNotFound(f"the template holds no {PROJECT_ROOT}/package.json")
    return {}, {}


def _write(header: Header, files: Mapping[str, bytes]) -> _Answer:
    _tree().write_files(files)
    return {}, {}


def _read(header: Header, files: Mapping[str, bytes]) -> _Answer:
    return {}, _tree().read_files(_texts(header["paths"]), most_bytes=_most(header))


def _list(header: Header, files: Mapping[str, bytes]) -> _Answer:
    outside: list[str] = []
    found = _tree().list_files(str(header["path"]), recursive=bool(header["recursive"]), outside=outside.append)
    return {"entries": [[entry.path, entry.type, entry.size_bytes] for entry in found], "outside": outside}, {}


def _remove(header: Header, files: Mapping[str, bytes]) -> _Answer:
    _tree().remove(str(header["path"]))
    return {}, {}


def _directory(header: Header, files: Mapping[str, bytes]) -> _Answer:
    return {"path": _tree().check_directory(str(header["path"]))}, {}


def _watch(header: Header, files: Mapping[str, bytes]) -> _Answer:
    """Wait for changes since what is known, and tell them with what is known then; all at once where nothing is."""
    known = None if header["known"] is None else _stamps(header["known"])
    tree = _tree()
    watcher = Watcher(tree, tree.check_directory(str(header["path"])), known=known)
    ends_at = time.monotonic() + float(str(header["wait_s"]))
    changes = watcher.look()
    while known is not None and not changes and (left_s := ends_at - time.monotonic()) > 0:
        if watcher.wait(left_s):
            changes = watcher.look()
    told = [[change.path, change.kind] for change in changes]
    return {"changes": told, "known": _written(watcher.stamps)}, {}


def _snapshot(header: Header, files: Mapping[str, bytes]) -> _Answer:
    taken = _tree().snapshot(_stamps(header["known"]), most_bytes=_most(header))
    told: Header = {"stamps": _written(taken.stamps), "removed": taken.removed, "skipped": taken.skipped}
    return {**told, "modes": taken.modes, "folders": taken.folders}, taken.changed


def _restore(header: Header, files: Mapping[str, bytes]) -> _Answer:
    there, modes = cast("dict[str, str]", header["there"]), cast("dict[str, int]", header["modes"])
    folders = _texts(header["folders"])
    spared = None if header["spared"] is None else _texts(header["spared"])
    restored = _tree().restore(files, there=there, modes=modes, folders=folders, spared=spared)
    return {"missing": restored.missing}, {}


def _start(header: Header, files: Mapping[str, bytes]) -> _Answer:
    return asdict(keeper.start(str(header["name"]), _texts(header["argv"]))), {}


def _stop(header: Header, files: Mapping[str, bytes]) -> _Answer:
    keeper.stop(str(header["name"]))
    return {}, {}


def _end(header: Header, files: Mapping[str, bytes]) -> _Answer:
    keeper.end_tree(int(str(header["pid"])))
    return {}, {}


def _end_marked(header: Header, files: Mapping[str, bytes]) -> _Answer:
    keeper.end_marked(str(header["mark"]))
    return {}, {}


def _processes(header: Header, files: Mapping[str, bytes]) -> _Answer:
    return {"processes": [asdict(info) for info in keeper.processes()]}, {}


def _output(header: Header, files: Mapping[str, bytes]) -> _Answer:
    return {}, {"output": keeper.output(str(header["name"]), max_bytes=int(str(header["max_bytes"])))}


def _most(header: Header) -> int | None:
    return cast("int | None", header["most_bytes"])


def _stamps(value: object) -> dict[str, FileStamp]:
    listed = cast("dict[str, list[int]]", value)
    return {path: FileStamp(size_bytes=s, changed_ns=c, inode=i) for path, (s, c, i) in listed.items()}


def _written(stamps: Mapping[str, FileStamp]) -> dict[str, list[int]]:
    return {path: [stamp.size_bytes, stamp.changed_ns, stamp.inode] for path, stamp in stamps.items()}


def _texts(value: object) -> list[str]:
    return [str(word) for word in cast("list[object]", value)]


_PARTS: dict[str, dict[str, Callable[[Header, Mapping[str, bytes]], _Answer]]] = {
    "files": {
        "check": _check,
        "write": _write,
        "read": _read,
        "list": _list,
        "remove": _remove,
        "directory": _directory,
        "snapshot": _snapshot,
        "restore": _restore,
        "watch": _watch,
    },
    "processes": {
        "start": _start,
        "stop": _stop,
        "end": _end,
        "end_marked": _end_marked,
        "processes": _processes,
        "output": _output,
    },
}
