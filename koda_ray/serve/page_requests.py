"""A page to be rendered and what is wanted of it, as requests bring them: a form with a zip, or JSON with a hash.

The same two ways for one video and for a batch with a video for each row, so they are read in one place. FastAPI does
not read bodies that may be either, so their description is written here too.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import JsonValue, TypeAdapter, ValidationError
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.exceptions import HTTPException

from koda_ray.errors import InvalidInput, NotFound
from koda_ray.render.bundle import bundle_bytes, stored_bundle
from koda_ray.render.options import JobOptions
from koda_ray.render.sources import Page, page_of, unpack_page
from koda_ray.render.spec import AudioTrack
from koda_ray.sandbox.scratch import scratch
from koda_ray.serve.context import disk_of, unpacking_of
from koda_ray.serve.deps import ApiDeps
from koda_ray.state.keys import bundle_key
from koda_ray.wire import CreateBatch, CreateRender, PageOptions, Rows

__all__ = ["MAX_PAGE_JSON_BYTES", "Asked", "body_of", "is_json", "naming", "requested"]

MAX_PAGE_JSON_BYTES = 2 * 1024 * 1024
"""Limit of what is not the zip: options, and the rows of a batch."""
_REF = "#/components/schemas/"
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a request asks for; ``rows`` are the data of a batch's videos, none for a single one."""

    page: Page
    options: JobOptions
    rows: tuple[dict[str, JsonValue], ...] = ()


def body_of(model: str) -> dict[str, Any]:
    """Describe a request's body: ``model`` as JSON, or a form with its fields and a zip in place of the bundle."""
    fields: dict[str, Any] = {
        "file": {"type": "string", "format": "binary", "description": "A zip of a built page"},
        "options": {"$ref": f"{_REF}PageOptions"},
    }
    if model == "CreateBatch":
        fields["rows"] = {"$ref": f"{_REF}Rows"}
    form = {
        "schema": {
            "type": "object",
            "required": [name for name in fields if name != "options"],
            "properties": fields,
        },
        "encoding": {
            name: {"contentType": "application/zip" if name == "file" else "application/json"} for name in fields
        },
    }
    return {
        "required": True,
        "content": {"multipart/form-data": form, "application/json": {"schema": {"$ref": f"{_REF}{model}"}}},
    }


def is_json(headers: Headers) -> bool:
    """Whether a request's body names a stored page, and has no zip: it is read as a whole, and may be no longer."""
    return _kind(headers) == "application/json"


def _kind(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


@contextmanager
def naming(other: str | None = None) -> Generator[None]:
    """Have what is refused be named as the request names it: as an option of its, or else as ``other``."""
    try:
        yield
    except InvalidInput as error:
        option = error.context.get("field")
        if option is not None:
            error.context["field"] = f"options.{option}"
        elif other is not None:
            error.context["field"] = other
        raise


@asynccontextmanager
async def requested(request: Request, deps: ApiDeps, user: str, *, batch: bool = False) -> AsyncGenerator[Asked]:
    """Read a request, and hold what it unpacked for as long as the block runs; ``batch`` says that it must have rows.

    Raises:
        LimitReached: Too much of the user's, or of everybody's, is held at once.
        TooMuchAtOnce: It unpacks to more than one user may have held.
        InvalidInput: Something of it is not valid.
        RequestValidationError: As `InvalidInput`, with the fields that are not.
        InvalidPath: A path in the zip leaves it.
        NotFound: There is no such bundle.
        HTTPException: 413 or 415, as a problem document.
    """
    kind = _kind(request.headers)
    unpacking = unpacking_of(request)
    if kind == "multipart/form-data":
        names = {"file", "options", "rows"} if batch else {"file", "options"}
        async with request.form(max_files=1, max_fields=4, max_part_size=MAX_PAGE_JSON_BYTES) as form:
            file, text, given = form.get("file"), form.get("options") or "{}", form.get("rows") or "[]"
            if set(form) - names or not isinstance(file, UploadFile) or isinstance(text, UploadFile):
                raise InvalidInput(_misfit(form, names), context={"field": "file"})
            options = _valid(TypeAdapter(PageOptions), text.encode(), what="options")
            rows = _valid(TypeAdapter(Rows), str(given).encode(), what="rows").root if batch else ()
            with naming("file"):
                size = await asyncio.to_thread(bundle_bytes, file.file)
            async with unpacking.holding(user, size):
                with naming("file"):
                    page = await asyncio.to_thread(unpack_page, file.file, entry=options.entry)
                yield _asked(deps, page, options, rows)
    elif kind == "application/json":
        sent = await request.body()
        adapter: TypeAdapter[CreateBatch | CreateRender] = TypeAdapter(CreateBatch if batch else CreateRender)
        body = _valid(adapter, sent, what="body")
        rows = body.rows.root if isinstance(body, CreateBatch) else ()
        key = bundle_key(user, body.bundle)
        try:
            await deps.storage.touch(key)
            size = await deps.storage.size(key)
        except NotFound:
            raise _no_bundle(body.bundle) from None
        # a packed one may be as large: it lies on the disk while it waits for room in memory
        async with disk_of(request).holding(user, size):
            with scratch() as made:
                try:
                    await deps.storage.get_file(key, made / "packed.zip")
                except NotFound:
                    raise _no_bundle(body.bundle) from None
                with (made / "packed.zip").open("rb") as file:
                    async with unpacking.holding(user, await asyncio.to_thread(bundle_bytes, file)):
                        bundle = await asyncio.to_thread(stored_bundle, file, body.bundle)
                        with naming("bundle"):
                            page = page_of(bundle.files, body.options.entry, what="the bundle")
                        yield _asked(deps, page, body.options, rows)
    else:
        raise HTTPException(
            415,
            "send a form (multipart/form-data) with a zip of the page as 'file', or application/json with the bundle "
            f"of one that was uploaded before; this is {kind[:80]!r}",
        )


def _asked(deps: ApiDeps, page: Page, options: PageOptions, rows: tuple[dict[str, JsonValue], ...]) -> Asked:
    with naming():
        wanted = replace(_job_options(options, page), ready_timeout_s=deps.settings.page_ready_timeout_s)
    return Asked(page=page, options=wanted, rows=rows)


def _no_bundle(name: str) -> NotFound:
    return NotFound(f"there is no bundle {name}; upload the page as a zip")


def _misfit(form: FormData, names: set[str]) -> str:
    """Say what a form should have, and what it has."""
    texts = " and ".join(f"{name!r}" for name in sorted(names - {"file"}))
    has = ", ".join(f"{name!r}{' (a file)' * isinstance(part, UploadFile)}" for name, part in form.multi_items())
    return f"send the zip as a file 'file', and {texts} as JSON text; the form has {has or 'nothing'}"


def _valid(adapter: TypeAdapter[T], data: bytes, *, what: str) -> T:
    """Read JSON.

    Raises:
        RequestValidationError: It is not what it should be; all that is wrong with it is told.
    """
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        found: list[dict[str, Any]] = []
        for item in error.errors():
            wrong: dict[str, Any] = {**item, "loc": (what, *item["loc"])}
            if item["type"] == "extra_forbidden":
                wrong |= {"type": "unknown", "msg": _unknown(adapter, item["loc"]), "input": None}
            elif item["type"] == "json_invalid":
                wrong["input"] = None
            found.append(wrong)
        raise RequestValidationError(found) from None


def _unknown(adapter: TypeAdapter[T], place: tuple[int | str, ...]) -> str:
    """Say which fields there are where one is that is not known."""
    schema = adapter.json_schema()
    models = cast("dict[str, Any]", schema.get("$defs", {}))
    node = schema
    for part in place[:-1]:
        node = node["items"] if isinstance(part, int) else node["properties"][part]
        node = models[str(node["$ref"]).rpartition("/")[2]] if "$ref" in node else node
    names, name = list(node["properties"]), str(place[-1])
    close = difflib.get_close_matches(name, names, n=1)
    return (
        f"there is no such field: did you mean {close[0]}?"
        if close
        else f"there is no such field, of {', '.join(names)}"
    )


def _job_options(options: PageOptions, page: Page) -> JobOptions:
    if (options.width is None) != (options.height is None):
        given, lacking = ("width", "height") if options.height is None else ("height", "width")
        raise InvalidInput(
            f"{given} is given alone: give both width and height, or neither", context={"field": lacking}
        )
    for index, sound in enumerate(options.audio):
        if sound.path not in page.bundle.files:
            raise InvalidInput(
                f"audio {sound.path!r} is not in the bundle: put the file into the zip",
                context={"field": f"audio.{index}.path"},
            )
    size = None if options.width is None or options.height is None else (options.width, options.height)
    props = json.dumps(options.props)
    return JobOptions(
        duration_s=options.duration,
        size=size,
        fps=options.fps,
        scale=options.scale,
        preset=options.preset,
        format=options.format,
        alpha=options.alpha,
        crf=options.crf,
        bitrate_kbps=options.bitrate_kbps,
        effort=options.effort,
        seed=options.seed,
        props=props,
        audio=tuple(AudioTrack(**sound.model_dump(by_alias=False)) for sound in options.audio),
        trim=options.trim,
        strict=not options.lenient,
    )
