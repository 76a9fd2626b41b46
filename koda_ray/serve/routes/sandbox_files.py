"""Files of a person's own sandboxes, and commands that run in them to their end."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from koda_ray.sandbox.scratch import scratch
from koda_ray.serve.context import Closing, Following, OwnWorkshop, User, unpacking_of
from koda_ray.serve.media import ascii_name
from koda_ray.serve.problem import USED, responses
from koda_ray.serve.routes.images import receive
from koda_ray.serve.routes.sandboxes import SandboxId
from koda_ray.wire import CommandOutput, RunCommand, SandboxFile, SandboxFiles

__all__ = ["router", "takes_files"]

router = APIRouter(prefix="/v1/sandboxes/{sandbox_id}", tags=["sandboxes"])
FilePath = Annotated[str, Path(description="Relative to the project: `src/main.py`")]
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_FILES = re.compile(r"/v1/sandboxes/[^/]+/(files/.|snapshot$)")


def takes_files(path: str) -> bool:
    """Whether an address takes a sandbox's file, or all of them: as much may be sent there as to any upload."""
    return _FILES.match(path) is not None


@router.get("/files", operation_id="listSandboxFiles", summary="List a sandbox's files", responses=responses(*USED))
async def list_sandbox_files(
    sandbox_id: SandboxId,
    workshop: OwnWorkshop,
    path: Annotated[str, Query(max_length=1024, description="The folder, relative to the project")] = ".",
    recursive: Annotated[bool, Query(description="What is below its folders, too")] = False,
) -> SandboxFiles:
    """Return what is in a folder, by path. Built and installed files are left out."""
    found = await (await workshop.connect(sandbox_id)).list_files(path, recursive=recursive)
    return SandboxFiles(
        files=tuple(SandboxFile(path=one.path, type=one.type, size_bytes=one.size_bytes) for one in found)
    )


@router.get(
    "/files/{path:path}",
    operation_id="readSandboxFile",
    summary="Read a sandbox's file",
    response_class=Response,
    responses={200: {"description": "The file", "content": _BYTES}, **responses(*USED, 413)},
)
async def read_sandbox_file(
    sandbox_id: SandboxId, path: FilePath, request: Request, user: User, workshop: OwnWorkshop, closing: Closing
) -> Response:
    """Send its bytes as a download, whatever it holds: a page of the sandbox never runs on this origin."""
    box = await workshop.connect(sandbox_id)
    reading = unpacking_of(request).reading(user, lambda most: box.read_files([path], most_bytes=most))
    (data,) = (await closing.enter_async_context(reading)).values()
    headers = {
        "Cache-Control": "no-store",
        "Content-Disposition": f'attachment; filename="{ascii_name(path)}"',
        "X-Content-Type-Options": "nosniff",
    }
    return Response(data, media_type="application/octet-stream", headers=headers)


@router.put(
    "/files/{path:path}",
    operation_id="writeSandboxFile",
    summary="Write a sandbox's file",
    status_code=204,
    responses=responses(*USED, 413),
    openapi_extra={"requestBody": {"required": True, "content": _BYTES}},
)
async def write_sandbox_file(
    sandbox_id: SandboxId, path: FilePath, request: Request, user: User, workshop: OwnWorkshop
) -> Response:
    """Send its content. Whoever reads it meanwhile sees the old file or the new one; folders above it are made."""
    with scratch() as made:  # while it comes, and waits for room, it lies on the disk
        sent = made / "sent"
        await receive(request, sent)
        async with unpacking_of(request).holding(user, sent.stat().st_size):
            data = await asyncio.to_thread(sent.read_bytes)
            await (await workshop.connect(sandbox_id)).write_files({path: data})
    return Response(status_code=204)


@router.delete(
    "/files/{path:path}",
    operation_id="removeSandboxFile",
    summary="Remove a sandbox's file",
    status_code=204,
    responses=responses(*USED),
)
async def remove_sandbox_file(sandbox_id: SandboxId, path: FilePath, workshop: OwnWorkshop) -> Response:
    """Remove a file, or a folder with all in it. May be asked for again."""
    await (await workshop.connect(sandbox_id)).remove(path)
    return Response(status_code=204)


@router.post(
    "/commands",
    operation_id="runCommand",
    summary="Run a command to its end",
    responses=responses(*USED, 413),
)
async def run_command(
    sandbox_id: SandboxId, asked: RunCommand, workshop: OwnWorkshop, following: Following
) -> CommandOutput:
    """Answer when it has ended, however it ended: `exitCode` says how.

    One that takes longer than `timeoutS` is ended, and answered with TIMEOUT. Launch a process for what runs on.
    It takes a place among your streams for as long.
    """
    ended = await workshop.run(sandbox_id, asked.command, timeout_s=asked.timeout_s, cwd=asked.cwd)
    return CommandOutput(
        exit_code=ended.exit_code,
        stdout=ended.stdout,
        stderr=ended.stderr,
        duration_s=ended.duration_s,
        truncated=ended.truncated,
    )
