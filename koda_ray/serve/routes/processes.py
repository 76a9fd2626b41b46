"""Processes in a person's own sandboxes: launched, followed, read, attached to and killed.

What a process writes is a stream of events whose ``id`` is a place in it: a client that comes back with the last one it
saw gets the rest. A terminal is a WebSocket: what is typed goes in, what is shown comes out, both as binary frames, and
a text frame ``{"rows": 40, "columns": 120}`` is a new size. Of pages only our own may open one, whoever is signed in.

Who does not read cannot be waited for (`unread`): what is sent lies in this process. So an answer tells so much and
ends, and whoever reads comes back for the rest; a terminal shows so much a second, and tmux leaves out what is over.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, aclosing, suppress
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response, WebSocket, WebSocketDisconnect
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, ValidationError

from koda_ray.errors import KodaError
from koda_ray.sandbox.base import Terminal
from koda_ray.sandbox.standing import ProcessState
from koda_ray.sandbox.tmux import MAX_OUTPUT_BYTES
from koda_ray.sandbox.workshop import Workshop
from koda_ray.serve.auth import bearer
from koda_ray.serve.context import (
    Deps,
    Following,
    OwnWorkshop,
    background_of,
    deps_of,
    streams_of,
    user_of,
    workshop_of,
)
from koda_ray.serve.ending import carried_out, ended
from koda_ray.serve.left import end_left
from koda_ray.serve.logins import is_own_page
from koda_ray.serve.problem import USED, responses
from koda_ray.serve.routes.events import Start, deny
from koda_ray.serve.routes.sandboxes import SandboxId
from koda_ray.serve.signing import Forbidden
from koda_ray.serve.streams import pieces_until
from koda_ray.wire import LaunchProcess, ProcessList, ProcessOutput, ProcessView

__all__ = ["router"]

router = APIRouter(prefix="/v1/sandboxes/{sandbox_id}/processes", tags=["processes"])
Name = Annotated[str, Path(min_length=1, max_length=64, description="The process's name")]
_OUTPUT_BYTES = 65536
_ANSWER_BYTES = 8 << 20
"""How much of a process's output one answer tells."""
_SHOWN_BYTES_PER_S = 1 << 20
_MAX_UNUSED_S = 600.0
_DONE = 1000


class _Size(BaseModel):
    rows: int
    columns: int


async def _there(sandbox_id: SandboxId, name: Name, workshop: OwnWorkshop) -> str:
    """Look before a stream begins: then there is no way any more to say that it is not there."""
    return (await workshop.process(sandbox_id, name)).record.name


OwnName = Annotated[str, Depends(_there)]


@router.post(
    "",
    operation_id="launchProcess",
    summary="Start a process",
    status_code=201,
    responses=responses(*USED, 413),
)
async def launch_process(
    sandbox_id: SandboxId, asked: LaunchProcess, workshop: OwnWorkshop, response: Response
) -> ProcessView:
    """Start it in the background, in a terminal of its own; it runs until it ends, is killed, or its sandbox ends."""
    made = _view(await workshop.launch(sandbox_id, asked.name, asked.command))
    response.headers["Location"] = f"/v1/sandboxes/{sandbox_id}/processes/{asked.name}"
    return made


@router.get("", operation_id="listProcesses", summary="List a sandbox's processes", responses=responses(*USED))
async def list_processes(
    sandbox_id: SandboxId,
    workshop: OwnWorkshop,
    everything: Annotated[bool, Query(alias="all", description="Those that have ended, too")] = False,
) -> ProcessList:
    """Return processes as the sandbox sees them now, by name."""
    found = await workshop.processes(sandbox_id, everything=everything)
    return ProcessList(processes=tuple(_view(one) for one in found))


@router.get("/{name}", operation_id="getProcess", summary="Read a process", responses=responses(*USED))
async def get_process(sandbox_id: SandboxId, name: Name, workshop: OwnWorkshop) -> ProcessView:
    """Return one, also one that has ended."""
    return _view(await workshop.process(sandbox_id, name))


@router.get(
    "/{name}/output",
    operation_id="readProcessOutput",
    summary="Read what a process wrote",
    response_class=Response,
    responses={
        200: {"description": "What its terminal got", "content": {"text/plain": {}}},
        **responses(*USED),
    },
)
async def read_output(
    sandbox_id: SandboxId,
    name: Name,
    workshop: OwnWorkshop,
    max_bytes: Annotated[int, Query(alias="maxBytes", ge=1, le=MAX_OUTPUT_BYTES)] = _OUTPUT_BYTES,
) -> Response:
    """Return the end of it at once; all that is kept, its last megabytes, can be followed."""
    data = await workshop.output(sandbox_id, name, max_bytes=max_bytes)
    return Response(data, media_type="text/plain; charset=utf-8")


@router.get(
    "/{name}/events",
    operation_id="followProcess",
    summary="Follow what a process writes",
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "Events named `output` and, at last, `end`; `id` is the place to come back with. Ends when "
            "the process has ended or was killed; without `end` after some megabytes, and when the server stops.",
            "content": {"text/event-stream": {"itemSchema": {"$ref": "#/components/schemas/ProcessOutput"}}},
        },
        **responses(*USED),
    },
)
async def follow_process(
    sandbox_id: SandboxId,
    name: OwnName,
    workshop: OwnWorkshop,
    deps: Deps,
    start: Start,
    following: Following,
) -> AsyncIterator[ServerSentEvent]:
    """Send what it wrote since `after`, then what it writes. Hanging up leaves it running."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    code: int | None = None
    place, told_bytes = start, 0
    written = await following.enter_async_context(aclosing(workshop.follow(sandbox_id, name, after=start)))
    async for piece in await following.enter_async_context(aclosing(pieces_until(deps.draining, written))):
        text = decoder.decode(piece.data)
        place, code = piece.stop - len(decoder.getstate()[0]), piece.exit_code
        if text:
            yield _event("output", place, ProcessOutput(text=text))
        told_bytes += len(piece.data)
        if told_bytes >= _ANSWER_BYTES and code is None:
            return
    if not deps.draining.is_set():
        yield _event("end", place, ProcessOutput(text=decoder.decode(b"", final=True), exit_code=code))


@router.delete(
    "/{name}",
    operation_id="killProcess",
    summary="End a process",
    status_code=204,
    responses=responses(*USED),
)
async def kill_process(sandbox_id: SandboxId, name: Name, workshop: OwnWorkshop) -> Response:
    """End it with all that it started, and forget what it wrote."""
    await workshop.kill(sandbox_id, name)
    return Response(status_code=204)


@router.websocket("/{name}/terminal")
async def attach(
    websocket: WebSocket,
    sandbox_id: SandboxId,
    name: Name,
    rows: Annotated[int, Query(ge=1, le=1000)] = 24,
    columns: Annotated[int, Query(ge=1, le=1000)] = 80,
    unused_s: Annotated[float | None, Query(alias="unusedS", ge=0, le=_MAX_UNUSED_S)] = None,
) -> None:
    """Open its terminal; hanging up leaves it running, or ends it once nobody has been there for ``unusedS``."""
    deps = deps_of(websocket)
    with ExitStack() as following:
        try:
            _check_page(websocket)
            user = user_of(websocket)
            workshop: Workshop = workshop_of(websocket, user)
            following.enter_context(streams_of(websocket).joined(user))
            run = None if unused_s is None else (await workshop.process(sandbox_id, name)).record.run
            terminal = await workshop.attach(sandbox_id, name, rows=rows, columns=columns)
        except KodaError as error:
            await deny(websocket, error)
            return
        try:
            await _attached(websocket, terminal)
        finally:
            if unused_s is not None and run is not None and not deps.draining.is_set():  # else who was there comes back
                ending = end_left(workshop, sandbox_id, name, run, after_s=unused_s, over=deps.draining)
                background_of(websocket).spawn(ending, what="left terminal")


def _check_page(websocket: WebSocket) -> None:
    """Refuse pages that are not ours, also where everybody at this machine may come: no browser asks before a socket.

    Raises:
        Forbidden: WRONG_ORIGIN.
    """
    headers = websocket.headers
    if "origin" in headers and bearer(headers.get("authorization")) is None and not is_own_page(headers, None):
        raise Forbidden(
            "terminals open on this server's own pages: send the header 'Authorization: Bearer <key>' from elsewhere",
            code="WRONG_ORIGIN",
        )


async def _attached(websocket: WebSocket, terminal: Terminal) -> None:
    """Carry what is typed and shown, until either end leaves or the server stops."""
    tasks: list[asyncio.Task[None]] = []
    try:
        await websocket.accept()
        work = _show(websocket, terminal), _take(websocket, terminal), _wait(deps_of(websocket).draining)
        tasks = [asyncio.create_task(part) for part in work]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await carried_out(_leave(terminal, tasks))
    with suppress(WebSocketDisconnect, RuntimeError):
        await websocket.close(_DONE)


async def _show(websocket: WebSocket, terminal: Terminal) -> None:
    with suppress(WebSocketDisconnect):
        while data := await terminal.read():
            await websocket.send_bytes(data)
            await asyncio.sleep(len(data) / _SHOWN_BYTES_PER_S)


async def _take(websocket: WebSocket, terminal: Terminal) -> None:
    while (message := await websocket.receive())["type"] != "websocket.disconnect":
        if data := message.get("bytes"):
            await terminal.write(data)
        elif text := message.get("text"):
            with suppress(ValidationError, KodaError):  # what is no size is nothing
                size = _Size.model_validate_json(text)
                await terminal.resize(rows=size.rows, columns=size.columns)


async def _leave(terminal: Terminal, tasks: Sequence[asyncio.Task[None]]) -> None:
    await ended(*tasks)
    await terminal.close()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def _event(name: str, place: int, output: ProcessOutput) -> ServerSentEvent:
    return ServerSentEvent(id=str(place), event=name, raw_data=output.model_dump_json(by_alias=True))


def _view(one: ProcessState) -> ProcessView:
    record = one.record
    return ProcessView(
        sandbox_id=record.sandbox_id,
        name=record.name,
        command=record.command,
        state=one.state,
        exit_code=record.exit_code,
        created_at=record.created_at,
        ended_at=record.ended_at,
        events_url=f"/v1/sandboxes/{record.sandbox_id}/processes/{record.name}/events",
    )
