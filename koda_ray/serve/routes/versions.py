"""A session's versions: the previews that it has shown, what a person makes of them, and how they differ.

To go back to one is a command (`rewind`), and another session is made at one by `fork`: its id is a point. None of
what is here wakes anybody.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from koda_ray.serve.context import Deps, OwnSession, User, unpacking_of
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.differing import MOST_FILES, files_that_differ, told_apart
from koda_ray.serve.filmed import scenes_of
from koda_ray.serve.links import Links
from koda_ray.serve.listing import lost_finals
from koda_ray.serve.problem import responses
from koda_ray.serve.routes.files import manifests_at
from koda_ray.serve.stored_pages import no_page
from koda_ray.state.keys import bundle_key
from koda_ray.state.records import CheckpointRecord, SessionRecord
from koda_ray.state.versions import VersionLabel, VersionRecord
from koda_ray.wire import LabelVersion, PreviewLink, VersionDiff, VersionPage, VersionView

__all__ = ["VersionId", "router"]

router = APIRouter(prefix="/v1/sessions/{session_id}/versions", tags=["versions"])
VersionId = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
_Against = Annotated[
    str | None, Query(max_length=64, pattern=r"^[A-Za-z0-9_-]+$", description="Another version; else the one before")
]


@router.get(
    "",
    operation_id="listVersions",
    summary="List a session's versions, newest first",
    responses=responses(401, 404, 422),
)
async def list_versions(
    row: OwnSession,
    deps: Deps,
    limit: Annotated[int, Query(ge=1, le=200, description="Versions in a page")] = 50,
    before: Annotated[int | None, Query(ge=0, le=2**31 - 1, description="`next` of the page before")] = None,
) -> VersionPage:
    """Return every preview that was shown, also those that were left by going back: to each one can be gone."""
    found = await deps.store.versions(row.id, limit=limit + 1, before=before)
    page = found[:limit]
    lost = await lost_finals(deps.store, row.user_id, (each.final_job_id for each in page))
    return VersionPage(
        versions=tuple(_view(row, each, lost) for each in page), next=page[-1].number if len(found) > limit else None
    )


@router.patch(
    "/{version_id}",
    operation_id="labelVersion",
    summary="Give a version a note, or a star",
    responses=responses(401, 404, 413, 422),
)
async def label_version(version_id: VersionId, body: LabelVersion, row: OwnSession, deps: Deps) -> VersionView:
    """Change what you make of it. Wakes nothing, and is no event of the session."""
    note = None if body.note is None else body.note.strip()
    label = VersionLabel(note=note, starred=body.starred)
    version = await deps.store.label_version(row.id, version_id, label)
    return _view(row, version, await lost_finals(deps.store, row.user_id, [version.final_job_id]))


@router.get(
    "/{version_id}/diff",
    operation_id="diffVersion",
    summary="See how a version's files differ from another's",
    responses=responses(401, 404, 413, 422, 429),
)
async def diff_version(
    version_id: VersionId, request: Request, row: OwnSession, user: User, deps: Deps, against: _Against = None
) -> VersionDiff:
    """Return a unified diff for each file that is another one. Files that are no text, long, or many are only named."""
    version = await deps.store.version(row.id, version_id)
    other = await (_one_before(deps, version) if against is None else deps.store.version(row.id, against))
    pointers = [await _pointer(deps, each) for each in (other, version)]
    async with unpacking_of(request).reading(user, lambda most: manifests_at(deps, pointers, most)) as (before, after):
        paths = files_that_differ(before, after)
        files = await told_apart(deps.storage, before, after, paths[:MOST_FILES])
    return VersionDiff(
        version=version.id,
        against=None if other is None else other.id,
        files=files,
        left_out=max(0, len(paths) - MOST_FILES),
    )


@router.post(
    "/{version_id}/player",
    operation_id="openVersion",
    summary="See a version's page",
    responses=responses(401, 404, 422, 429),
)
async def open_version(version_id: VersionId, row: OwnSession, deps: Deps, links: Links) -> PreviewLink:
    """Return where its built page can be seen for an hour, as `openPreview` does; nothing is started, nobody woken."""
    version = await deps.store.version(row.id, version_id)
    if not await deps.storage.exists(bundle_key(row.user_id, version.bundle)):
        raise no_page(f"version {version.number}")
    return links.to_stored(row.id, version.bundle)


async def _one_before(deps: ApiDeps, version: VersionRecord) -> VersionRecord | None:
    found = await deps.store.versions(version.session_id, limit=1, before=version.number)
    return found[0] if found else None


async def _pointer(deps: ApiDeps, version: VersionRecord | None) -> CheckpointRecord | None:
    if version is None or version.checkpoint_id is None:
        return None
    return await deps.store.checkpoint(version.session_id, version.checkpoint_id)


def _view(row: SessionRecord, version: VersionRecord, lost: Collection[str]) -> VersionView:
    final = None if version.final_job_id in lost else version.final_job_id
    base = f"/v1/sessions/{row.id}"
    preview = row.state.preview
    return VersionView(
        id=version.id,
        number=version.number,
        asked=version.asked,
        job_id=version.job_id,
        bundle=version.bundle,
        checkpoint_id=version.checkpoint_id,
        duration=version.duration_s,
        scenes=scenes_of(version),
        video_url=f"{base}/video?job={version.job_id}",
        thumbnail_url=f"{base}/thumbnail?job={version.job_id}",
        final_url=f"{base}/video?job={final}" if final else None,
        note=version.note,
        starred=version.starred,
        current=preview is not None and preview.job_id == version.job_id,
        undone=not version.live,
        created_at=version.created_at,
    )
