"""Pictures, films and sound that a person brings: checked, stored, and then known to the agents by id."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Annotated, cast

from fastapi import APIRouter, Depends, File, Form, Query, Request, Response, UploadFile
from fastapi import Path as InPath

from koda_ray.actors.removal import remove_asset
from koda_ray.cancellation import finish
from koda_ray.errors import InvalidInput, LimitReached
from koda_ray.serve.context import Deps, IdempotencyKey, OwnSession, User, background_of
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.listing import titles_of
from koda_ray.serve.media import REDIRECTED, Representation, ascii_name, blob_response
from koda_ray.serve.once import asset_ending, asset_name, check_same_asset
from koda_ray.serve.problem import responses
from koda_ray.serve.quotas import may_store
from koda_ray.serve.routes.sessions import default_project
from koda_ray.serve.uploads import SNIFF_BYTES, TYPES, check_type, clean_name
from koda_ray.state.keys import asset_key
from koda_ray.state.records import AssetRecord
from koda_ray.types import AssetPurpose, now
from koda_ray.wire import AssetPage, AssetView, OwnAssetPage

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["assets"])
_READ_BYTES = 1 << 20
_BYTES = {"schema": {"type": "string", "format": "binary"}}
AssetId = Annotated[str, InPath(max_length=64, pattern=r"^[A-Za-z0-9_-]+$", description="A file's id")]


async def _own_asset(asset_id: AssetId, user: User, deps: Deps) -> AssetRecord:
    return await deps.store.get_asset(asset_id, user_id=user)


OwnAsset = Annotated[AssetRecord, Depends(_own_asset)]


@dataclass(frozen=True, slots=True)
class _Meant:
    """Who gets an upload, and what for."""

    session_id: str | None
    project_id: str | None
    purpose: AssetPurpose


async def _meant(
    session_id: Annotated[
        str | None, Form(alias="sessionId", max_length=64, description="Give it to a session")
    ] = None,
    project_id: Annotated[
        str | None, Form(alias="projectId", pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Else your own project")
    ] = None,
    purpose: Annotated[
        AssetPurpose, Form(description="A `file` that a film is made with, or the picture of a `note` on one")
    ] = "file",
) -> _Meant:
    if purpose == "note" and session_id is not None:
        raise InvalidInput(
            f"the picture of a note is given to session {session_id!r} by a note to it: leave sessionId out, and name "
            "its id as the picture of that note",
            context={"field": "sessionId"},
        )
    return _Meant(session_id, project_id, purpose)


@router.post(
    "/assets",
    operation_id="uploadAsset",
    summary="Upload a picture, a film or a sound",
    status_code=201,
    responses=responses(401, 404, 409, 413, 415, 422, 429),
)
async def upload_asset(
    file: Annotated[
        UploadFile, File(description="PNG, JPEG, GIF, WebP, AVIF, MP4, WebM, MP3, WAV, Ogg, FLAC, M4A or AAC")
    ],
    user: User,
    deps: Deps,
    once: IdempotencyKey,
    meant: Annotated[_Meant, Depends(_meant)],
) -> AssetView:
    """Store a file. Name its id in `assetIds` when making a session, or send `sessionId` for one that exists.

    The picture of a `note` stands in no list. It is its session's once a note to that names it, and goes with it; one
    that no note names is removed some days after it was uploaded.

    Repeated with the same `Idempotency-Key`, it is stored once, and answered as the first time while it is there,
    also where no more may be stored.
    """
    ending = asset_ending(user, once)
    there = await deps.store.asset_alike(user, once=ending)
    if there is None:
        await may_store(deps, user)
    head = await file.read(SNIFF_BYTES)
    media_type = check_type(head, name=file.filename or "the file", declared=file.content_type)
    project = meant.project_id or default_project(user)
    if meant.session_id is not None:
        project = (await deps.store.get_session(meant.session_id, user_id=user)).project_id
    asset_id = asset_name(ending)
    name = clean_name(file.filename, media_type)
    key = asset_key(user, project, asset_id, name)
    size, digest = await asyncio.to_thread(_look, file)
    record = AssetRecord(
        id=asset_id,
        user_id=user,
        project_id=project,
        session_id=meant.session_id,
        name=name,
        media_type=media_type.name,
        size_bytes=size,
        sha256=digest,
        key=key,
        created_at=now(),
        purpose=meant.purpose,
    )
    stored = there or await _stored(record, file, ending, deps)
    if stored.id != record.id:
        check_same_asset(stored, record, once)
    return _view(stored)


@router.get(
    "/assets",
    operation_id="listOwnAssets",
    summary="List all files that you uploaded, newest first",
    responses=responses(401, 422),
)
async def list_own_assets(
    user: User,
    deps: Deps,
    limit: Annotated[int, Query(ge=1, le=200, description="Files in a page")] = 50,
    before: Annotated[str | None, Query(max_length=64, description="`next` of the page before")] = None,
) -> OwnAssetPage:
    """Return a page; ask again with `before` set to `next` until `next` is null.

    Those that no session has are removed some days after they were uploaded.
    """
    rows = await deps.store.own_assets(user, limit=limit + 1, before=before)
    shown = rows[:limit]
    titles = await titles_of(deps.store, user, (row.session_id for row in shown))
    assets = tuple(_view(row, titles.get(row.session_id or "")) for row in shown)
    return OwnAssetPage(assets=assets, next=shown[-1].id if len(rows) > limit else None)


@router.get(
    "/assets/{asset_id}",
    operation_id="getAsset",
    summary="Read what is known of an uploaded file",
    responses=responses(401, 404, 422),
)
async def get_asset(asset: OwnAsset, user: User, deps: Deps) -> AssetView:
    """Return its name, type and size, and which session has it."""
    titles = await titles_of(deps.store, user, [asset.session_id])
    return _view(asset, titles.get(asset.session_id or ""))


@router.get(
    "/assets/{asset_id}/file",
    operation_id="getAssetFile",
    summary="See, hear or download an uploaded file",
    response_class=Response,
    responses={
        200: {"description": "The file", "content": dict.fromkeys(TYPES, _BYTES)},
        206: {"description": "Some bytes of it", "content": dict.fromkeys(TYPES, _BYTES)},
        304: {"description": "You have it already"},
        **REDIRECTED,
        **responses(401, 404, 416, 422),
    },
)
@router.head("/assets/{asset_id}/file", include_in_schema=False)
async def asset_file(
    request: Request,
    asset: OwnAsset,
    deps: Deps,
    download: Annotated[bool, Query(description="Have a browser save it rather than show it")] = False,
    here: Annotated[
        bool, Query(description="Have it sent from here, however large it is, and not from its bucket")
    ] = False,
) -> Response:
    """Send its bytes, or the part that `Range` asks for, as the type that they were found to be."""
    return await blob_response(
        request,
        deps.storage,
        asset.key,
        Representation(
            media_type=asset.media_type,
            etag=asset.sha256,
            filename=ascii_name(asset.name),
            download=download,
            # a page of ours shows no pictures of other origins
            redirects=deps.settings.redirects_to_bucket
            and not here
            and (download or asset.media_type.startswith("audio/")),
        ),
    )


@router.delete(
    "/assets/{asset_id}",
    operation_id="deleteAsset",
    summary="Delete a file that no session has",
    status_code=204,
    responses=responses(401, 404, 409, 422),
)
async def delete_asset(
    asset_id: AssetId,
    user: User,
    deps: Deps,
    request: Request,
) -> Response:
    """Remove it from storage. What a session works with goes with that session, and is refused here with 409."""
    await background_of(request).finish(remove_asset(asset_id, user, store=deps.store, storage=deps.storage))
    return Response(status_code=204)


@router.get(
    "/sessions/{session_id}/assets",
    operation_id="listAssets",
    summary="List a session's uploaded files",
    responses=responses(401, 404, 422),
)
async def list_assets(row: OwnSession, user: User, deps: Deps) -> AssetPage:
    """Return them oldest first."""
    return AssetPage(assets=tuple(_view(record) for record in await deps.store.assets(user_id=user, session_id=row.id)))


async def _stored(record: AssetRecord, file: UploadFile, ending: str, deps: ApiDeps) -> AssetRecord:
    """Store a file and its row, or return the row that its key made meanwhile, whose file stays alone."""
    await deps.store.ensure_user(record.user_id)
    await deps.store.ensure_project(record.user_id, record.project_id, record.project_id)
    # it has no name on the disk, and is open until it is stored, whoever hangs up; Source: proc(5), /proc/pid/fd
    await finish(deps.storage.put_file(record.key, Path(f"/proc/self/fd/{file.file.fileno()}")))
    limits = deps.settings
    try:
        stored = await deps.store.add_asset(
            record, most=limits.user_assets, most_bytes=limits.user_asset_mb << 20, once=ending
        )
    except LimitReached:
        await deps.storage.delete(record.key)
        raise
    if stored.id != record.id:
        await deps.storage.delete(record.key)
    return stored


def _look(file: UploadFile) -> tuple[int, str]:
    """Return how large a file is and its digest; from here on it lies on the disk."""
    spooled = cast("SpooledTemporaryFile[bytes]", file.file)
    spooled.rollover()
    spooled.seek(0)
    digest = hashlib.sha256()
    while block := spooled.read(_READ_BYTES):
        digest.update(block)
    return spooled.tell(), digest.hexdigest()


def _view(record: AssetRecord, session_title: str | None = None) -> AssetView:
    return AssetView(
        id=record.id,
        project_id=record.project_id,
        session_id=record.session_id,
        session_title=session_title,
        name=record.name,
        media_type=record.media_type,
        size_bytes=record.size_bytes,
        sha256=record.sha256,
        file_url=f"/v1/assets/{record.id}/file",
        created_at=record.created_at,
        purpose=record.purpose,
    )
