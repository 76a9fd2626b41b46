"""Builds the project inside its sandbox and brings the bundle out, or says what is wrong with the code.

A project that does not compile is an expected outcome, so it is a value. The bundle comes out of a hostile place: its
size and count are limited, and only plain files below ``dist`` are taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from koda_ray.errors import CommandTimeout, KodaError, NotFound, QuotaExceeded, SandboxNotFound
from koda_ray.sandbox.base import Sandbox
from koda_ray.sandbox.problems import BuildProblem, import_position, parse_build, parse_types

__all__ = ["MAX_BUNDLE_BYTES", "MAX_BUNDLE_FILES", "BuildProblem", "BuildResult", "build", "export"]

MAX_BUNDLE_BYTES = 256 * 1024 * 1024
MAX_BUNDLE_FILES = 5000
_VITE = ("node", "node_modules/vite/bin/vite.js", "build", "--outDir", "dist", "--emptyOutDir", "--logLevel", "warn")
_TSC = ("node", "node_modules/typescript/bin/tsc", "--noEmit", "--pretty", "false")


@dataclass(frozen=True, kw_only=True)
class BuildResult:
    """A built bundle, or why there is none.

    ``files`` are relative to the bundle's root (``index.html``, ``assets/...``); ``duration_s`` is the build's own.
    """

    ok: bool
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    problems: tuple[BuildProblem, ...] = ()
    duration_s: float = 0.0


async def build(sandbox: Sandbox, *, timeout_s: float = 120.0, types: bool = False) -> BuildResult:
    """Run ``vite build`` in a sandbox and export ``dist``.

    Args:
        sandbox: The project's.
        timeout_s: For the build, and again for the type check.
        types: Whether to run ``tsc`` first, and to take its errors for problems: Vite itself does not check types.

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
    found = await _bundle(sandbox)
    if isinstance(found, KodaError):
        problems = (BuildProblem(message=found.message),)
        return BuildResult(ok=False, problems=problems, duration_s=built.duration_s)
    return BuildResult(ok=True, files=found, duration_s=built.duration_s)


async def export(sandbox: Sandbox) -> dict[str, bytes]:
    """Bring out the bundle that the last build left, by path below its root.

    Raises:
        NotFound: FILE_NOT_FOUND, there is none.
        QuotaExceeded: QUOTA_EXCEEDED, it is larger than a bundle may be.
        SandboxNotFound: SANDBOX_NOT_FOUND.
    """
    found = await _bundle(sandbox)
    if isinstance(found, KodaError):
        raise found
    return found


async def _bundle(sandbox: Sandbox) -> dict[str, bytes] | NotFound | QuotaExceeded:
    try:
        entries = [entry for entry in await sandbox.list_files("dist", recursive=True) if entry.type == "file"]
    except NotFound:
        entries = []
    paths, size = [entry.path for entry in entries], sum(entry.size_bytes for entry in entries)
    if "dist/index.html" not in paths:
        return NotFound(
            "the build left no dist/index.html; keep index.html in the project's root and let it load /src/main.tsx",
            code="FILE_NOT_FOUND",
        )
    if len(paths) > MAX_BUNDLE_FILES or size > MAX_BUNDLE_BYTES:
        return _too_large(len(paths), size)
    try:
        files = await sandbox.read_files(paths)
    except QuotaExceeded as error:  # what runs on in the sandbox may let them grow after they were listed
        return QuotaExceeded(
            f"the bundle grew while it was read; end what writes to it and build again: {error.message}"
        )
    if (size := sum(map(len, files.values()))) > MAX_BUNDLE_BYTES:
        return _too_large(len(paths), size)
    return {path.removeprefix("dist/"): data for path, data in files.items()}


def _too_large(count: int, size: int) -> QuotaExceeded:
    return QuotaExceeded(
        f"the bundle has {count} files and {size >> 20} MB; {MAX_BUNDLE_FILES} files and "
        f"{MAX_BUNDLE_BYTES >> 20} MB are allowed: use fewer or smaller assets"
    )


async def _placed(sandbox: Sandbox, problem: BuildProblem) -> BuildProblem:
    """Find the line of an import that could not be resolved; Rollup names only the file."""
    if problem.line is not None or problem.missing_import is None or problem.file is None:
        return problem
    try:
        source = (await sandbox.read_file(problem.file)).decode("utf-8", "replace")
    except SandboxNotFound:
        raise
    except KodaError:
        return problem
    at = import_position(source, problem.missing_import)
    return problem if at is None else replace(problem, line=at[0], column=at[1])
