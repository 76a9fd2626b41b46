"""Two versions beside each other: what there is to see of both, and by how much they differ, frame by frame.

A side is a version of the session, one of its videos by its job, so that finals are compared as well, or another
session, by what that shows: takes of one prompt are compared so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, cast

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from koda_ray.errors import InvalidInput, NotFound
from koda_ray.serve.comparing import ComparedVideos, Comparing
from koda_ray.serve.context import Deps, OwnSession
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.filmed import scenes_of, version_filmed
from koda_ray.serve.problem import responses
from koda_ray.serve.routes.media import finished_render, video_key_of
from koda_ray.serve.views import spec_of
from koda_ray.state.keys import comparison_key
from koda_ray.state.records import JobRecord, SessionRecord
from koda_ray.state.versions import VersionRecord
from koda_ray.wire import ComparedSide, ComparedView, DifferenceCurve

__all__ = ["router"]

router = APIRouter(prefix="/v1/sessions/{session_id}/compare", tags=["versions"])
_SESSION = "ses_"
_JOB = "job_"
_FPS = 60.0
_MOST_COMPARED_S = 120.0
"""How long a final may be that is compared frame by frame."""
_Named = Annotated[
    str,
    Field(
        max_length=64,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="A version, the job of a preview or a final, or another session of yours",
    ),
]


class _Sides(BaseModel):
    a: _Named
    b: _Named


@dataclass(frozen=True)
class _Side:
    session: SessionRecord
    version: VersionRecord
    job: JobRecord

    @property
    def fps(self) -> float:
        told = (self.job.result or {}).get("fps")
        plan = self.session.state.plan
        return float(told) if isinstance(told, int | float) else float(plan.fps) if plan is not None else _FPS

    @property
    def view(self) -> ComparedSide:
        base = f"/v1/sessions/{self.session.id}"
        preview, plan, asked = self.session.state.preview, self.session.state.plan, f"?job={self.job.id}"
        spec = spec_of(self.job)
        return ComparedSide(
            session_id=self.session.id,
            version_id=self.version.id,
            number=self.version.number,
            title=self.session.title,
            take=self.session.state.options.take,
            asked=self.version.asked,
            current=preview is not None and preview.job_id == self.version.job_id,
            duration=self.version.duration_s,
            scenes=scenes_of(self.version),
            fps=self.fps,
            width=plan.width if plan is not None else None,
            height=plan.height if plan is not None else None,
            job_id=self.job.id,
            kind="final" if self.job.kind == "final" else "preview",
            format=None if spec is None else spec.format,
            transparent=spec is not None and spec.alpha,
            video_url=f"{base}/video{asked}",
            thumbnail_url=f"{base}/thumbnail{asked}",
        )


@router.get(
    "",
    operation_id="compareVersions",
    summary="Read what there is to see of two versions",
    responses=responses(401, 404, 422),
)
async def compare(row: OwnSession, deps: Deps, asked: Annotated[_Sides, Query()]) -> ComparedView:
    """Return both sides, and how many frames of how many a second they have in common. Wakes nobody."""
    one, other = await _both(deps, row, asked)
    fps = max(one.fps, other.fps)
    common = min(one.version.duration_s, other.version.duration_s)
    return ComparedView(a=one.view, b=other.view, fps=fps, frames=max(1, round(common * fps)))


@router.get(
    "/differences",
    operation_id="compareFrames",
    summary="Read by how much two versions differ, frame by frame",
    responses=responses(401, 404, 422, 429, 500, 503),
)
async def differences(
    request: Request, row: OwnSession, deps: Deps, asked: Annotated[_Sides, Query()]
) -> DifferenceCurve:
    """Decode both videos as far as both go; what was found out is kept, and answered at once the next time.

    A final that is transparent, or lasts more than two minutes, is refused (422, NOT_COMPARED).
    """
    one, other = await _both(deps, row, asked)
    for side in (one, other):
        _check_comparable(side)
    fps = max(one.fps, other.fps)
    videos = ComparedVideos(video_key_of(one.job), video_key_of(other.job), fps=fps)
    comparing = cast(Comparing, request.app.state.comparing)
    key = comparison_key(row.user_id, row.project_id, row.id, videos.digest)
    hold = partial(deps.store.hold, row.user_id, holder=row.id)
    values = await comparing.values(deps.storage, videos, user_id=row.user_id, key=key, hold=hold)
    return DifferenceCurve(fps=fps, values=values)


async def _both(deps: ApiDeps, row: SessionRecord, asked: _Sides) -> tuple[_Side, _Side]:
    return await _side(deps, row, asked.a), await _side(deps, row, asked.b)


async def _side(deps: ApiDeps, row: SessionRecord, named: str) -> _Side:
    if named.startswith(_JOB):
        job = await finished_render(deps, row, None, named)
        return _Side(row, await version_filmed(deps.store, row.id, job), job)
    if not named.startswith(_SESSION):
        version = await deps.store.version(row.id, named)
        return _Side(row, version, await deps.store.get_job(version.job_id, user_id=row.user_id))
    other = await deps.store.get_session(named, user_id=row.user_id)
    shown = None if other.state.preview is None else other.state.preview.job_id
    found = [] if shown is None else await deps.store.versions(other.id, limit=1, job_id=shown)
    if not found:
        raise NotFound(f"session {other.id} shows no video yet", code="VIDEO_NOT_READY")
    return _Side(other, found[0], await deps.store.get_job(found[0].job_id, user_id=row.user_id))


def _check_comparable(side: _Side) -> None:
    """Raise InvalidInput where a final is too long to be decoded for a curve, or its colours are not all of it."""
    if side.job.kind != "final":
        return
    what, spec = f"the final {side.job.id}", spec_of(side.job)
    if spec is not None and spec.alpha:
        raise InvalidInput(
            f"{what} is transparent, and its colours are not compared frame by frame: both can be played, or choose "
            "its version",
            code="NOT_COMPARED",
        )
    if side.version.duration_s > _MOST_COMPARED_S:
        raise InvalidInput(
            f"{what} lasts {side.version.duration_s:g} s, and finals are compared frame by frame up to "
            f"{_MOST_COMPARED_S:g} s: both can be played, or choose its version",
            code="NOT_COMPARED",
        )
