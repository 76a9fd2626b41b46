"""What a person points at becomes a bundle: a folder, a zip, a built Vite project, or one HTML file.

Of a folder everything goes in but what no page is made of (hidden files, installed packages, links). Of an HTML file
what it names goes in, and what that names in turn, with the folders that it puts names together for: whoever points at
a page among their downloads does not mean all of those. The same zip is taken from the command line and over HTTP.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import unquote

from koda_ray.errors import InvalidInput, NotFound
from koda_ray.render.bundle import MAX_BUNDLE_BYTES, MAX_FILES, Bundle

__all__ = ["Page", "page_of", "read_page", "unpack_page"]

_PAGES = (".html", ".htm")
_BUILT = "dist"
_LONGEST = 400
_SKIPPED = {"node_modules", "__MACOSX", "__pycache__"}
_TEXTS = {".html", ".htm", ".css", ".js", ".mjs", ".json", ".svg", ".gltf", ".xml"}
# any quoted or bracketed words that could be a path: what names no file is left alone
_NAMES = re.compile(r"""["'`(=]\s*([^"'`()<>\s=][^"'`()<>\n]{0,300}?)\s*["'`)>]""")
_BARE_NAMES = re.compile(r"""=\s*([^"'`()<>\s=]{1,300})(?=[\s>])""")
# in two steps, of which neither reads anything again: a page is a stranger's, and may be large
_SCRIPT = re.compile(r"<script\b([^<>]{1,4000})", re.IGNORECASE)
_SOURCE = re.compile(r"""(?<![\w-])src\s*=\s*["']?[^"'\s=?#]+\.(?:tsx?|jsx)(?:["'\s?#]|$)""", re.IGNORECASE)


@dataclass(frozen=True)
class Page:
    """A bundle, and which of its files is the page."""

    bundle: Bundle
    entry: str

    def with_files(self, files: Mapping[str, bytes]) -> Page:
        """Return the page with more files beside it. Raises as `Bundle`."""
        return Page(Bundle({**self.bundle.files, **files}), self.entry) if files else self


def read_page(path: Path, *, entry: str | None = None) -> Page:
    """Read a page from disk.

    Args:
        path: A folder with an index.html, a project with a ``dist/``, a zip of either, or an HTML file.
        entry: Which file of a folder or zip is the page, where that is not index.html.

    Raises:
        NotFound: There is nothing at the path.
        InvalidInput: It is none of these, is not built yet, or is over a bundle's limits.
        InvalidPath: A file's name cannot be one of a bundle.
    """
    if path.is_dir():
        return _folder(path, entry)
    if not path.exists():
        raise NotFound(f"there is no {str(path)!r}: give a folder with an index.html, a zip, or an .html file")
    if path.suffix.lower() in _PAGES:
        return page_of(_reached(path), entry or path.name, what=str(path))
    if path.stat().st_size > MAX_BUNDLE_BYTES:
        raise InvalidInput(f"{path} has {path.stat().st_size} bytes; at most {MAX_BUNDLE_BYTES} can be rendered")
    with path.open("rb") as file:
        if file.read(2) != b"PK":
            why = "is not a zip" if path.suffix.lower() == ".zip" else "is not a page"
            raise InvalidInput(f"{path} {why}: give a folder with an index.html, a zip, or an .html file")
    return unpack_page(path.read_bytes(), entry=entry, what=str(path))


def unpack_page(data: bytes | IO[bytes], *, entry: str | None = None, what: str = "the zip") -> Page:
    """Read a zip, in memory or in an open file; one that has everything in one folder is taken as that folder.

    Raises:
        InvalidInput: As `read_page`.
        InvalidPath: As `read_page`.
    """
    files = {name: body for name, body in Bundle.unpack(data).files.items() if _wanted(name.split("/"))}
    tops = {name.partition("/")[0] for name in files}
    if len(tops) == 1 and all("/" in name for name in files):
        files = {name.partition("/")[2]: body for name, body in files.items()}
    page = entry or "index.html"
    is_project = entry is None and "package.json" in files
    if f"{_BUILT}/{page}" in files and (is_project or _unbuilt(files.get(page))):
        files = {n.removeprefix(f"{_BUILT}/"): body for n, body in files.items() if n.startswith(f"{_BUILT}/")}
    return page_of(files, entry, what=what)


def page_of(files: Mapping[str, bytes], entry: str | None, *, what: str) -> Page:
    """Find the page among files.

    Raises:
        InvalidInput: There is none, there are several and none is called index.html, or it is not built yet.
    """
    pages = sorted(name for name in files if name.lower().endswith(_PAGES))
    if entry is None:
        top = [name for name in pages if "/" not in name]
        entry = "index.html" if "index.html" in files else top[0] if len(top) == 1 else None
    if entry is None and pages:
        raise InvalidInput(
            f"{what} has no index.html: name the page by its entry, one of {', '.join(pages[:5])}",
            context={"field": "entry"},
        )
    if entry is not None and entry not in files and pages:
        raise InvalidInput(
            f"{what} has no page {entry!r}: give as its entry one that it has, {', '.join(pages[:5])}",
            context={"field": "entry"},
        )
    if entry is None or entry not in files:
        has = ", ".join(sorted(files)[:5]) or "nothing"
        raise InvalidInput(f"{what} has no {entry or 'index.html'} (it has {has}): give the folder of a built page")
    if _unbuilt(files[entry]):
        raise InvalidInput(
            f"{what} is a project that is not built yet ({entry} loads TypeScript or JSX): build it, for example with "
            "npx vite build, and render it again"
        )
    return Page(Bundle(files), entry)


def _unbuilt(page: bytes | None) -> bool:
    """Whether a page is missing, or loads sources that no browser runs."""
    if page is None:
        return True
    scripts = _SCRIPT.finditer(page.decode(errors="replace"))
    return any(_SOURCE.search(script[1]) is not None for script in scripts)


def _folder(folder: Path, entry: str | None) -> Page:
    index, built = folder / "index.html", folder / _BUILT
    if entry is None and (built / "index.html").is_file():
        page = index.read_bytes() if index.is_file() else None
        if _unbuilt(page) or (folder / "package.json").is_file():
            folder = built
    files: dict[str, bytes] = {}
    left = MAX_BUNDLE_BYTES
    for path in _files(folder):
        left -= path.stat().st_size
        if left < 0 or len(files) >= MAX_FILES:
            raise InvalidInput(f"{folder} has over {MAX_FILES} files or {MAX_BUNDLE_BYTES} bytes: not a built page")
        files[path.relative_to(folder).as_posix()] = path.read_bytes()
    return page_of(files, entry, what=str(folder))


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if _wanted([name]))
        for name in sorted(names):
            path = Path(root, name)
            if _wanted([name]) and path.is_file() and not path.is_symlink():
                yield path


def _wanted(parts: list[str]) -> bool:
    return not any((part.startswith(".") and part not in (".", "..")) or part in _SKIPPED for part in parts)


def _reached(page: Path) -> dict[str, bytes]:
    """Return a page with every file of its folder that it names, directly or by what it names."""
    root = page.resolve().parent
    files: dict[str, bytes] = {}
    left = MAX_BUNDLE_BYTES
    waiting = [page.name]
    while waiting:
        name = waiting.pop()
        path = root / name
        if name in files or not _wanted(name.split("/")) or not path.is_file() or not _is_below(path, root):
            continue
        body = path.read_bytes()
        left -= len(body)
        if left < 0 or len(files) >= MAX_FILES:
            raise InvalidInput(f"{page} names over {MAX_FILES} files or {MAX_BUNDLE_BYTES} bytes: not a page to render")
        files[name] = body
        if path.suffix.lower() in _TEXTS:
            waiting += _named(body.decode(errors="replace"), name, root)
    return files


def _is_below(path: Path, root: Path) -> bool:
    return not path.is_symlink() and path.resolve().is_relative_to(root)


def _named(text: str, of: str, root: Path) -> list[str]:
    """Return the files below a root that a text names, as seen from its own file and from the root."""
    found: list[str] = []
    words = [match[1] for names in (_NAMES, _BARE_NAMES) for match in names.finditer(text)]
    for word in dict.fromkeys(words):
        word = unquote(re.split("[?#]", word, maxsplit=1)[0]).strip()
        if not word or ":" in word or "\0" in word:
            continue
        for base in (PurePosixPath(of).parent, PurePosixPath()):
            name = os.path.normpath(base / word.lstrip("/") if not word.startswith("/") else word.lstrip("/"))
            if name.startswith("..") or len(name) > _LONGEST:
                continue
            if (root / name).is_file():
                found.append(PurePosixPath(name).as_posix())
            elif "/" in word and name != ".":
                # the beginning of a name, as in "frames/" + number or `frames/${number}.png`
                folder = name if word.endswith("/") else os.path.dirname(name.partition("${")[0])
                if folder and (root / folder).is_dir():
                    found += sorted(f"{folder}/{path.name}" for path in (root / folder).iterdir() if path.is_file())
    return found
