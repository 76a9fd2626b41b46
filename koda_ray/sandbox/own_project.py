"""What a person does with the project of a sandbox of their own as a whole: take it out, put it back, see it run.

The dev server is one of the sandbox's processes, named ``preview``: it runs on when whoever started it is gone, and
whichever program shows it finds it by its port.
"""

from __future__ import annotations

import asyncio
import shlex
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from koda_ray.errors import Conflict, ServerFailed
from koda_ray.sandbox.archives import ProjectFiles
from koda_ray.sandbox.base import PREVIEW_BASE, PreviewEndpoint
from koda_ray.sandbox.preview import DEV_PORT, PREVIEW, dev_server, late, server_ended

if TYPE_CHECKING:
    from koda_ray.sandbox.base import Skip
    from koda_ray.sandbox.workshop import Workshop

__all__ = ["export_project", "find_preview", "import_project", "start_preview"]

_ASK_EVERY_S = 0.2
_LAST_LINES_BYTES = 4096
_SHOWN = "(the template's dev server)"


async def export_project(
    workshop: Workshop, sandbox_id: str, *, most_bytes: int | None = None
) -> tuple[ProjectFiles, dict[str, Skip]]:
    """Read a project's files, without what is built or installed; ``most_bytes`` is what they may have together.

    Returns:
        The files, and what is not among them, with why: links, devices, what is too large or cannot be read.

    Raises:
        NotFound: SANDBOX_NOT_FOUND.
        SandboxError: As ``Sandbox.snapshot``.
    """
    found = await (await workshop.connect(sandbox_id)).snapshot(most_bytes=most_bytes)
    return ProjectFiles(files=found.changed, modes=found.modes, folders=found.folders), dict(found.skipped)


async def import_project(workshop: Workshop, sandbox_id: str, project: ProjectFiles) -> None:
    """Make a sandbox's project exactly these files; what `export_project` leaves out stays as it is.

    Raises:
        NotFound: SANDBOX_NOT_FOUND.
        InvalidPath: INVALID_PATH, before anything is written.
        SandboxError: As ``Sandbox.restore``.
    """
    box = await workshop.connect(sandbox_id)
    await box.restore(project.files, modes=project.modes, folders=project.folders, spared=None)


async def start_preview(workshop: Workshop, sandbox_id: str, *, timeout_s: float = 60.0) -> PreviewEndpoint:
    """Start the dev server of the animation template where it does not run, and say where it answers.

    Raises:
        NotFound: SANDBOX_NOT_FOUND.
        ServerFailed: SERVER_FAILED, it ended or did not answer in time, with its last lines; PORT_UNAVAILABLE, another
            process listens on its port, or its provider does not lead there.
    """
    host = "0.0.0.0" if (await workshop.connect(sandbox_id)).provider in ("e2b", "modal") else "127.0.0.1"
    command = f"KODA_BASE={PREVIEW_BASE} exec {shlex.join(dev_server(host=host))}"
    with suppress(Conflict):  # it runs
        await workshop.launch(sandbox_id, PREVIEW, command, shown=_SHOWN)
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    return await find_preview(workshop, sandbox_id)
                except ServerFailed:
                    process = await workshop.process(sandbox_id, PREVIEW)
                    if process.state != "running":
                        raise server_ended(process.record.exit_code, await _last_lines(workshop, sandbox_id)) from None
                await asyncio.sleep(_ASK_EVERY_S)
    except TimeoutError:
        raise late(timeout_s, await _last_lines(workshop, sandbox_id)) from None


async def find_preview(workshop: Workshop, sandbox_id: str) -> PreviewEndpoint:
    """Say where a dev server answers that was started before; errors as ``Workshop.reach``."""
    return replace(await workshop.reach(sandbox_id, DEV_PORT), base=PREVIEW_BASE)


async def _last_lines(workshop: Workshop, sandbox_id: str) -> str:
    said = await workshop.output(sandbox_id, PREVIEW, max_bytes=_LAST_LINES_BYTES)
    return said.decode("utf-8", "replace").strip()
