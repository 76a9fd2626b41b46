"""The project's files, as its newest checkpoint, or an older one, holds them: no sandbox is started to look at them.

What names the files is read in turns, as they are: of a project of many files it takes some hundred megabytes.
"""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from koda_ray.errors import InvalidPath, NotFound, QuotaExceeded
from koda_ray.sandbox.archives import ProjectFiles
from koda_ray.serve.context import Closing, Deps, OwnSession, User, unpacking_of
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.media import Representation, ascii_name, blob_response
from koda_ray.serve.problem import responses
from koda_ray.serve.zipped import zipped
from koda_ray.state.checkpoint import Manifest, check_path, load, read_files
from koda_ray.state.keys import blob_key
from koda_ray.state.records import CheckpointRecord, SessionRecord
from koda_ray.state.storage import Storage
from koda_ray.wire import FileList, FileView

__all__ = ["manifests_at", "router"]

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["files"])
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_TEXT = "text/plain; charset=utf-8"
_MEDIA = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "audio/", "video/", "font/")
_At = Annotated[
    str | None,
    Query(
        max_length=64,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="As of this checkpoint, which a version or the history names; else the newest",
    ),
]
_READ_TIMES = 16
"""How many times a manifest's size is held, at most, while it is read and told (measured: 13 and less)."""


@router.get(
    "/files",
    operation_id="listFiles",
    summary="List the project's files",
    response_model=FileList,
    responses=responses(401, 404, 413, 422, 429),
)
async def list_files(request: Request, row: OwnSession, user: User, deps: Deps, checkpoint: _At = None) -> Response:
    """Return every file of a checkpoint by path; none before the first checkpoint."""
    async with unpacking_of(request).reading(user, lambda most: _manifest(deps, row, most, checkpoint)) as manifest:
        return Response(await asyncio.to_thread(_listed, manifest), media_type="application/json")


@router.get(
    "/files/{path:path}",
    operation_id="readFile",
    summary="Read one file of the project",
    response_class=Response,
    responses={
        200: {"description": "The file", "content": {"application/octet-stream": _BYTES}},
        **responses(401, 404, 413, 416, 422, 429),
    },
)
async def read_file(
    path: str, request: Request, row: OwnSession, user: User, deps: Deps, checkpoint: _At = None
) -> Response:
    """Send its bytes, as text or as a download: a page of the project never runs on this origin."""
    try:
        check_path(path)
    except InvalidPath as error:
        raise InvalidPath(error.message[:300], context={"path": path[:200]}) from error
    async with unpacking_of(request).reading(user, lambda most: _manifest(deps, row, most, checkpoint)) as manifest:
        entry = manifest.files.get(path) if manifest is not None else None
    if entry is None:
        raise NotFound(
            f"session {row.id} has no file {path[:200]!r}; GET /v1/sessions/{row.id}/files lists what there is",
            code="FILE_NOT_FOUND",
        )
    return await blob_response(
        request,
        deps.storage,
        blob_key(row.user_id, entry.sha256),
        Representation(
            media_type=_media_type(path),
            etag=entry.sha256,
            filename=ascii_name(path),
            download=not _media_type(path).startswith("text/plain"),
        ),
    )


@router.get(
    "/source.zip",
    operation_id="getSource",
    summary="Take the project's files with you",
    response_class=Response,
    responses={
        200: {"description": "A zip", "content": {"application/octet-stream": _BYTES}},
        **responses(401, 404, 413, 422, 429),
    },
)
async def source(request: Request, row: OwnSession, deps: Deps, closing: Closing, checkpoint: _At = None) -> Response:
    """Send every file of a checkpoint as a zip: a project that `npm install` and `npx vite` run."""
    return await zipped(lambda most: _project(deps, row, most, checkpoint), f"{row.id}-source.zip", request, closing)


async def manifests_at(
    deps: ApiDeps, pointers: Sequence[CheckpointRecord | None], most_bytes: int
) -> list[Manifest | None]:
    """Read what names the files of checkpoints; None stands for None.

    Raises:
        QuotaExceeded: It takes more than ``most_bytes`` to read them together.
    """
    keys = [None if each is None else each.manifest_key for each in pointers]
    _fits(sum([await _held_bytes(deps.storage, key) for key in keys if key is not None]), most_bytes)
    return [None if key is None else await load(deps.storage, key) for key in keys]


async def _manifest(deps: ApiDeps, row: SessionRecord, most_bytes: int, checkpoint_id: str | None) -> Manifest | None:
    store = deps.store
    pointer = await (
        store.latest_checkpoint(row.id) if checkpoint_id is None else store.checkpoint(row.id, checkpoint_id)
    )
    return (await manifests_at(deps, [pointer], most_bytes))[0]


async def _project(deps: ApiDeps, row: SessionRecord, most_bytes: int, checkpoint_id: str | None) -> ProjectFiles:
    manifest = await _manifest(deps, row, most_bytes, checkpoint_id)
    if manifest is None:
        raise NotFound(f"session {row.id} has no files yet", code="FILE_NOT_FOUND")
    _fits(await _held_bytes(deps.storage, manifest.key) + manifest.total_bytes, most_bytes)
    files = await read_files(deps.storage, manifest)
    return ProjectFiles(files=files, modes=manifest.modes, folders=manifest.folders)


async def _held_bytes(storage: Storage, key: str) -> int:
    return _READ_TIMES * await storage.size(key)


def _fits(size_bytes: int, most_bytes: int) -> None:
    if size_bytes > most_bytes:
        raise QuotaExceeded(
            f"{size_bytes:,} bytes are more than the {most_bytes:,} there is room for",
            context={"sizeBytes": size_bytes, "mostBytes": most_bytes},
        )


def _listed(manifest: Manifest | None) -> bytes:
    if manifest is None:
        return FileList(checkpoint_id=None, created_at=None, files=()).model_dump_json().encode()
    files = tuple(
        FileView(path=path, size_bytes=entry.size, sha256=entry.sha256)
        for path, entry in sorted(manifest.files.items())
    )
    return FileList(checkpoint_id=manifest.id, created_at=manifest.created_at, files=files).model_dump_json().encode()


def _media_type(path: str) -> str:
    if path.endswith((".ts", ".tsx", ".mts", ".cts")):  # to mimetypes, a transport stream
        return _TEXT
    guess = mimetypes.guess_type(path)[0] or ""
    if guess.startswith(_MEDIA):
        return guess
    binary = guess.startswith("application/") and not guess.endswith(("json", "javascript", "xml", "typescript"))
    return "application/octet-stream" if binary else _TEXT
