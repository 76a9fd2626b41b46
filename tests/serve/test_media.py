from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.client import KodaClient
from koda_ray.errors import InvalidPath, NotFound
from koda_ray.serve.media import ByteRange, parse_range
from koda_ray.state.keys import picture_key, video_key
from koda_ray.state.storage import sha256
from koda_ray.types import RenderOptions

from .scripted import CODE, VIDEO
from .test_sessions import PROMPT, until
from .world import World, reached

FINAL = VIDEO["final"]


@pytest.fixture
async def finished(koda: World, client: KodaClient) -> str:
    koda.directory.asks = False
    made = await client.create(PROMPT)
    await until(client, made.session_id, "plan")
    await client.accept(made.session_id)
    await until(client, made.session_id, "preview")
    await client.accept(made.session_id)
    await until(client, made.session_id, "complete")
    return made.session_id


@pytest.mark.parametrize(
    ("header", "size", "expected"),
    [
        (None, 10, None),
        ("bytes=0-", 10, ByteRange(0, 10)),
        (f"bytes={'9' * 5000}-", 10, "unsatisfiable"),
        (f"bytes=2-{'9' * 5000}", 10, ByteRange(2, 10)),
        (f"bytes=-{'9' * 5000}", 10, ByteRange(0, 10)),
        (f"bytes={'0' * 5000}3-4", 10, ByteRange(3, 5)),
        ("bytes=\u0663-", 10, None),
        ("bytes=2-4", 10, ByteRange(2, 5)),
        ("bytes=9-9", 10, ByteRange(9, 10)),
        ("bytes=2-99", 10, ByteRange(2, 10)),
        ("bytes=-3", 10, ByteRange(7, 10)),
        ("bytes=-99", 10, ByteRange(0, 10)),
        ("bytes=10-", 10, "unsatisfiable"),
        ("bytes=-0", 10, "unsatisfiable"),
        ("bytes=0-", 0, "unsatisfiable"),
        ("bytes=5-2", 10, None),
        ("bytes=-", 10, None),
        ("bytes=0-1,3-4", 10, None),
        ("frames=0-1", 10, None),
        ("bytes=a-b", 10, None),
    ],
)
def test_ranges(header: str | None, size: int, expected: object) -> None:
    assert parse_range(header, size) == expected


@given(st.text(max_size=20) | st.from_regex(r"bytes=\d{0,4}-\d{0,4}", fullmatch=True), st.integers(0, 5000))
def test_a_range_is_never_outside_the_object(header: str, size: int) -> None:
    span = parse_range(header, size)
    if isinstance(span, ByteRange):
        assert 0 <= span.start < span.stop <= size


async def test_a_whole_video(http: httpx.AsyncClient, finished: str) -> None:
    response = await http.get(f"/v1/sessions/{finished}/video")
    assert response.status_code == 200 and response.content == FINAL
    assert response.headers["content-type"] == "video/mp4"
    assert response.headers["content-length"] == str(len(FINAL))
    assert response.headers["accept-ranges"] == "bytes"
    assert response.headers["content-disposition"].startswith("inline")
    head = await http.head(f"/v1/sessions/{finished}/video?download=true")
    assert head.headers["content-length"] == str(len(FINAL)) and head.content == b""
    assert head.headers["content-disposition"].startswith("attachment")


async def test_part_of_a_video(http: httpx.AsyncClient, finished: str) -> None:
    url = f"/v1/sessions/{finished}/video?kind=final"
    middle = await http.get(url, headers={"Range": "bytes=300000-700000"})
    assert middle.status_code == 206 and middle.content == FINAL[300_000:700_001]
    assert middle.headers["content-range"] == f"bytes 300000-700000/{len(FINAL)}"
    assert middle.headers["content-length"] == "400001"
    endless = await http.get(url, headers={"Range": f"bytes={'9' * 5000}-"})
    assert endless.status_code == 416 and len(endless.content) < 1000
    outside = await http.get(url, headers={"Range": f"bytes={len(FINAL)}-"})
    assert outside.status_code == 416
    assert outside.headers["content-range"] == f"bytes */{len(FINAL)}"
    assert outside.json()["code"] == "RANGE_NOT_SATISFIABLE"


async def test_validators(http: httpx.AsyncClient, finished: str) -> None:
    url = f"/v1/sessions/{finished}/video"
    tag = (await http.head(url)).headers["etag"]
    unchanged = await http.get(url, headers={"If-None-Match": tag})
    assert unchanged.status_code == 304 and unchanged.content == b""
    same = await http.get(url, headers={"Range": "bytes=0-9", "If-Range": tag})
    other = await http.get(url, headers={"Range": "bytes=0-9", "If-Range": '"older"'})
    assert (same.status_code, other.status_code, len(other.content)) == (206, 200, len(FINAL))


async def test_preview_and_thumbnail(http: httpx.AsyncClient, finished: str) -> None:
    preview = await http.get(f"/v1/sessions/{finished}/video?kind=preview")
    assert preview.content == VIDEO["preview"]
    picture = await http.get(f"/v1/sessions/{finished}/thumbnail")
    assert picture.headers["content-type"] == "image/jpeg" and picture.content.startswith(b"\xff\xd8\xff")


async def test_a_picture_that_an_agent_took(koda: World, client: KodaClient, http: httpx.AsyncClient) -> None:
    made = await client.create(PROMPT)
    row = await koda.store.get_session(made.session_id)
    data = b"\x89PNG a frame"
    await koda.storage.put(picture_key(row.user_id, row.project_id, row.id, sha256(data)), data)
    found = await http.get(f"/v1/sessions/{row.id}/pictures/{sha256(data)}")
    assert (found.content, found.headers["content-type"]) == (data, "image/png")
    other = await client.create(PROMPT)
    for session_id, digest, status in (
        (other.session_id, sha256(data), 404),
        (row.id, "0" * 64, 404),
        (row.id, "x", 422),
    ):
        assert (await http.get(f"/v1/sessions/{session_id}/pictures/{digest}")).status_code == status


async def test_another_format_is_another_type(
    client: KodaClient, http: httpx.AsyncClient, finished: str, tmp_path: Path
) -> None:
    types = {"webm": "video/webm", "mov": "video/quicktime", "gif": "image/gif"}
    for form, kind in types.items():
        await http.post(f"/v1/sessions/{finished}/render", json={"format": form, "transparent": True})
        await until(client, finished, "complete")
        response = await http.get(f"/v1/sessions/{finished}/video?download=true")
        assert (response.status_code, response.headers["content-type"]) == (200, kind)
        assert response.headers["content-disposition"] == f'attachment; filename="{finished}-final.{form}"'
    finals = (await client.page_renders(session=finished, kinds=["final"])).renders
    assert [(each.format, each.transparent, each.fps) for each in finals] == [
        ("gif", True, 30), ("mov", True, 60), ("webm", True, 60), ("mp4", False, 60)
    ]  # fmt: skip
    for each in finals:  # what it was rendered to before stays
        assert await client.download(finished, tmp_path / each.id, job=each.id) == len(FINAL)


async def test_a_format_that_there_is_not_is_refused_with_the_way_out(
    http: httpx.AsyncClient, client: KodaClient, finished: str
) -> None:
    before = (await client.session(finished)).state
    for asked, says in (
        ({"transparent": True}, "mp4 cannot be transparent: choose webm, mov or gif"),
        ({"format": "gif", "fps": 60}, "fps 60: a gif counts in hundredths of a second"),
        ({"format": "png"}, "'mp4', 'webm', 'mov' or 'gif'"),
    ):
        answer = await http.post(f"/v1/sessions/{finished}/render", json=asked)
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_INPUT")
        assert says in answer.json()["detail"], asked
        made = await http.post("/v1/sessions", json={"prompt": PROMPT, "render": asked})
        assert made.status_code == 422 and says in made.json()["detail"], asked
    assert (await client.session(finished)).state == before


async def test_a_list_plays_what_browsers_play(client: KodaClient, http: httpx.AsyncClient, finished: str) -> None:
    state = (await client.session(finished)).state
    assert state.output is not None and state.preview is not None
    (summary,) = (await client.sessions()).sessions
    assert summary.video_url == f"/v1/sessions/{finished}/video?job={state.output.job_id}"
    await client.render(finished, RenderOptions(format="mov"))
    await until(client, finished, "complete")
    (summary,) = (await client.sessions()).sessions
    assert summary.video_url == f"/v1/sessions/{finished}/video?job={state.preview.job_id}"
    link = await client.share(finished)
    assert (await client.shared(link.token)).format == "mov"


async def test_a_video_that_is_not_there_yet(koda: World, client: KodaClient, http: httpx.AsyncClient) -> None:
    koda.directory.hold = {"analyze"}
    made = await client.create(PROMPT)
    response = await http.get(f"/v1/sessions/{made.session_id}/video")
    assert (response.status_code, response.json()["code"]) == (404, "VIDEO_NOT_READY")
    assert response.json()["retryable"] is True


async def test_a_download_resumes_where_it_broke(
    koda: World, client: KodaClient, finished: str, tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []
    size = await client.download(finished, tmp_path / "out" / "video.mp4", on_bytes=lambda *now: seen.append(now))
    assert size == len(FINAL) and (tmp_path / "out" / "video.mp4").read_bytes() == FINAL
    assert seen[-1] == (len(FINAL), len(FINAL))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["video.mp4"]


async def test_the_projects_files(client: KodaClient, http: httpx.AsyncClient, finished: str) -> None:
    listing = await client.files(finished)
    assert [file.path for file in listing.files] == ["src/scenes/S1.tsx", "src/scenes/Setup.tsx"]
    assert listing.files[0].size_bytes == len(CODE)
    assert await client.read_file(finished, "src/scenes/S1.tsx") == CODE.encode()
    response = await http.get(f"/v1/sessions/{finished}/files/src/scenes/S1.tsx")
    assert response.headers["content-type"].startswith("text/plain")
    assert response.headers["x-content-type-options"] == "nosniff"


async def test_a_page_of_the_project_never_runs_here(
    koda: World, client: KodaClient, http: httpx.AsyncClient, finished: str
) -> None:
    page = b"<script>alert(1)</script>"
    await koda.directory.checkpoint(finished, {"index.html": page, "logo.svg": page, "a.js": page, "日本.bin": page})
    for path in ("index.html", "logo.svg", "a.js", "日本.bin"):
        response = await http.get(f"/v1/sessions/{finished}/files/{path}")
        kind = response.headers["content-type"]
        assert response.content == page
        assert kind.startswith(("text/plain", "application/octet-stream")), (path, kind)


async def test_a_path_that_leaves_the_project_is_refused(client: KodaClient, finished: str) -> None:
    outside = ("/etc/passwd", "../../koda.db", "src/../../koda.db", "..")
    for path in (*outside, ".", "src//a", "a\0b", "x" * 5000, "src/"):
        with pytest.raises(InvalidPath) as error:
            await client.read_file(finished, path)
        assert error.value.context["status"] == 422 and len(error.value.message) < 500, path


async def test_a_file_that_does_not_exist(client: KodaClient, finished: str) -> None:
    with pytest.raises(NotFound) as error:
        await client.read_file(finished, "src/None.tsx")
    assert error.value.code == "FILE_NOT_FOUND"


async def test_jobs(client: KodaClient, finished: str) -> None:
    jobs = (await client.jobs(finished)).jobs
    assert [job.kind for job in jobs] == ["final", "preview"]
    assert (await client.job(jobs[0].id)).status == "succeeded"


async def test_a_file_that_is_open_after_its_reader_has_gone_is_closed(koda: World, finished: str) -> None:
    output = (await koda.store.get_session(finished)).state.output
    path = koda.storage.local_path(video_key("local", output.job_id, "mp4")) if output is not None else None
    assert path is not None
    path.unlink()
    os.mkfifo(path)  # which is not open before somebody writes

    def asked() -> int:
        return sum("run_asgi" in repr(task.get_coro()) for task in asyncio.all_tasks())

    async with (
        httpx.AsyncClient(base_url=koda.url, trust_env=False) as http,
        http.stream("GET", f"/v1/sessions/{finished}/video") as answer,
    ):
        assert answer.status_code == 200 and asked() == 1
    try:
        await reached(lambda: asked() == 0)
        os.close(await asyncio.wait_for(asyncio.to_thread(os.open, path, os.O_WRONLY), 30))  # once it is read, too
    finally:  # a reader that waits would wait for ever
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    links = Path("/proc/self/fd")
    await reached(lambda: str(path) not in {os.path.realpath(link) for link in links.iterdir()})
    gc.collect()  # what nobody closed would be told of here
