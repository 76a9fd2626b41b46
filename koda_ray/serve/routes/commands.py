"""What a person says to a session: recorded before the response is sent, worked on afterwards.

What is said is answered 202 with the command's record. A repeat (same idempotency key, same body) is answered from that
record and wakes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import JsonValue

from koda_ray.errors import Conflict, InvalidInput
from koda_ray.serve.context import Deps, IdempotencyKey, OwnSession, User, background_of
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.problem import responses
from koda_ray.serve.views import approval_view, cursor_of, read_cursor
from koda_ray.state.records import CommandRecord, SessionRecord
from koda_ray.state.refusals import of_another
from koda_ray.types import Budget, Note, RenderOptions, SessionPermissions
from koda_ray.wire import (
    Answer,
    ApprovalPage,
    Approve,
    Changes,
    CommandAccepted,
    CommandName,
    Message,
    PlanEdits,
    Refuse,
    Reject,
    Rewind,
)

__all__ = ["MAX_PICTURE_BYTES", "Submit", "router"]

MAX_PICTURE_BYTES = 256 * 1024
"""How large a note's picture may be: it stands in the agents' history, and goes with each request."""
_SEEN = ("image/jpeg", "image/png", "image/webp", "image/gif")

router = APIRouter(
    prefix="/v1/sessions/{session_id}",
    tags=["commands"],
    responses=responses(401, 404, 409, 413, 422, 429, 503),
)


class _Submitter:
    """Sends commands to sessions; a client that hangs up meanwhile changes nothing."""

    def __init__(self, request: Request, deps: Deps) -> None:
        self._background = background_of(request)
        self._deps = deps

    async def __call__(
        self, session_id: str, user: str, name: CommandName, body: Mapping[str, JsonValue], key: str
    ) -> CommandAccepted:
        known = await self._deps.store.find_command(session_id, key)
        if known is not None:
            if known.name != name or known.body != dict(body):
                raise Conflict(
                    f"the idempotency key {key!r} was used for another request ({known.name}); use a new key",
                    context={"command": known.name},
                )
            return _accepted(known)
        sent = self._deps.directory.submit(session_id=session_id, user_id=user, name=name, body=body, key=key)
        return _accepted(await self._background.finish(sent))


async def _check_pictures(deps: ApiDeps, row: SessionRecord, notes: Sequence[Note]) -> None:
    """Refuse pictures that are none, or larger than what every model takes beside others.

    Raises:
        NotFound: There is no such upload of this user.
        InvalidInput: It is no picture, or too large.
        Conflict: It is that of a note to another session, and goes with that one.
    """
    for number, note in enumerate(notes, 1):
        if note.picture is None:
            continue
        asset = await deps.store.get_asset(note.picture, user_id=row.user_id)
        if asset.purpose == "note" and asset.session_id not in (None, row.id):
            raise of_another(asset.id)
        if asset.media_type not in _SEEN or asset.size_bytes > MAX_PICTURE_BYTES:
            raise InvalidInput(
                f"the picture of note {number} is {asset.media_type} of {asset.size_bytes} bytes; it must be one of "
                f"{', '.join(_SEEN)} with at most {MAX_PICTURE_BYTES} bytes",
                context={"field": f"notes.{number - 1}.picture"},
            )


def _accepted(record: CommandRecord) -> CommandAccepted:
    return CommandAccepted(
        command_id=record.id,
        session_id=record.session_id,
        command=cast(CommandName, record.name),
        result=record.result,
        created_at=record.created_at,
    )


async def _submitter(request: Request, deps: Deps) -> _Submitter:
    return _Submitter(request, deps)


Submit = Annotated[_Submitter, Depends(_submitter)]


@router.post("/answer", operation_id="answer", status_code=202, summary="Answer the question")
async def answer(body: Answer, row: OwnSession, user: User, key: IdempotencyKey, to: Submit) -> CommandAccepted:
    """Answer with one of the question's options, with your own words, or with both."""
    if body.option_id is None and body.text is None:
        raise InvalidInput("the answer is empty: send optionId (one of the question's options) or text")
    return await to(row.id, user, "answer", body.model_dump(mode="json", exclude_none=True), key)


@router.post("/accept", operation_id="accept", status_code=202, summary="Accept the plan or the preview")
async def accept(row: OwnSession, user: User, key: IdempotencyKey, to: Submit) -> CommandAccepted:
    """Go on: from the plan to the work, from the preview to the final render."""
    return await to(row.id, user, "accept", {}, key)


@router.post("/reject", operation_id="reject", status_code=202, summary="Reject the plan or the preview")
async def reject(
    row: OwnSession, user: User, key: IdempotencyKey, to: Submit, body: Reject | None = None
) -> CommandAccepted:
    """Go back: from the plan to a question, from the preview or the video to the work (which needs feedback)."""
    sent = body.model_dump(mode="json", exclude_none=True) if body else {}
    return await to(row.id, user, "reject", sent, key)


@router.post("/changes", operation_id="requestChanges", status_code=202, summary="Ask for something to be different")
async def changes(
    body: Changes, row: OwnSession, user: User, deps: Deps, key: IdempotencyKey, to: Submit
) -> CommandAccepted:
    """Have the plan, the preview or the finished video changed, in words or by notes on what you point at.

    Agents get each note with its time, its place and what is there; a picture of it, where one was uploaded
    for that (`POST /v1/assets` with the purpose `note`), they see.
    """
    await _check_pictures(deps, row, body.notes)
    return await to(row.id, user, "changes", body.model_dump(mode="json", exclude_defaults=True), key)


@router.post("/plan", operation_id="editPlan", status_code=202, summary="Change the plan's scenes")
async def edit_plan(body: PlanEdits, row: OwnSession, user: User, key: IdempotencyKey, to: Submit) -> CommandAccepted:
    """Rename, retime, reorder and leave out scenes of the plan that waits for you; accept it to have it made so.

    Its length is that of its scenes together, and they keep to the rules for scenes of a film of that length.
    """
    return await to(row.id, user, "plan", body.model_dump(mode="json", exclude_none=True), key)


@router.post("/messages", operation_id="sendMessage", status_code=202, summary="Say something to the agents")
async def message(
    body: Message, row: OwnSession, user: User, deps: Deps, key: IdempotencyKey, to: Submit
) -> CommandAccepted:
    """Say something at any time, or point at something; what it means depends on the phase."""
    await _check_pictures(deps, row, body.notes)
    return await to(row.id, user, "message", body.model_dump(mode="json", exclude_defaults=True), key)


_CommandId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="The message's `commandId`, as its answer and `state.unread` have it",
    ),
]


@router.delete(
    "/messages/{command_id}", operation_id="takeBack", status_code=202, summary="Take back what was not heeded yet"
)
async def take_back(
    command_id: _CommandId, row: OwnSession, user: User, key: IdempotencyKey, to: Submit
) -> CommandAccepted:
    """Have not said something to agents at work, or to a session that has not taken it yet.

    While `state.unread` has it and it is not `binding`, no request of theirs holds it, and none will. Else this is
    refused with 409: stop the work (`cancel`), or go back to before it (`rewind`). A message or a change that its
    session has not taken, since it sleeps or has no room, is left out; where what was said after it would become the
    prompt or an answer then, that is to be taken back first (409).
    """
    return await to(row.id, user, "takeback", {"id": command_id}, key)


@router.post("/cancel", operation_id="cancel", status_code=202, summary="Stop the work under way")
async def cancel(row: OwnSession, user: User, key: IdempotencyKey, to: Submit) -> CommandAccepted:
    """Stop, and go back to what can be acted on. Nothing that was made is lost."""
    return await to(row.id, user, "cancel", {}, key)


@router.post("/retry", operation_id="retry", status_code=202, summary="Try again after an error")
async def retry(row: OwnSession, user: User, key: IdempotencyKey, to: Submit) -> CommandAccepted:
    """Take up the work again where it failed."""
    return await to(row.id, user, "retry", {}, key)


@router.post("/rewind", operation_id="rewind", status_code=202, summary="Go back to an earlier point")
async def rewind(body: Rewind, row: OwnSession, user: User, key: IdempotencyKey, to: Submit) -> CommandAccepted:
    """Be what the session was then: messages, files, plan, todos and video. What is under way is stopped.

    Nothing is deleted: `result.headId` is where the session was, to go to again, and `undo` goes there.
    """
    return await to(row.id, user, "rewind", body.model_dump(mode="json", exclude_defaults=True), key)


@router.post("/render", operation_id="render", status_code=202, summary="Render the final video")
async def render(
    row: OwnSession, user: User, key: IdempotencyKey, to: Submit, body: RenderOptions | None = None
) -> CommandAccepted:
    """Render what the preview shows, at this size, rate and format. The finished video can be rendered again.

    What it was rendered to before stays, each by its job (`GET /v1/renders?session=ID&kind=final`).
    """
    options = body or RenderOptions()
    return await to(row.id, user, "render", options.model_dump(mode="json"), key)


ApprovalId = Annotated[str, Path(max_length=64, description="An approval's id, such as `state.approval.approvalId`")]


@router.get("/approvals", operation_id="listApprovals", summary="Read what waits for you, or waited, newest first")
async def approvals(
    row: OwnSession,
    deps: Deps,
    pending: Annotated[bool, Query(description="Only what still waits")] = False,
    limit: Annotated[int, Query(ge=1, le=200, description="Approvals in a page, at most")] = 50,
    before: Annotated[str | None, Query(max_length=96, description="`next` of the page before")] = None,
) -> ApprovalPage:
    """Return questions, plans, previews and tool calls, with what was answered. This wakes nothing.

    A page of large ones is short: ask again with `before` set to `next` until `next` is null.
    """
    cursor = None if before is None else read_cursor(before)
    found, more = await deps.store.approvals_page(row.id, pending=pending, limit=limit, before=cursor)
    return ApprovalPage(
        approvals=tuple(approval_view(each) for each in found), next=cursor_of(found[-1]) if more else None
    )


@router.post("/approvals/{approval_id}/approve", operation_id="approve", status_code=202, summary="Let a tool call run")
async def approve(
    approval_id: ApprovalId,
    row: OwnSession,
    user: User,
    key: IdempotencyKey,
    to: Submit,
    body: Approve | None = None,
) -> CommandAccepted:
    """Agree to the tool call that waits, as proposed or with arguments of your own."""
    sent = body.model_dump(mode="json", exclude_none=True) if body else {}
    return await to(row.id, user, "approve", {"approvalId": approval_id, **sent}, key)


@router.post("/approvals/{approval_id}/reject", operation_id="refuse", status_code=202, summary="Refuse a tool call")
async def refuse(
    approval_id: ApprovalId,
    row: OwnSession,
    user: User,
    key: IdempotencyKey,
    to: Submit,
    body: Refuse | None = None,
) -> CommandAccepted:
    """Have the tool call that waits never run. The agents read your reason and go on."""
    sent = body.model_dump(mode="json", exclude_none=True) if body else {}
    return await to(row.id, user, "refuse", {"approvalId": approval_id, **sent}, key)


@router.post(
    "/permissions", operation_id="setPermissions", status_code=202, summary="Say what agents may do by themselves"
)
async def permissions(
    body: SessionPermissions, row: OwnSession, user: User, key: IdempotencyKey, to: Submit
) -> CommandAccepted:
    """Replace mode and rules, from the agents' next tool call on. A call that waits already waits on."""
    return await to(row.id, user, "permissions", body.model_dump(mode="json"), key)


@router.post("/budget", operation_id="setBudget", status_code=202, summary="Set how much a session may use")
async def budget(body: Budget, row: OwnSession, user: User, key: IdempotencyKey, to: Submit) -> CommandAccepted:
    """Set limits for all of the session, what was used included. Work that waits for more goes on.

    A limit that is null is taken away, so that the server's own holds, if it has one; what is left out stays.
    """
    limits = body.model_dump(mode="json", exclude_unset=True)
    if not limits:
        raise InvalidInput("the budget is empty: name a limit, such as costUsd")
    return await to(row.id, user, "budget", limits, key)
