"""The project's files, as its newest checkpoint holds them: no sandbox is started to look at them."""

from __future__ import annotations

import mimetypes

from fastapi import APIRouter, Request, Response

from koda_ray.errors import InvalidPath, NotFound
from koda_ray.sandbox.archives import ProjectFiles
from koda_ray.serve.context import Closing, Deps, OwnSession, User, unpacking_of
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.media import Representation, ascii_name, blob_response
from koda_ray.serve.problem import responses
from koda_ray.serve.zipped import zipped
from koda_ray.state import checkpoint
from koda_ray.state.checkpoint import Manifest
from koda_ray.state.records import SessionRecord
from koda_ray.state.storage import blob_key
from koda_ray.wire import FileList, FileView

__all__ = ["router"]

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["files"])
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_TEXT = "text/plain; charset=utf-8"
_MEDIA = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "audio/", "video/", "font/")


@router.get("/files", operation_id="listFiles", summary="List the project's files", responses=responses(401, 404, 422))
async def list_files(row: OwnSession, deps: Deps) -> FileList:
    """Return every file of the newest checkpoint by path; none before the first checkpoint."""
    manifest = await _manifest(deps, row)
    if manifest is None:
        return FileList(checkpoint_id=None, created_at=None, files=())
    files = tuple(
        FileView(path=path, size_bytes=entry.size, sha256=entry.sha256)
        for path, entry in sorted(manifest.files.items())
    )
    return FileList(checkpoint_id=manifest.id, created_at=manifest.created_at, files=files)


@router.get(
    "/files/{path:path}",
    operation_id="readFile",
    summary="Read one file of the project",
    response_class=Response,
    responses={
        200: {"description": "The file", "content": {"application/octet-stream": _BYTES}},
        **responses(401, 404, 416, 422),
    },
)
async def read_file(path: str, request: Request, row: OwnSession, deps: Deps) -> Response:
    """Send its bytes, as text or as a download: a page of the project never runs on this origin."""
    try:
        checkpoint.check_path(path)
    except InvalidPath as error:
        raise InvalidPath(error.message[:300], context={"path": path[:200]}) from error
    manifest = await _manifest(deps, row)
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
async def source(request: Request, row: OwnSession, user: User, deps: Deps, closing: Closing) -> Response:
    """Send every file of the newest checkpoint as a zip: a project that `npm install` and `npx vite` run."""
    manifest = await _manifest(deps, row)
    if manifest is None:
        raise NotFound(f"session {row.id} has no files yet", code="FILE_NOT_FOUND")
    async with unpacking_of(request).holding(user, manifest.total_bytes):
        files = await checkpoint.read_files(deps.storage, manifest)
        project = ProjectFiles(files=files, modes=manifest.modes, folders=manifest.folders)
        return await zipped(project, f"{row.id}-source.zip", closing)


async def _manifest(deps: ApiDeps, row: SessionRecord) -> Manifest | None:
    pointer = await deps.store.latest_checkpoint(row.id)
    return None if pointer is None else await checkpoint.load(deps.storage, pointer.manifest_key)


def _media_type(path: str) -> str:
    if path.endswith((".ts", ".tsx", ".mts", ".cts")):  # to mimetypes, a transport stream
        return _TEXT
    guess = mimetypes.guess_type(path)[0] or ""
    if guess.startswith(_MEDIA):
        return guess
    binary = guess.startswith("application/") and not guess.endswith(("json", "javascript", "xml", "typescript"))
    return "application/octet-stream" if binary else _TEXT
