"""Pictures and sound that a person brings: checked, stored, and then known to the agents by id."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, File, Form, Response, UploadFile

from koda_ray.serve.context import Deps, OwnSession, User
from koda_ray.serve.problem import responses
from koda_ray.serve.routes.sessions import default_project
from koda_ray.serve.uploads import SNIFF_BYTES, check_type, clean_name
from koda_ray.state.storage import asset_key
from koda_ray.state.store import AssetRecord
from koda_ray.types import new_id, now
from koda_ray.wire import AssetPage, AssetView

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["assets"])
_COPY_BYTES = 1 << 20


@router.post(
    "/assets",
    operation_id="uploadAsset",
    summary="Upload a picture or a sound",
    status_code=201,
    responses=responses(401, 404, 413, 415, 422),
)
async def upload_asset(
    file: Annotated[UploadFile, File(description="PNG, JPEG, GIF, WebP, AVIF, MP3, WAV, Ogg, FLAC, M4A or AAC")],
    user: User,
    deps: Deps,
    response: Response,
    session_id: Annotated[
        str | None, Form(alias="sessionId", max_length=64, description="Give it to a session")
    ] = None,
    project_id: Annotated[
        str | None, Form(alias="projectId", pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Else your own project")
    ] = None,
) -> AssetView:
    """Store a file. Name its id in `assetIds` when making a session, or send `sessionId` for one that exists."""
    head = await file.read(SNIFF_BYTES)
    media_type = check_type(head, name=file.filename or "the file", declared=file.content_type)
    project = project_id or default_project(user)
    if session_id is not None:
        project = (await deps.store.get_session(session_id, user_id=user)).project_id
    await deps.store.ensure_user(user)
    await deps.store.ensure_project(user, project, project)
    asset_id = new_id("ast")
    name = clean_name(file.filename, media_type)
    key = asset_key(user, project, asset_id, name)
    descriptor, temp = tempfile.mkstemp(prefix="koda-upload-")
    try:
        await file.seek(0)
        size, digest = await asyncio.to_thread(_copy, file, descriptor)
        await deps.storage.put_file(key, Path(temp))
    finally:
        os.unlink(temp)
    record = AssetRecord(
        id=asset_id,
        user_id=user,
        project_id=project,
        session_id=session_id,
        name=name,
        media_type=media_type.name,
        size_bytes=size,
        sha256=digest,
        key=key,
        created_at=now(),
    )
    await deps.store.add_asset(record)
    return _view(record)


@router.get(
    "/sessions/{session_id}/assets",
    operation_id="listAssets",
    summary="List a session's uploaded files",
    responses=responses(401, 404, 422),
)
async def list_assets(row: OwnSession, user: User, deps: Deps) -> AssetPage:
    """Return them oldest first."""
    return AssetPage(assets=tuple(_view(record) for record in await deps.store.assets(user_id=user, session_id=row.id)))


def _copy(file: UploadFile, descriptor: int) -> tuple[int, str]:
    digest = hashlib.sha256()
    size = 0
    with os.fdopen(descriptor, "wb") as target:
        while block := file.file.read(_COPY_BYTES):
            digest.update(block)
            size += target.write(block)
    return size, digest.hexdigest()


def _view(record: AssetRecord) -> AssetView:
    return AssetView(
        id=record.id,
        project_id=record.project_id,
        session_id=record.session_id,
        name=record.name,
        media_type=record.media_type,
        size_bytes=record.size_bytes,
        sha256=record.sha256,
        created_at=record.created_at,
    )
