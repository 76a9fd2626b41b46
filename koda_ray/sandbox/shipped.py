"""Programs for inside a sandbox, made of this package's own modules, so that both ends always run the same code.

The helper is one file: a Python archive, named by the hash of what it holds. It needs Python 3.11 and no other package
in the sandbox.
"""

from __future__ import annotations

import ast
import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

__all__ = ["Helper", "helper", "program"]

_PACKAGE = Path(__file__).resolve().parent.parent
_MAIN = "import sys\nfrom koda_ray.sandbox.inside import main\nsys.exit(main(sys.argv[1:]))\n"
_SAME_TIME = (2000, 1, 1, 0, 0, 0)  # the archive's bytes depend on the modules alone


@dataclass(frozen=True)
class Helper:
    """The archive, and the name under which a sandbox keeps it."""

    name: str
    data: bytes


@lru_cache(maxsize=1)
def helper() -> Helper:
    """Build the archive from the modules as they are installed."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, source in sorted(program("koda_ray.sandbox.inside", _MAIN).items()):
            archive.writestr(zipfile.ZipInfo(name, _SAME_TIME), source)
    data = stream.getvalue()
    return Helper(f"helper-{hashlib.sha256(data).hexdigest()[:16]}.pyz", data)


def program(entry: str, main: str) -> dict[str, bytes]:
    """Return a program's files: its start, a module, and every module of this package that it imports, by their paths.

    Args:
        entry: The module, such as ``koda_ray.sandbox.inside``.
        main: What ``__main__.py`` holds.
    """
    # packages without the package's own start: that reads the installed version, which is not there
    files = {"__main__.py": main.encode(), "koda_ray/__init__.py": b"", "koda_ray/sandbox/__init__.py": b""}
    wanted = [entry]
    while wanted:
        name = f"{wanted.pop().replace('.', '/')}.py"
        path = _PACKAGE.parent / name
        if name in files or not path.is_file():
            continue
        files[name] = path.read_bytes()
        for node in _imports(ast.parse(files[name])):
            if node.module and node.module.split(".")[0] == _PACKAGE.name:
                wanted += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return files


def _imports(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    """Find what is imported where it runs; what only type checkers read is not needed there."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from _imports(ast.Module(node.orelse, []))
        else:
            yield from _imports(node)
