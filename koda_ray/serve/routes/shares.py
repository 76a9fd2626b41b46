"""Links to a session's videos, as their owner makes, reads and revokes them. None of it wakes anybody.

What who has a link sees is in `shared`.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from koda_ray.errors import NotFound
from koda_ray.serve.context import Deps, IdempotencyKey, OwnSession
from koda_ray.serve.listing import lost_finals
from koda_ray.serve.once import same_token, share_name, share_token
from koda_ray.serve.problem import responses
from koda_ray.serve.routes.media import finished_render
from koda_ray.state.rows import key_hash
from koda_ray.state.shares import ShareComment, ShareRecord
from koda_ray.types import now
from koda_ray.wire import (
    MAX_COMMENTS,
    MAX_SHARES,
    MakeShare,
    ShareCommentView,
    ShareCreated,
    ShareDetail,
    ShareList,
    ShareView,
)

__all__ = ["comment_view", "router"]

router = APIRouter(prefix="/v1/sessions/{session_id}/shares", tags=["shares"])
_ShareId = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


@router.post(
    "",
    operation_id="createShare",
    summary="Make a link to a video",
    status_code=201,
    responses=responses(401, 404, 409, 413, 422, 429),
)
async def create_share(body: MakeShare, row: OwnSession, key: IdempotencyKey, deps: Deps) -> ShareCreated:
    """Make a link with which anybody sees one video, and nothing else of the session, until it ends or is revoked.

    Only a hash of its token is kept, so that it is told to nobody else, and again only to this request with its key.
    """
    share_id = share_name(row.id, key)
    try:
        share = await deps.store.share(row.id, share_id)
    except NotFound:
        job, at = await finished_render(deps, row, None, body.job), now()
        token = share_token(deps.signer.key, share_id, at, key=key, asked=body)
        made = ShareRecord(
            id=share_id,
            session_id=row.id,
            user_id=row.user_id,
            token_hash=key_hash(token),
            job_id=job.id,
            label=" ".join(body.label.split()),
            commenting=body.comments,
            expires_at=None if body.lasts_s is None else at + timedelta(seconds=body.lasts_s),
            created_at=at,
        )
        share = await deps.store.create_share(made, most=MAX_SHARES)
    token = same_token(deps.signer.key, share, key=key, asked=body)
    lost = await lost_finals(deps.store, row.user_id, [share.job_id])
    return ShareCreated(**_told(share, lost), token=token, url=f"/w/{token}")


@router.get("", operation_id="listShares", summary="List a session's links", responses=responses(401, 404, 422))
async def list_shares(row: OwnSession, deps: Deps) -> ShareList:
    """Return the links that were made and not revoked, newest first, those that have ended among them.

    A link has ended where its time has come, and where its video was deleted.
    """
    shares = await deps.store.shares(row.id)
    lost = await lost_finals(deps.store, row.user_id, (each.job_id for each in shares))
    return ShareList(shares=tuple(ShareView(**_told(each, lost)) for each in shares))


@router.get(
    "/{share_id}", operation_id="getShare", summary="Read a link's comments", responses=responses(401, 404, 422)
)
async def get_share(share_id: _ShareId, row: OwnSession, deps: Deps) -> ShareDetail:
    """Return what is known of a link, and what was said with it, oldest first."""
    share = await deps.store.share(row.id, share_id)
    said = await deps.store.share_comments(row.id, share_id)
    lost = await lost_finals(deps.store, row.user_id, [share.job_id])
    return ShareDetail(**_told(share, lost), said=tuple(comment_view(each) for each in said[:MAX_COMMENTS]))


@router.delete(
    "/{share_id}",
    operation_id="deleteShare",
    summary="Revoke a link",
    status_code=204,
    responses=responses(401, 404, 422),
)
async def delete_share(share_id: _ShareId, row: OwnSession, deps: Deps) -> Response:
    """End a link at once, and remove it with its comments."""
    await deps.store.remove_share(row.id, share_id)
    return Response(status_code=204)


def comment_view(comment: ShareComment) -> ShareCommentView:
    """Show what was said with a link."""
    return ShareCommentView(
        id=comment.id, name=comment.name, text=comment.text, at=comment.at_s, created_at=comment.created_at
    )


def _told(share: ShareRecord, lost: Collection[str]) -> dict[str, Any]:
    """Return what its owner is told of a link."""
    return {
        "id": share.id,
        "job": share.job_id,
        "label": share.label,
        "comments": share.commenting,
        "commented": share.commented,
        "ended": share.job_id in lost or (share.expires_at is not None and share.expires_at <= now()),
        "expires_at": share.expires_at,
        "created_at": share.created_at,
    }
