"""What is fuzzed: for each target what it is given, and what must hold whatever that is.

A target raises nothing but what `is_refusal` allows; anything else is a crash.
"""

from __future__ import annotations

import asyncio
import io
import json
import struct
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from koda_ray.errors import KodaError
from koda_ray.events import Envelope
from koda_ray.render.bundle import Bundle, bundle_bytes
from koda_ray.render.sourcemap import SourceMaps
from koda_ray.render.sources import unpack_page
from koda_ray.sandbox import frames
from koda_ray.sandbox.archives import read_project, unpack
from koda_ray.sandbox.retold import revive
from koda_ray.serve.problem import error_response
from koda_ray.serve.streams import cursor
from koda_ray.serve.uploads import SNIFF_BYTES, check_type, clean_name
from koda_ray.sse import SseDecoder
from koda_ray.state.checkpoint import Manifest, check_path, load
from koda_ray.state.keys import asset_key
from koda_ray.state.storage import Storage
from koda_ray.types import NodeState, now
from koda_ray.wire import CreateBatch, CreateRender, CreateSession, Fork, Message
from tests.fuzz.nearly import nearly, nearly_json

__all__ = ["TARGETS", "ZIPS", "FuzzTarget", "is_refusal"]


@dataclass(frozen=True)
class FuzzTarget:
    """A reader of what strangers sent: what it is given, what is done with that, and what stands around all of it."""

    given: st.SearchStrategy[Any]
    check: Callable[[Any], None]
    around: Callable[[], AbstractContextManager[None]] = nullcontext


def is_refusal(error: BaseException) -> bool:
    """Whether an error is one that a caller is told: of our tree, or a request that does not validate."""
    return isinstance(error, KodaError | ValidationError)


# --- uploads: what a file is, what it is called, and where it goes

_HEADS = (
    b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF\0\0\0\0WEBP", b"RIFF\0\0\0\0WAVE", b"OggS", b"fLaC",
    b"\0\0\0\x1cftypavif", b"ID3\x04", b"\xff\xf1", b"<?xml version='1.0'?><!-- --><svg>",
)  # fmt: skip
_NAMES = st.one_of(
    st.none(), st.text(st.characters(codec=None), max_size=200), st.sampled_from(("../a.png", ".", "con.", ""))
)


def _upload(given: tuple[bytes, str | None, str | None]) -> None:
    head, name, declared = given
    found = check_type(head[:SNIFF_BYTES], name=name or "the file", declared=declared)
    cleaned = clean_name(name, found)
    assert cleaned.isprintable() and not cleaned.startswith(".") and cleaned.endswith(f".{found.extension}")
    assert asset_key("ann", "p", "ast_1", cleaned).startswith("users/ann/projects/p/assets/ast_1/")


# --- bundles: zips of pages, of projects and of images


def _zip(method: int, *names: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name in names:
            archive.writestr(name, f"<p>{name}</p>" * 20)
    return data.getvalue()


def _wide() -> bytes:
    """Return a zip whose end is a zip64's."""
    plain = _zip(zipfile.ZIP_STORED, "index.html")
    end = plain.rindex(b"PK\x05\x06")
    count, size, at = 1, *struct.unpack_from("<2I", plain, end + 12)
    wide = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, at)
    where = struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    return plain[:end] + wide + where + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, size, at, 0)


ZIPS = (
    _zip(zipfile.ZIP_DEFLATED, "index.html", "assets/a.js"),
    _zip(zipfile.ZIP_STORED, "page/index.html", "page/b/", "page/b/c.css"),
    _wide(),
)


def _zipped(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="koda-fuzz-") as root:
        sent, folder = Path(root, "sent.zip"), Path(root, "below", "folder")
        sent.write_bytes(data)
        folder.mkdir(parents=True)
        readers: tuple[Callable[[], object], ...] = (
            lambda: _bundle(data),
            lambda: unpack_page(io.BytesIO(data)),
            lambda: read_project(sent),
            lambda: unpack(sent, folder),
        )
        for read in readers:
            _may_refuse(read)
        outside = {path for path in Path(root).rglob("*") if folder not in path.parents}
        assert outside == {sent, folder.parent, folder}, outside


def _bundle(data: bytes) -> None:
    bundle = Bundle.unpack(data)
    assert sum(map(len, bundle.files.values())) <= bundle_bytes(data)
    assert Bundle.unpack(bundle.pack()).hash == bundle.hash


def _may_refuse(read: Callable[[], object]) -> None:
    try:
        read()
    except Exception as error:
        if not is_refusal(error):
            raise


# --- checkpoints' manifests

_STATE = NodeState(node_id="nod_1", session_id="ses_1", user_id="ann", project_id="p")
_MANIFEST = Manifest(
    id="ckp_1", user_id="ann", project_id="p", session_id="ses_1", event_seq=3, state=_STATE, created_at=now(),
    files={"src/App.tsx": {"sha256": "a" * 64, "size": 3}, "bin/x": {"sha256": "b" * 64, "size": 1, "mode": 0o755}},  # type: ignore[dict-item]
    folders=("public",), folder_modes={"public": 0o700},
).model_dump_json().encode()  # fmt: skip


def _manifest(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="koda-fuzz-") as root, asyncio.Runner() as runner:
        storage = Storage(root)
        runner.run(storage.put("m.json", data))
        found = runner.run(load(storage, "m.json"))
        assert found.total_bytes >= 0
        for path in (*found.files, *found.folders, *found.folder_modes):
            assert check_path(path) == path


# --- source maps

_MAP = json.dumps(
    {"version": 3, "sources": ["../src/App.tsx", "webpack:///x.ts"], "names": [], "mappings": "AAAA,SAASA;AACT,gBAAgB"}
).encode()
_MAPPED = st.one_of(
    nearly([_MAP]),
    nearly_json(["version", "sources", "sourceRoot", "mappings", "names"]).map(
        lambda value: json.dumps(value).encode()
    ),
)


def _mapped(given: tuple[bytes, int, int]) -> None:
    data, line, column = given
    maps = SourceMaps({"assets/a.js": b"x\n//# sourceMappingURL=a.js.map", "assets/a.js.map": data, "b.js": data})
    paths = ("assets/a.js", "b.js", "none.js")
    maps.read(paths)
    for path in paths:
        found = maps.original(path, line, column)
        assert found is None or not found.file.startswith("../")


# --- the wire: between a sandbox and its owner, and between clients and the API

_MESSAGE = json.dumps({"ok": True, "sizes": [1, 2], "type": "NotFound", "message": "x", "context": {"a": 1}}).encode()
_FRAMES = tuple(
    struct.pack(">I", len(text)) + text
    for text in (
        _MESSAGE,
        b'{"type": "LimitReached", "message": "\\ud800", "context": {"a": NaN, "retryAfterS": "soon", "\\udfff": "x"}}',
        b'{"type": "Conflict", "code": "\\u0000", "context": {"retryAfterS": Infinity, "n": 1e999}, "retryable": {}}',
    )
)
_EVENT = Envelope.model_validate(
    {
        "id": "e",
        "stream_id": "s",
        "seq": 1,
        "type": "message",
        "channel": "control",
        "data": {"text": "x"},
        "epoch": 1,
        "at": now().isoformat(),
    }
).model_dump_json()
_STREAM = f"id: 1\nevent: message\ndata: {_EVENT}\n\n: beat\nid: 2\n\n".encode()
_SESSION = (
    b'{"prompt": "a ball", "options": {"a": 1}, "assetIds": ["ast_1"], "render": {"fps": 30}, "budget": {"tokens": 5}}'
)
_RENDER = b'{"bundle": "%s", "options": {"fps": 30, "duration": 2, "props": {"a": 1}}}' % (b"a" * 64)
_BODIES: tuple[TypeAdapter[Any], ...] = tuple(
    TypeAdapter(model) for model in (CreateSession, CreateRender, CreateBatch, Fork, Message)
)
_WIRE = st.one_of(
    nearly([*_FRAMES, _STREAM, _SESSION, _RENDER]),
    nearly_json(["type", "message", "code", "context", "retryAfterS", "retryable"]).map(
        lambda value: (lambda text: struct.pack(">I", len(text)) + text)(json.dumps(value).encode())
    ),
)


def _wire(data: bytes) -> None:
    for read in (_frame, _events, _bodies):
        _may_refuse(lambda read=read: read(data))


def _frame(data: bytes) -> None:
    async def receive() -> frames.Message:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await frames.receive_object(reader)

    with asyncio.Runner() as runner:
        try:
            message = runner.run(receive())
        except EOFError:
            return
    error = revive(message)
    answered = json.loads(bytes(error_response(error, "/v1/x").body))
    assert answered["code"] == error.code


def _events(data: bytes) -> None:
    decoder = SseDecoder()
    for start in range(0, len(data), 7):
        for last, _, text in decoder.feed(data[start : start + 7]):
            _may_refuse(lambda last=last: cursor(last, None))
            _may_refuse(lambda text=text: Envelope.model_validate_json(text, extra="ignore"))


def _bodies(data: bytes) -> None:
    for adapter in _BODIES:
        _may_refuse(lambda adapter=adapter: adapter.validate_json(data))


TARGETS: dict[str, FuzzTarget] = {
    "uploads": FuzzTarget(
        st.tuples(
            nearly(_HEADS), _NAMES, st.one_of(st.none(), st.sampled_from(("image/png", "image/svg+xml")), st.text())
        ),
        _upload,
    ),
    "bundles": FuzzTarget(nearly(ZIPS), _zipped),
    "manifests": FuzzTarget(nearly([_MANIFEST]), _manifest),
    "sourcemaps": FuzzTarget(st.tuples(_MAPPED, st.integers(-1, 4), st.integers(-1, 80)), _mapped),
    "wire": FuzzTarget(_WIRE, _wire),
}
