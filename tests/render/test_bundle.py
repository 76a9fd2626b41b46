from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from koda_ray.errors import InvalidInput, InvalidPath, NotFound, StorageError
from koda_ray.render.bundle import Bundle, load_bundle, store_bundle
from koda_ray.render.retry import RetryingStorage
from koda_ray.state.keys import bundle_key
from koda_ray.state.storage import Storage
from tests.built import read_folder


def test_the_hash_and_bytes_depend_on_the_files_alone(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "assets").mkdir(parents=True)
    for name, order in (("one", ("index.html", "assets/a.js")), ("two", ("assets/a.js", "index.html"))):
        for path in order:
            (tmp_path / name / path).write_text(path)
    one, two = read_folder(tmp_path / "one"), read_folder(tmp_path / "two")
    assert one.hash == two.hash
    assert one.pack() == two.pack()
    (tmp_path / "two" / "index.html").write_text("other")
    assert read_folder(tmp_path / "two").hash != one.hash


async def test_a_stored_bundle_comes_back_whole(storage: Storage) -> None:
    bundle = Bundle({"index.html": b"<p>", "assets/\u65e5\u672c.js": b"1", "empty": b""})
    content_hash = await store_bundle(storage, "local", bundle)
    assert content_hash == bundle.hash
    assert dict((await load_bundle(RetryingStorage(storage), "local", content_hash)).files) == dict(bundle.files)


async def test_another_users_bundle_is_not_found(storage: Storage) -> None:
    content_hash = await store_bundle(storage, "local", Bundle({"index.html": b""}))
    with pytest.raises(NotFound):
        await load_bundle(RetryingStorage(storage), "other", content_hash)


async def test_a_damaged_bundle_is_refused(storage: Storage) -> None:
    content_hash = await store_bundle(storage, "local", Bundle({"index.html": b"a"}))
    await storage.put(bundle_key("local", content_hash), Bundle({"index.html": b"b"}).pack())
    with pytest.raises(StorageError, match="damaged"):
        await load_bundle(RetryingStorage(storage), "local", content_hash)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a//b", "", "a\\b", "a\0b", "x" * 600])
def test_a_path_that_leaves_the_bundle_is_refused(path: str) -> None:
    with pytest.raises(InvalidPath):
        Bundle({"index.html": b"", path: b""})


def test_a_zip_bomb_is_refused_before_it_unpacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koda_ray.render.bundle.MAX_BUNDLE_BYTES", 1000)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("index.html", b"0" * 10_000_000)
    with pytest.raises(InvalidInput, match="1000 bytes"):
        Bundle.unpack(buffer.getvalue())


def test_what_is_not_a_zip_is_refused() -> None:
    with pytest.raises(InvalidInput, match="zip"):
        Bundle.unpack(b"not a zip")


def test_scripts_are_served_as_scripts_on_every_machine() -> None:
    assert Bundle.content_type("assets/a.js").startswith("text/javascript")
    assert Bundle.content_type("a.woff2") == "font/woff2"
    assert Bundle.content_type("what.is-this") == "application/octet-stream"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_what_is_said_of_pages_and_drawings_is_so_in_every_encoding(encoding: str) -> None:
    page = "<!doctype html><div><template shadowrootMode=closed>x</template></div>".encode(encoding)
    assert Bundle({"index.html": page}).shadows and not Bundle({"index.html": b"<p>"}).shadows
    for inside in ("<animate dur='1s' />", "<style>@keyframes k {}</style>", "<style>@starting-style {}</style>"):
        assert Bundle({"a.svg": f"<svg>{inside}</svg>".encode(encoding)}).draws
    assert not Bundle({"a.svg": "<svg><rect /></svg>".encode(encoding)}).draws
    assert Bundle({"a.css": "p { background: url(data:image/gif;base64,R0) }".encode(encoding)}).moves
