"""A person's own sandboxes, of no session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from koda_ray.errors import NotFound, SandboxNotFound
from koda_ray.sandbox.desktop import DESKTOP_PORT, desktop_page, find_desktop
from koda_ray.sandbox.standing import SandboxStanding
from koda_ray.serve.context import Deps, Following, OwnWorkshop
from koda_ray.serve.links import Links
from koda_ray.serve.problem import READ, USED, responses
from koda_ray.serve.streams import pieces_until
from koda_ray.wire import (
    CreateSandbox,
    ExtendSandbox,
    FileChanges,
    FileChangeView,
    PreviewLink,
    SandboxList,
    SandboxView,
)

__all__ = ["SandboxId", "router"]

router = APIRouter(prefix="/v1/sandboxes", tags=["sandboxes"])
SandboxId = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$", description="A sandbox's id")]
Folder = Annotated[str, Query(max_length=1024, description="A folder of it, with all below it; else all of it")]


async def _watched(sandbox_id: SandboxId, workshop: OwnWorkshop, path: Folder = ".") -> str:
    """Look before a stream begins: then there is no way any more to say what is not there."""
    await (await workshop.connect(sandbox_id)).list_files(path)
    return path


@router.post(
    "",
    operation_id="createSandbox",
    summary="Make a sandbox",
    status_code=201,
    responses=responses(*USED, 413),
)
async def create_sandbox(asked: CreateSandbox, workshop: OwnWorkshop, response: Response) -> SandboxView:
    """Start one from an image, or from the animation template; it stays until its time is over."""
    made = await workshop.create_sandbox(
        asked.image, network=asked.network, provider=asked.provider, lifetime_s=asked.lifetime_s
    )
    response.headers["Location"] = f"/v1/sandboxes/{made.id}"
    return _view(SandboxStanding(record=made, state="running"))


@router.get("", operation_id="listSandboxes", summary="List your sandboxes, oldest first", responses=responses(*READ))
async def list_sandboxes(
    workshop: OwnWorkshop,
    everything: Annotated[bool, Query(alias="all", description="Those that are over, too")] = False,
) -> SandboxList:
    """Return sandboxes as their providers see them now."""
    return SandboxList(sandboxes=tuple(_view(one) for one in await workshop.sandboxes(everything=everything)))


@router.get("/{sandbox_id}", operation_id="getSandbox", summary="Read a sandbox", responses=responses(*READ, 404))
async def get_sandbox(sandbox_id: SandboxId, workshop: OwnWorkshop) -> SandboxView:
    """Return one, also one that is over."""
    for one in await workshop.sandboxes(everything=True):
        if one.record.id == sandbox_id:
            return _view(one)
    raise NotFound(
        f"there is no sandbox {sandbox_id!r}; GET /v1/sandboxes lists those that there are", code="SANDBOX_NOT_FOUND"
    )


@router.post(
    "/{sandbox_id}/extend",
    operation_id="extendSandbox",
    summary="Have a sandbox live on",
    responses=responses(*USED, 413),
)
async def extend_sandbox(sandbox_id: SandboxId, asked: ExtendSandbox, workshop: OwnWorkshop) -> SandboxView:
    """Move its end to so many seconds from now, where that is later; used or not."""
    row = await workshop.extend(sandbox_id, asked.lifetime_s)
    return _view(SandboxStanding(record=row, state="running"))


@router.get(
    "/{sandbox_id}/changes",
    operation_id="watchSandbox",
    summary="Follow which files change",
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "Events named `changes`. Ends when the sandbox or the server does; whoever comes back lists "
            "the files anew.",
            "content": {"text/event-stream": {"itemSchema": {"$ref": "#/components/schemas/FileChanges"}}},
        },
        **responses(*USED),
    },
)
async def watch_sandbox(
    sandbox_id: SandboxId,
    path: Annotated[str, Depends(_watched)],
    workshop: OwnWorkshop,
    deps: Deps,
    following: Following,
) -> AsyncIterator[ServerSentEvent]:
    """Send what changes from now on, whoever changes it. Built and installed files are left out."""
    told = await following.enter_async_context(aclosing(workshop.watch(sandbox_id, path)))
    try:
        async for batch in await following.enter_async_context(aclosing(pieces_until(deps.draining, told))):
            changes = FileChanges(changes=tuple(FileChangeView(path=one.path, kind=one.kind) for one in batch))
            yield ServerSentEvent(event="changes", raw_data=changes.model_dump_json(by_alias=True))
    except SandboxNotFound:
        return  # it was ended meanwhile


@router.post(
    "/{sandbox_id}/ports/{port}",
    operation_id="openPort",
    summary="See the page that a process serves",
    responses=responses(*USED),
)
async def open_port(
    sandbox_id: SandboxId,
    port: Annotated[int, Path(ge=1, le=65_535, description="Where a process of the sandbox listens")],
    workshop: OwnWorkshop,
    links: Links,
) -> PreviewLink:
    """Return where what answers on a port inside can be seen for an hour: HTTP and WebSocket, on an origin of its own.

    Whoever has the address may use what listens there. In a browser the page has no origin, and so does not say where
    it is: have its addresses stand beside the page, without a slash before them (Vite: `--base ./`). Those with one are
    found where whoever asks sends the page's address as the referer, as programs may and Chromium's modules do.
    """
    await workshop.reach(sandbox_id, port)
    return links.to(sandbox_id, port=port, edit=True)


@router.post(
    "/{sandbox_id}/desktop",
    operation_id="openDesktop",
    summary="See a sandbox's desktop",
    responses=responses(*USED),
)
async def open_desktop(sandbox_id: SandboxId, workshop: OwnWorkshop, links: Links) -> PreviewLink:
    """Return where the desktop that its template streams (E2B's does) is seen and used for an hour.

    Refused with PORT_UNAVAILABLE where nothing is streamed.
    """
    await find_desktop(workshop, sandbox_id)
    link = links.to(sandbox_id, port=DESKTOP_PORT, edit=True)
    return link.model_copy(update={"url": desktop_page(link.url)})


@router.delete(
    "/{sandbox_id}",
    operation_id="terminateSandbox",
    summary="End a sandbox",
    status_code=204,
    responses=responses(*USED),
)
async def terminate_sandbox(
    sandbox_id: SandboxId,
    workshop: OwnWorkshop,
    forget: Annotated[bool, Query(description="Also one that is elsewhere, in a place that is no more")] = False,
) -> Response:
    """End it with all its processes and files. May be asked for again."""
    await workshop.terminate(sandbox_id, forget=forget)
    return Response(status_code=204)


def _view(one: SandboxStanding) -> SandboxView:
    record = one.record
    return SandboxView(
        id=record.id,
        image_id=record.image_id,
        provider=record.provider,
        host=record.host,
        state=one.state,
        network=record.network,
        created_at=record.created_at,
        expires_at=record.expires_at,
        unused_s=record.unused_s,
        ended=record.ended or None,
    )
