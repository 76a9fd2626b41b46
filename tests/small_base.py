"""A base of sandbox images that is made in seconds, of what this machine has: for tests that are about containers.

The programs of some Debian packages, node and Python, with the libraries that they are linked to. Nothing is fetched;
where a package is missing its programs are, too.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["make_small_base"]

_PACKAGES = (
    "base-files", "base-passwd", "bash", "coreutils", "dash", "debianutils", "diffutils", "dpkg", "findutils", "gawk",
    "grep", "gzip", "hostname", "iproute2", "libc-bin", "libc6", "login", "mawk", "mount", "ncurses-base", "passwd",
    "perl-base", "procps", "sed", "tar", "tini", "tmux", "util-linux",
)  # fmt: skip
_SKIPPED = ("/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/info", "/usr/share/lintian")
_CHARSETS = "/gconv/"  # of libc, hundreds of libraries; UTF-8 is not among them
_ELSEWHERE = "usr/local"  # where node and Python go, wherever they are here
_NOT_OF_PYTHON = {"__pycache__", "ensurepip", "idlelib", "lib2to3", "site-packages", "dist-packages", "test", "tkinter"}
_MERGED = ("bin", "lib", "lib64", "sbin")
_EMPTY = ("dev", "home", "proc", "root", "run", "sys", "tmp", "var/lib/dpkg", "var/tmp")


def make_small_base(target: Path) -> None:
    """Write the root file system as a tar archive, whole or not at all."""
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with tarfile.open(partial, "w") as archive:
            _write(archive)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _write(archive: tarfile.TarFile) -> None:
    for name in _EMPTY:
        _folder(archive, name, 0o1777 if name.endswith("tmp") else 0o755)
    for name in _MERGED:
        _folder(archive, f"usr/{name}", 0o755)
        _link(archive, name, f"usr/{name}")
    _text(archive, "var/lib/dpkg/status", "")
    _text(archive, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n")
    _text(archive, "etc/group", "root:x:0:\nnogroup:x:65534:\n")
    paths = {str(path): path for path in _files_of(_PACKAGES)}
    node, python = Path(_needed("node")).resolve(), Path(sys.base_prefix, "bin", "python3").resolve()
    paths[f"/{_ELSEWHERE}/bin/node"] = node
    paths[f"/{_ELSEWHERE}/bin/{python.name}"] = python
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    for path in _below(library):
        paths[f"/{_ELSEWHERE}/lib/{library.name}/{path.relative_to(library)}"] = path
    for path in _linked(list(paths.values())):
        for each in (path, path.resolve()):
            paths.setdefault(_beside_libc(each), each)
    written: set[str] = set()
    for name, path in sorted(paths.items()):
        arcname = _merged(name)
        if arcname not in written:
            written.add(arcname)
            archive.add(path, arcname, recursive=False)
    for name, meant in (
        ("usr/bin/sh", "dash"),
        ("usr/bin/node", f"/{_ELSEWHERE}/bin/node"),
        ("usr/bin/python3", f"/{_ELSEWHERE}/bin/{python.name}"),
    ):
        if name not in written:
            _link(archive, name, meant)


def _needed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise RuntimeError(f"{program} is not on PATH: run ./koda setup")
    return found


def _files_of(packages: Iterable[str]) -> Iterator[Path]:
    for package in packages:
        done = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            path = Path(line)
            if line.startswith(_SKIPPED) or _CHARSETS in line:
                continue
            if line.lstrip("/") in (*_MERGED, "etc/passwd", "etc/group"):
                continue
            if path.is_symlink() or path.is_file():
                yield path


def _below(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_OF_PYTHON and not name.startswith("config-")]
        yield from (Path(root, name) for name in files)


def _linked(paths: Iterable[Path]) -> Iterator[Path]:
    """The libraries that programs and libraries are linked to, and the links by which they are found."""
    elf = [str(path) for path in paths if path.is_file() and _begins(path) == b"\x7fELF"]
    done = subprocess.run(["ldd", *elf], capture_output=True, text=True, check=False)  # some are linked to nothing
    found: set[str] = set()
    for line in done.stdout.splitlines():
        words = line.split()
        found.update(word for word in words if word.startswith("/") and not word.endswith(":"))
    for name in sorted(found):
        yield Path(name)


def _begins(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def _beside_libc(path: Path) -> str:
    """Where a library is found: where it is, or with the others of the machine where that is a folder of its own."""
    if str(path).startswith(("/lib", "/usr/lib")):
        return str(path)
    return f"/usr/lib/{os.uname().machine}-linux-gnu/{path.name}"


def _merged(name: str) -> str:
    """A path in a root whose /bin, /lib and /sbin are links."""
    name = name.lstrip("/")
    return f"usr/{name}" if name.split("/")[0] in _MERGED else name


def _folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    archive.addfile(entry)


def _link(archive: tarfile.TarFile, name: str, meant: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, meant
    archive.addfile(entry)


def _text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text), 0o644
    archive.addfile(entry, io.BytesIO(text.encode()))
