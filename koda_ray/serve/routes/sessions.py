"""Sessions: make one, read one, list them, delete one and have it back. Reads come from the store and wake nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import AwareDatetime, BaseModel, Field

from koda_ray.errors import InvalidInput, NotFound
from koda_ray.serve.context import Deps, IdempotencyKey, SessionId, User, background_of
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.listing import Sought, session_shown, sessions_found
from koda_ray.serve.problem import responses
from koda_ray.serve.quotas import session_quota
from koda_ray.state.records import SessionLabel, SessionRecord
from koda_ray.types import NodeState, Phase, new_id, now
from koda_ray.wire import (
    CreateSession,
    CreateTakes,
    LabelSession,
    SessionCreated,
    SessionOrder,
    SessionPage,
    SessionView,
    WhoseTurn,
)

__all__ = ["begun", "created", "default_project", "node_of", "router", "session_of"]

MOST_UNDO_S = 3600
"""For how long a session that was deleted can be had back at most, in seconds."""
UndoS = Annotated[
    int,
    Query(
        alias="undoS",
        ge=0,
        le=MOST_UNDO_S,
        description="For how many seconds it can be had back (`restore`); 0: not at all",
    ),
]
router = APIRouter(prefix="/v1/sessions", tags=["sessions"])


def default_project(user_id: str) -> str:
    """Return the project that a user's work belongs to where no other is named."""
    return user_id


@router.post(
    "",
    operation_id="createSession",
    summary="Make a video from a prompt",
    status_code=202,
    response_model=SessionCreated,
    responses=responses(401, 404, 409, 413, 422, 429, 503),
)
async def create_session(
    body: CreateSession, user: User, key: IdempotencyKey, deps: Deps, request: Request, response: Response
) -> SessionCreated:
    """Record a session and let its agents begin. Follow `eventsUrl`, or read `stateUrl`, to see it go on."""
    row = await begun(body, user, key, deps)
    if row.owes is not None:
        background_of(request).spawn(deps.directory.wake(row.id), what="wake")
    return created(row, response)


async def begun(
    body: CreateSession, user: str, key: str, deps: ApiDeps, *, group: str | None = None, take: int | None = None
) -> SessionRecord:
    """Record a session; ``group`` and ``take`` where it is one of several takes, the later ones of which fit too."""
    more = body.takes - take if isinstance(body, CreateTakes) and take is not None else 0
    await deps.store.ensure_user(user)
    project = body.project_id or default_project(user)
    await deps.store.ensure_project(user, project, project)
    await _check_assets(deps, body, user)
    if body.budget is not None and body.budget.cost_usd is not None:
        for _, model in deps.settings.models:
            deps.settings.prices.need(model)
    session_id = new_id("ses")
    # the first take has the files themselves, and each other one the same files under ids of its own
    copies = {new_id("ast"): each for each in dict.fromkeys(body.asset_ids)} if take is not None and take > 1 else {}
    state = NodeState(
        # one number for both: whoever knows a node knows its session
        node_id=node_of(session_id),
        user_id=user,
        project_id=project,
        session_id=session_id,
        owes="analyze",
        prompt=body.prompt.strip(),
        style=body.style,
        options=body.options if take is None else body.options.model_copy(update={"take": take}),
        render=body.render,
        asset_ids=tuple(copies) or body.asset_ids,
        permissions=body.permissions,
        budget=body.budget,
        group=group,
    )
    asked = body.model_dump(mode="json")
    row, _ = await deps.store.create_session(
        state,
        key=key,
        body=asked if take is None else {**asked, "take": take},
        quota=session_quota(deps.settings, more=more),
        copies=copies,
    )
    return row


class _Asked(BaseModel):
    """Which sessions, and which page of them."""

    phase: list[Phase] | None = Field(None, description="Only those in this phase; repeatable")
    turn: WhoseTurn | None = Field(
        None, description="Only those that wait for a person, or only those that agents work on"
    )
    status: Literal["active", "suspended"] | None = Field(None, description="Only awake ones, or asleep")
    project: str | None = Field(None, max_length=64, description="Only those of this project")
    pinned: bool | None = Field(None, description="Only pinned ones, or only those that are not")
    group: str | None = Field(None, max_length=64, description="Only takes of one prompt, by what they have in common")
    text: str | None = Field(
        None, max_length=200, description="Only those with all these words in title, prompt or scenes' titles"
    )
    since: AwareDatetime | None = Field(None, description="Only those that changed since then")
    until: AwareDatetime | None = Field(None, description="Only those that have not changed since then")
    order: SessionOrder = Field("made", description="By when they were made, or last changed; the newest come first")
    limit: int = Field(50, ge=1, le=200, description="Sessions in a page")
    before: str | None = Field(None, max_length=80, description="`next` of the page before, in the same order")

    def sought(self) -> Sought:
        return Sought(
            phases=frozenset(self.phase or ()),
            turn=self.turn,
            status=self.status,
            pinned=self.pinned,
            project_id=self.project,
            group=self.group,
            text=self.text,
            since=self.since,
            until=self.until,
            order=self.order,
        )


@router.get(
    "",
    operation_id="listSessions",
    summary="List your sessions, newest or last changed first",
    response_model=SessionPage,
    responses=responses(401, 422),
)
async def list_sessions(user: User, deps: Deps, asked: Annotated[_Asked, Query()]) -> SessionPage:
    """Return a page; ask again with `before` set to `next` until `next` is null."""
    return await sessions_found(deps.store, user, asked.sought(), limit=asked.limit, before=asked.before)


@router.get(
    "/{session_id}",
    operation_id="getSession",
    summary="Read a session's state",
    response_model=SessionView,
    responses=responses(401, 404, 422),
)
async def get_session(session_id: SessionId, user: User, deps: Deps) -> SessionView:
    """Return the state as stored. This wakes nothing, however long the session has slept.

    Where the final video was deleted that it was finished with, it has no `output`, and is complete all the same.
    Behind what agents at work have not heeded, `unread` has what was said that waits until the session takes it.
    """
    return await session_shown(deps.store, session_id, user)


@router.patch(
    "/{session_id}",
    operation_id="labelSession",
    summary="Give a session a title, or pin it",
    response_model=SessionView,
    responses=responses(401, 404, 413, 422),
)
async def label_session(session_id: SessionId, user: User, deps: Deps, body: LabelSession) -> SessionView:
    """Change how it stands in your lists. Wakes nothing, and is no event of the session.

    A pinned session is kept where the server removes those that nobody has used for long.
    """
    title = None if body.title is None else " ".join(body.title.split())
    label = SessionLabel(title=title, pinned=body.pinned)
    await deps.store.label_session(session_id, user_id=user, label=label)
    return await session_shown(deps.store, session_id, user)


@router.delete(
    "/{session_id}",
    operation_id="deleteSession",
    summary="Delete a session with everything in it",
    status_code=204,
    responses=responses(401, 404, 422),
)
async def delete_session(
    session_id: SessionId, user: User, deps: Deps, request: Request, undo_s: UndoS = 0
) -> Response:
    """End its work, remove its sandbox, rows and files. Its event streams end.

    With `undoS` nobody sees it any more and its work ends, but it is removed only after so many seconds: until then
    `restore` has it back as it was. To say so once more does not make that longer.
    """
    work = background_of(request)
    if undo_s:
        await deps.store.discard_session(session_id, user_id=user, delete_at=now() + timedelta(seconds=undo_s))
        work.spawn(deps.directory.passivate(session_id), what="end a discarded session")
    else:
        await work.finish(deps.directory.delete(session_id=session_id, user_id=user))
    return Response(status_code=204)


@router.post(
    "/{session_id}/restore",
    operation_id="restoreSession",
    summary="Undo that a session was deleted",
    response_model=SessionView,
    responses=responses(401, 404, 422, 429),
)
async def restore_session(session_id: SessionId, user: User, deps: Deps, request: Request) -> SessionView:
    """Have a session back that was deleted with `undoS`; it goes on with what it owes or was asked."""
    row = await deps.store.restore_session(session_id, user_id=user, quota=session_quota(deps.settings))
    if row.owes is not None or await deps.store.inbox(row.id):
        background_of(request).spawn(deps.directory.wake(row.id), what="wake")
    return await session_shown(deps.store, session_id, user)


def created(row: SessionRecord, response: Response | None = None) -> SessionCreated:
    """Say that a session was made, and where it is."""
    state_url = f"/v1/sessions/{row.id}"
    if response is not None:
        response.headers["Location"] = state_url
    return SessionCreated(
        session_id=row.id,
        node_id=row.node_id,
        project_id=row.project_id,
        created_at=row.created_at,
        state_url=state_url,
        events_url=f"{state_url}/events",
    )


def node_of(session_id: str) -> str:
    """Return the node id of a session made here."""
    return f"nod_{session_id.removeprefix('ses_')}"


def session_of(node_id: str) -> str:
    """Return the session id of a node made here; a session's own id stays as it is."""
    return f"ses_{node_id.removeprefix('nod_')}" if node_id.startswith("nod_") else node_id


async def _check_assets(deps: ApiDeps, body: CreateSession, user: str) -> None:
    for asset_id in body.asset_ids:
        try:
            asset = await deps.store.get_asset(asset_id, user_id=user)
        except NotFound as error:
            raise NotFound(
                f"there is no asset {asset_id!r}; upload the file first: POST /v1/assets", context={"assetId": asset_id}
            ) from error
        if asset.purpose != "file":
            raise InvalidInput(
                f"asset {asset_id!r} is the picture of a note, and no file that a film is made with; upload it again, "
                "without a purpose: POST /v1/assets",
                context={"assetId": asset_id, "field": "assetIds"},
            )
