"""Two versions beside each other over HTTP: both sides, and by how much they differ, frame by frame."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.errors import NotFound
from koda_ray.sandbox.scratch import clear_left
from koda_ray.serve import comparing
from koda_ray.serve.comparing import ComparedVideos, Comparing
from koda_ray.serve.routes import comparing as routes
from koda_ray.state.keys import session_prefix, video_key
from koda_ray.state.storage import Storage
from koda_ray.types import FinalFormat, RenderOptions

from .scripted import VIDEO
from .test_sessions import PROMPT, until
from .test_versions import with_versions
from .world import World

pytestmark = pytest.mark.needs("ffmpeg")

FPS, SECONDS = 30, 5
APART = range(60, 90)
"""Frames in which one of the two shows a square."""


def film(path: Path, *, square: bool, fps: int = FPS, size: str = "160x90") -> bytes:
    """Make a film of a picture that stands still; with a square in its middle, in some frames."""
    drawn = f"smptebars=s=320x180:r={fps}:d={SECONDS}"
    if square:
        first, last = (APART.start * fps // FPS, APART.stop * fps // FPS - 1)
        drawn += f",drawbox=x=140:y=70:w=50:h=50:color=white:t=fill:enable='between(n,{first},{last})'"
    drawn += f",scale={size.replace('x', ':')}"
    codec = ["-c:v", "libvpx", "-crf", "8", "-b:v", "4M", "-g", "15"]
    subprocess.run(["ffmpeg", "-y", "-loglevel", "error", "-f", "lavfi", "-i", drawn, *codec, str(path)], check=True)
    return path.read_bytes()


def apart(values: Sequence[float]) -> range:
    """Return the frames that differ, which are one stretch."""
    frames = [frame for frame, value in enumerate(values) if value > max(values) / 2]
    found = range(frames[0], frames[-1] + 1)
    assert list(found) == frames and max(values) > 0.01
    return found


async def two_versions(koda: World, client: KodaClient, folder: Path, *, other_fps: int = FPS) -> tuple[str, str, str]:
    """Make a session whose second version shows a square for a second; return it and both."""
    session_id = await with_versions(koda, client, "a square")
    second, first = (await client.versions(session_id)).versions
    plain = await asyncio.to_thread(film, folder / "plain.webm", square=False)
    square = await asyncio.to_thread(film, folder / "square.webm", square=True, fps=other_fps, size="320x180")
    for version, data in ((first, plain), (second, square)):
        await koda.storage.put(video_key("local", version.job_id, "mp4"), data)
    return session_id, first.id, second.id


async def test_both_sides_are_told_with_what_they_have_in_common(koda: World, client: KodaClient) -> None:
    session_id = await with_versions(koda, client, "red")
    second, first = (await client.versions(session_id)).versions
    pair = await client.compare(session_id, first.id, second.id)
    assert [each.title for each in pair.a.scenes] == ["Drop in", "Bounce", "Rest"]
    assert (pair.a.version_id, pair.b.version_id) == (first.id, second.id)
    assert (pair.a.number, pair.b.number, pair.a.current, pair.b.current) == (1, 2, False, True)
    assert (pair.b.asked, pair.b.video_url) == ("red", second.video_url)
    assert (pair.fps, pair.frames, pair.a.width, pair.a.height) == (60, 300, 1920, 1080)
    other = await with_versions(koda, client)
    across = await client.compare(session_id, first.id, other)
    assert (across.b.session_id, across.b.number, across.b.current) == (other, 1, True)
    activations = koda.directory.activations
    await client.compare(other, session_id, other)
    assert koda.directory.activations == activations


async def test_a_final_is_compared_by_its_job(koda: World, client: KodaClient, http: httpx.AsyncClient) -> None:
    session_id = await with_versions(koda, client)
    forms: tuple[FinalFormat, ...] = ("webm", "mp4")
    for form in forms:
        await client.render(session_id, RenderOptions(format=form, resolution="720p", fps=30))
        await until(client, session_id, "complete")
    newest, before = (await client.page_renders(session=session_id, kinds=["final"])).renders
    koda.directory.bundle = "1" * 64
    await client.changes(session_id, "red")
    await until(client, session_id, "preview")
    second, first = (await client.versions(session_id)).versions
    pair = await client.compare(session_id, before.id, second.id)
    assert (pair.a.kind, pair.a.job_id, pair.a.format) == ("final", before.id, "webm")
    assert (pair.a.version_id, pair.a.number, pair.a.current) == (first.id, 1, False)
    assert pair.a.video_url == f"/v1/sessions/{session_id}/video?job={before.id}"
    assert (pair.b.kind, pair.b.job_id, pair.b.current) == ("preview", second.job_id, True)
    pair = await client.compare(session_id, newest.id, first.job_id)
    assert (pair.a.format, pair.a.number) == ("mp4", 1)
    assert (pair.b.kind, pair.b.version_id) == ("preview", first.id), "a preview has a job, too"
    other = await with_versions(koda, client)
    for named in (newest.id, "job_none"):
        for path in ("compare", "compare/differences"):
            answer = await http.get(f"/v1/sessions/{other}/{path}", params={"a": named, "b": other})
            assert answer.status_code == 404, named


async def test_a_final_is_of_what_it_was_made_for_and_one_that_is_transparent_or_long_has_no_curve(
    koda: World, client: KodaClient, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = await with_versions(koda, client)
    await client.render(session_id, RenderOptions(format="webm", resolution="720p", fps=30, transparent=True))
    await until(client, session_id, "complete")
    await client.changes(session_id, "the same once more")  # another version, whose page is the same
    await until(client, session_id, "preview")
    await client.render(session_id, RenderOptions(resolution="720p", fps=30))
    await until(client, session_id, "complete")
    plain, clear = (await client.page_renders(session=session_id, kinds=["final"])).renders
    second, first = (await client.versions(session_id)).versions
    assert second.bundle == first.bundle
    pair = await client.compare(session_id, clear.id, plain.id)
    assert (pair.a.version_id, pair.b.version_id) == (first.id, second.id)
    assert (pair.a.transparent, pair.b.transparent) == (True, False), "both are played all the same"
    asked = f"/v1/sessions/{session_id}/compare/differences"
    answer = await http.get(asked, params={"a": clear.id, "b": first.id})
    assert (answer.status_code, answer.json()["code"]) == (422, "NOT_COMPARED")
    assert "is transparent" in answer.json()["detail"]
    monkeypatch.setattr(routes, "_MOST_COMPARED_S", 4.0)
    answer = await http.get(asked, params={"a": first.id, "b": plain.id})
    assert (answer.status_code, answer.json()["code"]) == (422, "NOT_COMPARED")
    assert "lasts 5 s, and finals are compared frame by frame up to 4 s" in answer.json()["detail"]


async def test_only_what_is_ones_own_and_shows_something_can_be_compared(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    session_id = await with_versions(koda, client)
    (version,) = (await client.versions(session_id)).versions
    koda.directory.hold = {"analyze"}
    begun = (await client.create(PROMPT)).session_id
    for path in ("compare", "compare/differences"):
        for named in ("ver_none", "ses_none", begun):
            answer = await http.get(f"/v1/sessions/{session_id}/{path}", params={"a": version.id, "b": named})
            assert answer.status_code == 404, named
        assert (await http.get(f"/v1/sessions/{session_id}/{path}?a={version.id}")).status_code == 422
    with pytest.raises(NotFound) as caught:
        await client.compare(session_id, version.id, begun)
    assert caught.value.code == "VIDEO_NOT_READY"


async def test_the_frames_that_differ_are_named(koda: World, client: KodaClient, tmp_path: Path) -> None:
    session_id, first, second = await two_versions(koda, client, tmp_path)
    curve = await client.differences(session_id, first, second)
    assert curve.fps == 60 and len(curve.values) == 60 * SECONDS
    assert apart(curve.values) == range(2 * APART.start, 2 * APART.stop)
    same = await client.differences(session_id, second, second)
    assert set(same.values) == {0.0}


@pytest.mark.full
async def test_videos_of_other_rates_are_compared_where_they_show_the_same_moment(
    koda: World, client: KodaClient, tmp_path: Path
) -> None:
    session_id, first, second = await two_versions(koda, client, tmp_path, other_fps=60)
    curve = await client.differences(session_id, first, second)
    assert apart(curve.values) == range(2 * APART.start, 2 * APART.stop)


@pytest.mark.full
async def test_what_was_found_out_is_kept_with_the_session(koda: World, client: KodaClient, tmp_path: Path) -> None:
    session_id, first, second = await two_versions(koda, client, tmp_path)
    before = await koda.store.stored_bytes("local")
    twice = await asyncio.gather(*(client.differences(session_id, first, second) for _ in range(2)))
    assert twice[0] == twice[1]
    row = await koda.store.get_session(session_id)
    below = f"{session_prefix(row.user_id, row.project_id, row.id)}/comparisons"
    (kept,) = await koda.storage.look_below(below)
    assert await koda.store.counted(row.user_id, below=below) == [kept.key]
    assert await koda.store.stored_bytes(row.user_id) == before + kept.size_bytes
    for version in (await client.versions(session_id)).versions:
        await koda.storage.delete(video_key("local", version.job_id, "mp4"))
    assert await client.differences(session_id, first, second) == twice[0], "nothing is decoded again"
    assert await client.differences(session_id, second, first) == twice[0], "nor the other way round"
    await koda.storage.put(kept.key, b"nonsense")
    for number, version in enumerate((await client.versions(session_id)).versions):
        data = await asyncio.to_thread(film, tmp_path / "again.webm", square=number == 0)
        await koda.storage.put(video_key("local", version.job_id, "mp4"), data)
    assert (await client.differences(session_id, first, second)).values, "what is damaged is found out anew"


async def test_a_video_that_is_none_is_told(koda: World, client: KodaClient, http: httpx.AsyncClient) -> None:
    session_id = await with_versions(koda, client, "red")
    second, first = (await client.versions(session_id)).versions
    assert VIDEO["preview"].startswith(b"preview")
    answer = await http.get(f"/v1/sessions/{session_id}/compare/differences", params={"a": first.id, "b": second.id})
    assert answer.status_code == 422 and answer.json()["code"] == "ENCODE_FAILED"
    assert "rendered again" in answer.json()["detail"] and "/" not in answer.json()["detail"]
    assert (await until(client, session_id, "preview")).preview is not None


async def test_videos_that_lie_elsewhere_are_copied_to_where_a_killed_process_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Far(Storage):
        """Objects that are no files here."""

        def local_path(self, key: str) -> None:
            return None

    seen: list[Path] = []

    async def compared(one: Path, other: Path, *, fps: float) -> tuple[float, ...]:
        assert (one.read_bytes(), other.read_bytes()) == (b"one", b"other")
        assert one.is_relative_to(tmp_path) and clear_left() == [], "nobody clears it while it is used"
        seen.append(one)
        os.close(os.open(one.parent.parent / "lock", os.O_RDONLY))
        return (0.5,)

    async def hold(sizes: Mapping[str, int]) -> None:
        assert sizes == {"c": len(b"[0.5]")}

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(comparing, "frame_differences", compared)
    storage = Far(str(tmp_path / "storage"))
    await storage.put_many({"a": b"one", "b": b"other"})
    videos = ComparedVideos("b", "a", fps=30)
    assert await Comparing().values(storage, videos, user_id="ann", key="c", hold=hold) == (0.5,)
    assert seen and not seen[0].parent.parent.exists()
