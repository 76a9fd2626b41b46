"""The project of a person's own sandbox as a whole: out as a zip and back in, built, pictured, and seen running."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from koda_ray.sandbox.archives import ProjectFiles, read_project, unpacked_bytes
from koda_ray.sandbox.base import Skip
from koda_ray.sandbox.build import build, export
from koda_ray.sandbox.own_project import export_project, import_project, start_preview
from koda_ray.sandbox.scratch import scratch
from koda_ray.sandbox.screenshot import screenshot
from koda_ray.serve.context import Closing, Following, OwnWorkshop, User, unpacking_of
from koda_ray.serve.links import Links, MayEdit
from koda_ray.serve.problem import USED, responses
from koda_ray.serve.routes.images import receive
from koda_ray.serve.routes.sandboxes import SandboxId
from koda_ray.serve.signing import DEV_SERVER
from koda_ray.serve.zipped import zipped
from koda_ray.wire import BuildProblemView, BuildView, PreviewLink, SandboxFile, TakePicture

__all__ = ["router"]

router = APIRouter(prefix="/v1/sandboxes/{sandbox_id}", tags=["sandboxes"])
_BYTES = {"schema": {"type": "string", "format": "binary"}}
LEFT_OUT = "Koda-Left-Out"


@router.get(
    "/snapshot",
    operation_id="snapshotSandbox",
    summary="Take a sandbox's files out",
    response_class=Response,
    responses={
        200: {
            "description": "A zip",
            "content": {"application/octet-stream": _BYTES},
            "headers": {
                LEFT_OUT: {
                    "description": "How many links, devices, and files too large or unreadable are not in it",
                    "schema": {"type": "integer"},
                }
            },
        },
        **responses(*USED, 413),
    },
)
async def snapshot_sandbox(
    sandbox_id: SandboxId, request: Request, workshop: OwnWorkshop, closing: Closing
) -> Response:
    """Send all files of its project as a zip, with their modes and empty folders, without built and installed ones."""
    left_out: dict[str, Skip] = {}

    async def read(most: int) -> ProjectFiles:
        nonlocal left_out
        project, left_out = await export_project(workshop, sandbox_id, most_bytes=most)
        return project

    answer = await zipped(read, f"{sandbox_id}.zip", request, closing)
    answer.headers[LEFT_OUT] = str(len(left_out))
    return answer


@router.put(
    "/snapshot",
    operation_id="restoreSandbox",
    summary="Make a sandbox's files those of a zip",
    status_code=204,
    responses=responses(*USED, 413),
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": _BYTES}}},
)
async def restore_sandbox(sandbox_id: SandboxId, request: Request, user: User, workshop: OwnWorkshop) -> Response:
    """Send a zip as `snapshotSandbox` gives one: other files are removed, equal ones are left alone.

    What is built or installed stays, and so does what no snapshot holds.
    """
    with scratch() as made:
        await receive(request, made / "sent.zip")
        size = await asyncio.to_thread(unpacked_bytes, made / "sent.zip")
        async with unpacking_of(request).holding(user, size):
            await import_project(workshop, sandbox_id, await asyncio.to_thread(read_project, made / "sent.zip"))
    return Response(status_code=204)


@router.post("/build", operation_id="buildSandbox", summary="Build a sandbox's project", responses=responses(*USED))
async def build_sandbox(
    sandbox_id: SandboxId,
    workshop: OwnWorkshop,
    following: Following,
    types: Annotated[bool, Query(description="Check types first, and take what is wrong for problems")] = False,
) -> BuildView:
    """Run `vite build` in it. A project that does not build is answered too: `problems` say where and why."""
    done = await build(await workshop.connect(sandbox_id), types=types, reads=False)
    files = (SandboxFile(path=path, type="file", size_bytes=size) for path, size in sorted(done.sizes.items()))
    problems = (
        BuildProblemView(message=one.message, file=one.file, line=one.line, column=one.column) for one in done.problems
    )
    return BuildView(ok=done.ok, files=tuple(files), problems=tuple(problems), duration_s=done.duration_s)


@router.get(
    "/bundle",
    operation_id="exportBundle",
    summary="Take the built bundle out",
    response_class=Response,
    responses={200: {"description": "A zip", "content": {"application/octet-stream": _BYTES}}, **responses(*USED, 413)},
)
async def export_bundle(sandbox_id: SandboxId, request: Request, workshop: OwnWorkshop, closing: Closing) -> Response:
    """Send what the last build left, `index.html` at its root: `POST /v1/renders` takes it as it is."""
    box = await workshop.connect(sandbox_id)

    async def read(most: int) -> ProjectFiles:
        return ProjectFiles(files=await export(box, most_bytes=most))

    return await zipped(read, f"{sandbox_id}-bundle.zip", request, closing)


@router.post(
    "/screenshot",
    operation_id="takePicture",
    summary="Take a picture of the page at a time",
    response_class=Response,
    responses={200: {"description": "The picture", "content": {"image/png": _BYTES}}, **responses(*USED, 413)},
)
async def take_picture(
    sandbox_id: SandboxId, asked: TakePicture, workshop: OwnWorkshop, following: Following
) -> Response:
    """Send the very frame that a render would show: the page is built where it changed, and moved to that time."""
    from koda_ray.actors.stills import still_clock  # few take pictures, and the clock is long

    box = await workshop.connect(sandbox_id)
    made = await screenshot(box, asked.at_s, clock=still_clock(), width_px=asked.width_px, height_px=asked.height_px)
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(made.png, media_type="image/png", headers=headers)


@router.post(
    "/preview",
    operation_id="previewSandbox",
    summary="See a sandbox's page as it changes",
    responses=responses(*USED),
)
async def preview_sandbox(
    sandbox_id: SandboxId, workshop: OwnWorkshop, links: Links, edit: MayEdit = False
) -> PreviewLink:
    """Start the template's dev server as the process `preview`, where it does not run, and say where it is seen.

    The address is good for an hour, for whoever has it, to look or, with `edit`, to change the project, too. The page
    reloads itself as files are written. In E2B and Modal it takes a sandbox with the network.
    """
    await start_preview(workshop, sandbox_id)
    return links.to(sandbox_id, port=DEV_SERVER, edit=edit)
