from __future__ import annotations

import hashlib
import io
import struct
import subprocess
import wave
from pathlib import Path

import httpx
import pytest
from PIL import Image

from koda_ray.client import KodaClient
from koda_ray.errors import Conflict, InvalidInput, LimitReached, NotFound
from koda_ray.serve.uploads import SNIFF_BYTES, check_type, clean_name, sniff
from koda_ray.wire import CreateTakes

from .test_sessions import PROMPT
from .world import World, world


def picture(kind: str) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(target, kind)
    return target.getvalue()


def sound() -> bytes:
    target = io.BytesIO()
    with wave.open(target, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(struct.pack("<h", 0) * 8000)
    return target.getvalue()


def film(extension: str, folder: Path) -> bytes:
    target = folder / f"film.{extension}"
    command = [
        "ffmpeg",
        "-v",
        "error",
        "-f",
        "lavfi",
        "-i",
        "testsrc=d=0.2:s=32x32",
        "-pix_fmt",
        "yuv420p",
        str(target),
    ]
    subprocess.run(command, check=True, timeout=60)
    return target.read_bytes()


def encoded(extension: str, folder: Path) -> bytes:
    target = folder / f"tone.{extension}"
    command = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=d=0.2", str(target)]
    subprocess.run(command, check=True, timeout=60)
    return target.read_bytes()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_pictures_are_told_by_their_bytes(kind: str) -> None:
    found = sniff(picture(kind)[:SNIFF_BYTES])
    assert found is not None and found.name == f"image/{kind.lower()}" and found.kind == "image"


@pytest.mark.parametrize(
    ("extension", "name"),
    [("mp3", "audio/mpeg"), ("ogg", "audio/ogg"), ("flac", "audio/flac"), ("m4a", "audio/mp4"), ("aac", "audio/aac")],
)
def test_sounds_are_told_by_their_bytes(extension: str, name: str, tmp_path: Path) -> None:
    found = sniff(encoded(extension, tmp_path)[:SNIFF_BYTES])
    assert found is not None and found.name == name and found.kind == "audio"
    wav = sniff(sound())
    assert wav is not None and wav.name == "audio/wav"


@pytest.mark.parametrize(("name", "declared"), [("a", "audio/mp4"), ("a.m4a", None), ("A.M4A", "audio/x-m4a")])
def test_sound_in_the_box_of_a_film_is_a_sound(name: str, declared: str | None) -> None:
    head = b"\x00\x00\x00\x18ftypmp42"
    assert check_type(head, name=name, declared=declared).name == "audio/mp4"


@pytest.mark.parametrize("extension", ["mp4", "webm"])
def test_films_are_told_by_their_bytes(extension: str, tmp_path: Path) -> None:
    found = sniff(film(extension, tmp_path)[:SNIFF_BYTES])
    assert found is not None and found.name == f"video/{extension}" and found.kind == "video"


@pytest.mark.parametrize(
    ("head", "declared", "says"),
    [
        (b"", "image/png", "empty"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'>", "image/png", "SVG"),
        (b"\xef\xbb\xbf<?xml version='1.0'?><svg/>"[3:], None, "SVG"),
        (b"\x89PNG\r\n\x1a\n", "image/svg+xml", "SVG"),
        (b"\x89PNG\r\n\x1a\n", "image/jpeg", "says it is image/jpeg and is image/png"),
        (b"%PDF-1.7", "image/png", "no picture, film or sound"),
        (b"MZ\x90\x00", "application/octet-stream", "no picture, film or sound"),
        (b"<html>", "text/html", "no picture, film or sound"),
        (b"RIFF\x00\x00\x00\x00AVI ", "audio/wav", "no picture, film or sound"),
        (b"\x00\x00\x00\x18ftypisom", "audio/mpeg", "says it is audio/mpeg and is video/mp4"),
        (b"\x00\x00\x00\x14ftypqt  ", "video/quicktime", "no picture, film or sound"),
        (b"\x1a\x45\xdf\xa3\x93\x42\x82\x88matroska", "video/x-matroska", "no picture, film or sound"),
    ],
)
def test_anything_else_is_refused(head: bytes, declared: str | None, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as error:
        check_type(head, name="thing", declared=declared)
    assert error.value.code == "UNSUPPORTED_TYPE"


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("logo.png", "logo.png"),
        ("../../etc/passwd", "passwd.png"),
        ("C:\\Users\\me\\my logo.PNG", "my-logo.png"),
        ("画像.jpeg", "画像.png"),
        ("evil\0\n.svg", "evil.png"),
        ("..", "image.png"),
        ("", "image.png"),
        ("a.tar.gz", "a.tar.png"),
    ],
)
def test_names_are_made_safe(name: str, clean: str) -> None:
    png = sniff(b"\x89PNG\r\n\x1a\n")
    assert png is not None
    assert clean_name(name, png) == clean
    assert len(clean_name("x" * 5000, png)) <= 104


async def test_an_upload_before_the_session(koda: World, client: KodaClient, tmp_path: Path) -> None:
    koda.directory.hold = {"analyze"}
    file = tmp_path / "my logo.png"
    file.write_bytes(picture("PNG"))
    asset = await client.upload(file)
    assert (asset.name, asset.media_type, asset.session_id) == ("my-logo.png", "image/png", None)
    assert asset.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    made = await client.create("Animate this picture", asset_ids=(asset.id,))
    (attached,) = (await client.assets(made.session_id)).assets
    assert (attached.id, attached.session_id) == (asset.id, made.session_id)
    assert (await client.session(made.session_id)).state.asset_ids == (asset.id,)
    record = await koda.store.get_asset(asset.id, user_id="local")
    assert await koda.storage.get(record.key) == file.read_bytes()
    with pytest.raises(Conflict, match="upload the file again"):
        await client.create("Again", asset_ids=(asset.id,))
    assert len((await client.sessions()).sessions) == 1


async def test_a_key_uploads_a_file_once_though_its_answer_was_lost(
    koda: World, client: KodaClient, tmp_path: Path
) -> None:
    koda.directory.hold = {"analyze"}
    file, other = tmp_path / "a.png", tmp_path / "b.png"
    file.write_bytes(picture("PNG"))
    other.write_bytes(picture("PNG") + b"more")
    first = await client.upload(file, key="k")
    assert await client.upload(file, key="k") == first
    later = await client.upload(file, key="another")
    assert [each.id for each in (await client.uploads()).assets] == [later.id, first.id]  # as they were made
    with pytest.raises(Conflict, match=f"'k' was used for another file .{first.id}"):
        await client.upload(other, key="k")
    made = await client.create(PROMPT, asset_ids=(first.id,))
    assert (await client.upload(file, key="k")).session_id == made.session_id  # given away by now
    mine = [await koda.store.get_asset(each, user_id="local") for each in (first.id, later.id)]
    prefix = mine[0].key.split("/assets/")[0]
    assert await koda.storage.list(f"{prefix}/assets") == sorted(each.key for each in mine)
    await client.remove_upload(later.id)
    assert (await client.upload(file, key="another")).id != later.id  # what was removed is stored anew


async def test_a_key_is_answered_as_the_first_time_where_no_more_may_be_stored(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(picture("PNG"))
    async with world(tmp_path, KODA_USER_STORED_MB=1) as koda, KodaClient(koda.url) as client:
        koda.directory.hold = {"analyze"}
        session_id = (await client.create(PROMPT)).session_id
        first = await client.upload(file, key="k")
        await koda.store.hold("local", {"a checkpoint's file": 1 << 20}, holder=session_id)
        assert await client.upload(file, key="k") == first
        with pytest.raises(LimitReached, match="KODA_USER_STORED_MB"):
            await client.upload(file, key="another")


async def test_a_key_stores_a_file_in_one_project(koda: World, http: httpx.AsyncClient) -> None:
    async def upload(project: str) -> httpx.Response:
        files = {"file": ("a.png", picture("PNG"), "image/png")}
        return await http.post("/v1/assets", files=files, data={"projectId": project}, headers={"Idempotency-Key": "k"})

    first = (await upload("one")).json()
    assert first["projectId"] == "one" and (await upload("one")).json() == first
    refused = await upload("two")
    assert refused.status_code == 409
    assert f"({first['id']}) in the project 'one', which is not 'two'; use a new key" in refused.json()["detail"]
    assert [each.project_id for each in await koda.store.own_assets("local")] == ["one"]


async def test_a_repeat_with_an_asset_is_still_a_repeat(koda: World, client: KodaClient, tmp_path: Path) -> None:
    koda.directory.hold = {"analyze"}
    file = tmp_path / "a.png"
    file.write_bytes(picture("PNG"))
    asset = await client.upload(file)
    first = await client.create(PROMPT, asset_ids=(asset.id,), key="k")
    assert await client.create(PROMPT, asset_ids=(asset.id,), key="k") == first


async def test_each_of_several_takes_has_the_file_that_was_uploaded_once(
    koda: World, client: KodaClient, tmp_path: Path
) -> None:
    koda.directory.hold = {"analyze"}
    file = tmp_path / "a.png"
    file.write_bytes(picture("PNG"))
    asset, other = await client.upload(file), await client.upload(file)
    asked = CreateTakes(prompt=PROMPT, takes=3, asset_ids=(asset.id, other.id))
    made = await client.create_takes(asked, key="k")
    assert await client.create_takes(asked, key="k") == made
    takes = [each.session_id for each in made.sessions]
    ids: set[str] = set()
    for session_id in takes:
        held = (await client.assets(session_id)).assets
        assert (await client.session(session_id)).state.asset_ids == tuple(each.id for each in held)
        assert {(each.name, each.sha256) for each in held} == {(asset.name, asset.sha256)}
        ids |= {each.id for each in held}
    assert len(ids) == 6 and [each.id for each in (await client.assets(takes[0])).assets] == [asset.id, other.id]
    rows = [await koda.store.get_asset(each, user_id="local") for each in sorted(ids)]
    assert len({row.key for row in rows}) == 2, "each is stored once"
    await client.delete(takes[0])
    for session_id in takes[1:]:
        for each in (await client.assets(session_id)).assets:
            assert await client.download_asset(each.id, tmp_path / "back.png") == asset.size_bytes


async def test_takes_take_no_more_of_what_may_be_uploaded_than_their_files_do(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(picture("PNG"))
    async with world(tmp_path, KODA_USER_ASSETS=2) as koda, KodaClient(koda.url) as client:
        koda.directory.hold = {"analyze"}
        asset = await client.upload(file)
        made = await client.create_takes(CreateTakes(prompt=PROMPT, takes=3, asset_ids=(asset.id,)))
        await client.fork(made.sessions[0].session_id)
        assert (await client.usage()).stored_bytes == asset.size_bytes
        other = await client.upload(file)
        with pytest.raises(LimitReached, match="KODA_USER_ASSETS"):
            await client.upload(file)
        await client.remove_upload(other.id)
        await client.upload(file)


async def test_takes_of_a_file_that_is_not_there_or_anothers_are_not_made(
    koda: World, client: KodaClient, tmp_path: Path
) -> None:
    koda.directory.hold = {"analyze"}
    file = tmp_path / "a.png"
    file.write_bytes(picture("PNG"))
    loose, held = await client.upload(file), await client.upload(file)
    await client.create(PROMPT, asset_ids=(held.id,))
    for wrong, error in (("ast_unknown", NotFound), (held.id, Conflict)):
        with pytest.raises(error, match=wrong):
            await client.create_takes(CreateTakes(prompt=PROMPT, takes=2, asset_ids=(loose.id, wrong)))
    assert len((await client.sessions()).sessions) == 1
    assert (await client.asset(loose.id)).session_id is None


async def test_an_upload_for_a_session_that_exists(koda: World, client: KodaClient, tmp_path: Path) -> None:
    koda.directory.hold = {"analyze"}
    file = tmp_path / "beat.wav"
    file.write_bytes(sound())
    made = await client.create(PROMPT)
    asset = await client.upload(file, session_id=made.session_id, media_type="audio/x-wav")
    assert (await client.assets(made.session_id)).assets == (asset,)
    with pytest.raises(NotFound):
        await client.upload(file, session_id="ses_unknown")


async def test_an_asset_that_is_not_there(client: KodaClient) -> None:
    with pytest.raises(NotFound, match="ast_unknown"):
        await client.create(PROMPT, asset_ids=("ast_unknown",))


async def test_refusals_over_http(http: httpx.AsyncClient) -> None:
    svg = {"file": ("a.png", b"<svg onload='alert(1)'/>", "image/png")}
    response = await http.post("/v1/assets", files=svg)
    assert (response.status_code, response.json()["code"]) == (415, "UNSUPPORTED_TYPE")
    assert (await http.post("/v1/assets", data={"x": "y"})).status_code == 422


async def test_an_upload_over_the_limit(tmp_path: Path) -> None:
    async with world(tmp_path, KODA_MAX_BODY_MB=1) as koda, httpx.AsyncClient(base_url=koda.url, timeout=60) as http:
        data = picture("PNG") + bytes(1024 * 1024)
        response = await http.post("/v1/assets", files={"file": ("big.png", data, "image/png")})
        assert (response.status_code, response.json()["code"]) == (413, "BODY_TOO_LARGE")
        data = picture("PNG") + bytes(1000 * 1024)
        assert (await http.post("/v1/assets", files={"file": ("fits.png", data)})).status_code == 201


async def test_two_users_do_not_share_assets(tmp_path: Path) -> None:
    keys = "ada=" + "a" * 32 + ",bob=" + "b" * 32
    file = tmp_path / "a.png"
    file.write_bytes(picture("PNG"))
    async with (
        world(tmp_path, KODA_API_KEYS=keys) as koda,
        KodaClient(koda.url, key="a" * 32) as ada,
        KodaClient(koda.url, key="b" * 32) as bob,
    ):
        asset = await ada.upload(file)
        with pytest.raises(NotFound):
            await bob.create(PROMPT, asset_ids=(asset.id,))


async def test_a_file_is_read_as_what_it_is_and_by_its_owner_alone(tmp_path: Path) -> None:
    keys = "ada=" + "a" * 32 + ",bob=" + "b" * 32
    file = tmp_path / "my logo.png"
    file.write_bytes(picture("PNG"))
    async with (
        world(tmp_path, KODA_API_KEYS=keys) as koda,
        KodaClient(koda.url, key="a" * 32) as ada,
        httpx.AsyncClient(base_url=koda.url, timeout=60) as http,
    ):
        asset = await ada.upload(file)
        assert await ada.asset(asset.id) == asset and asset.file_url == f"/v1/assets/{asset.id}/file"
        assert await ada.download_asset(asset.id, tmp_path / "back.png") == asset.size_bytes
        assert (tmp_path / "back.png").read_bytes() == file.read_bytes()
        bob, mine = {"Authorization": "Bearer " + "b" * 32}, {"Authorization": "Bearer " + "a" * 32}
        for path in (asset.file_url, f"/v1/assets/{asset.id}"):
            assert (await http.get(path, headers=bob)).status_code == 404
            assert (await http.get(path)).status_code == 401
        shown = await http.get(asset.file_url, headers={**mine, "Range": "bytes=1-3"})
        assert (shown.status_code, shown.content, shown.headers["content-type"]) == (206, b"PNG", "image/png")
        assert shown.headers["x-content-type-options"] == "nosniff"
        assert shown.headers["content-disposition"] == 'inline; filename="my-logo.png"'
        saved = await http.get(asset.file_url, params={"download": "true"}, headers=mine)
        assert saved.headers["content-disposition"].startswith("attachment")
        koda.directory.hold = {"analyze"}
        made = await ada.create("Animate this\npicture", asset_ids=(asset.id,))
        (held,) = (await ada.uploads()).assets
        assert (held.session_id, held.session_title) == (made.session_id, "Animate this picture")
        await ada.label(made.session_id, title="Logo")
        assert (await ada.asset(asset.id)).session_title == "Logo"
        with pytest.raises(Conflict, match=made.session_id):
            await ada.remove_upload(asset.id)
