"""Builds the project inside its sandbox and brings the bundle out, or says what is wrong with the code.

A project that does not compile is an expected outcome, so it is a value. The bundle comes out of a hostile place: its
size and count are limited, and only plain files below ``dist`` are taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from koda_ray.errors import CommandTimeout, KodaError, NotFound, QuotaExceeded, SandboxNotFound
from koda_ray.sandbox.base import Sandbox
from koda_ray.sandbox.problems import BuildProblem, export_position, import_position, parse_build, parse_types

__all__ = ["MAX_BUNDLE_BYTES", "MAX_BUNDLE_FILES", "BuildProblem", "BuildResult", "build", "export"]

MAX_BUNDLE_BYTES = 256 * 1024 * 1024
MAX_BUNDLE_FILES = 5000
_SOURCE_BYTES = 4 * 1024 * 1024
"""How long a source is looked at for the line of an import."""
_VITE = ("node", "node_modules/vite/bin/vite.js", "build", "--outDir", "dist", "--emptyOutDir", "--logLevel", "warn")
_TSC = ("node", "node_modules/typescript/bin/tsc", "--noEmit", "--pretty", "false")


@dataclass(frozen=True, kw_only=True)
class BuildResult:
    """A built bundle, or why there is none.

    ``files`` are relative to the bundle's root (``index.html``, ``assets/...``), and ``sizes`` are theirs in bytes;
    ``duration_s`` is the build's own.
    """

    ok: bool
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    problems: tuple[BuildProblem, ...] = ()
    duration_s: float = 0.0


async def build(sandbox: Sandbox, *, timeout_s: float = 120.0, types: bool = False, reads: bool = True) -> BuildResult:
    """Run ``vite build`` in a sandbox and export ``dist``.

    Args:
        sandbox: The project's.
        timeout_s: For the build, and again for the type check.
        types: Whether to run ``tsc`` first, and to take its errors for problems: Vite itself does not check types.
        reads: Whether to read the files; without, only their sizes are told.

    Raises:
        SandboxNotFound: SANDBOX_NOT_FOUND.
        QuotaExceeded: QUOTA_EXCEEDED, the build passed a limit of the sandbox.
    """
    try:
        if types:
            checked = await sandbox.run(_TSC, timeout_s=timeout_s)
            if checked.exit_code != 0:
                wrong = parse_types(checked.stdout) or parse_build(f"{checked.stdout}\n{checked.stderr}")
                return BuildResult(ok=False, problems=wrong, duration_s=checked.duration_s)
        built = await sandbox.run(_VITE, timeout_s=timeout_s)
    except CommandTimeout as error:
        return BuildResult(ok=False, problems=(BuildProblem(message=error.message),), duration_s=timeout_s)
    if built.exit_code != 0:
        problems = [await _placed(sandbox, problem) for problem in parse_build(f"{built.stdout}\n{built.stderr}")]
        return BuildResult(ok=False, problems=tuple(problems), duration_s=built.duration_s)
    try:
        sizes = await _sizes(sandbox)
        files = await _read(sandbox, sizes, most_bytes=MAX_BUNDLE_BYTES) if reads else {}
    except _NoBundle as error:
        problems = (BuildProblem(message=error.reason.message),)
        return BuildResult(ok=False, problems=problems, duration_s=built.duration_s)
    return BuildResult(ok=True, files=files, sizes=sizes, duration_s=built.duration_s)


async def export(sandbox: Sandbox, *, most_bytes: int | None = None) -> dict[str, bytes]:
    """Bring out the bundle that the last build left, by path below its root.

    Args:
        sandbox: The project's.
        most_bytes: What it may have, where that is less than MAX_BUNDLE_BYTES.

    Raises:
        NotFound: FILE_NOT_FOUND, there is none.
        QuotaExceeded: QUOTA_EXCEEDED, it is larger than a bundle may be, or than ``most_bytes``, with ``sizeBytes``.
        SandboxNotFound: SANDBOX_NOT_FOUND.
    """
    try:
        sizes = await _sizes(sandbox)
        if most_bytes is not None and (size := sum(sizes.values())) > most_bytes:
            raise QuotaExceeded(
                f"the bundle has {size:,} bytes, and there is room for {most_bytes:,}: make it smaller",
                context={"sizeBytes": size},
            )
        return await _read(sandbox, sizes, most_bytes=MAX_BUNDLE_BYTES if most_bytes is None else most_bytes)
    except _NoBundle as error:
        raise error.reason from None


class _NoBundle(Exception):
    """What the build left is no bundle, and why."""

    def __init__(self, reason: NotFound | QuotaExceeded) -> None:
        self.reason = reason


async def _sizes(sandbox: Sandbox) -> dict[str, int]:
    try:
        entries = [entry for entry in await sandbox.list_files("dist", recursive=True) if entry.type == "file"]
    except NotFound:
        entries = []
    sizes = {entry.path.removeprefix("dist/"): entry.size_bytes for entry in entries}
    if "index.html" not in sizes:
        raise _NoBundle(
            NotFound(
                "the build left no dist/index.html; keep index.html in the project's root and let it load "
                "/src/main.tsx",
                code="FILE_NOT_FOUND",
            )
        )
    if len(sizes) > MAX_BUNDLE_FILES or sum(sizes.values()) > MAX_BUNDLE_BYTES:
        raise _NoBundle(_too_large(len(sizes), sum(sizes.values())))
    return sizes


async def _read(sandbox: Sandbox, sizes: dict[str, int], *, most_bytes: int) -> dict[str, bytes]:
    try:
        files = await sandbox.read_files([f"dist/{path}" for path in sizes], most_bytes=most_bytes)
    except QuotaExceeded as error:  # what runs on in the sandbox may let them grow after they were listed
        raise _NoBundle(
            QuotaExceeded(
                f"the bundle grew while it was read; end what writes to it and build again: {error.message}",
                context=error.context,
            )
        ) from None
    return {path.removeprefix("dist/"): data for path, data in files.items()}


def _too_large(count: int, size: int) -> QuotaExceeded:
    return QuotaExceeded(
        f"the bundle has {count} files and {size >> 20} MB; {MAX_BUNDLE_FILES} files and "
        f"{MAX_BUNDLE_BYTES >> 20} MB are allowed: use fewer or smaller assets"
    )


async def _placed(sandbox: Sandbox, problem: BuildProblem) -> BuildProblem:
    """Find the line of what could not be imported: bundlers name only the file, or the line in what they made of it."""
    if problem.file is None or (problem.missing_import is None and problem.missing_export is None):
        return problem
    try:
        (data,) = (await sandbox.read_files([problem.file], most_bytes=_SOURCE_BYTES)).values()
    except SandboxNotFound:
        raise
    except KodaError:
        return problem
    source = data.decode("utf-8", "replace")
    if problem.missing_import is not None:
        at = import_position(source, problem.missing_import)
    else:
        at = export_position(source, problem.missing_export or "")
    return problem if at is None else replace(problem, line=at[0], column=at[1])
