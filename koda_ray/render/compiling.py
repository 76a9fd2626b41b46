"""C of ours, compiled on the machine that it runs on, for what is there differs from one to the next."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["CompileFailed", "compile_library", "find_compiler"]

_TIMEOUT_S = 60.0
_MAX_WORDS = 160


class CompileFailed(Exception):
    """A library cannot be compiled here; the message says why, and what to install."""


def find_compiler(packages: str) -> str:
    """Return the C compiler's path.

    Args:
        packages: As `compile_library`.

    Raises:
        CompileFailed: There is none.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise CompileFailed(f"no C compiler: apt-get install {packages}")
    return compiler


def compile_library(source: bytes, *, packages: str) -> bytes:
    """Return a shared library.

    Args:
        source: In C.
        packages: Debian's packages that it takes, for the message.

    Raises:
        CompileFailed: There is no compiler, or it does not take the source.
    """
    compiler = find_compiler(packages)
    with tempfile.TemporaryDirectory(prefix="koda-compile-") as folder:
        target = Path(folder, "library.so")
        command = (compiler, "-O2", "-fPIC", "-shared", "-x", "c", "-", "-o", str(target), "-ldl")
        try:
            done = subprocess.run(command, input=source, capture_output=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise CompileFailed(f"{compiler} did not end in {_TIMEOUT_S:g} s") from None
        if done.returncode:
            errors = [line for line in done.stderr.decode(errors="replace").splitlines() if "error" in line]
            raise CompileFailed(
                f"{compiler} cannot compile it (apt-get install {packages}): "
                f"{(errors or ['it said nothing'])[0][:_MAX_WORDS]}"
            )
        return target.read_bytes()
