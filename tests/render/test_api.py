"""Rendering from Python: one call, a real browser, files on disk; and batches that keep their browsers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from koda_ray.errors import InvalidInput, NotFound, PageError, PageNotReady, QualityRejected
from koda_ray.render import api
from koda_ray.render.api import RowDone, render, render_rows
from koda_ray.render.browser import Browser
from koda_ray.render.protocol import Progress
from tests.render.conftest import PAGES

pytestmark = pytest.mark.browser

CARD = """<!doctype html><style>body{margin:0;color:#fff} i{position:absolute;width:20px;height:20px;background:#fff;
animation:go 1s linear infinite} @keyframes go{to{transform:translateX(100px)}}</style><i></i><script>
const card = window.__kodaProps;
if (card.fail) throw new Error("no card for " + card.name);
document.body.style.background = card.colour ?? "#123";
if (card.seconds) window.__koda = { version: 1, mode: "export", duration: card.seconds, fps: 10,
  size: { width: 160, height: 90 }, ready: Promise.resolve(), async seek() {} };
</script>"""
SMALL: dict[str, Any] = {"size": (160, 90), "fps": 10, "duration": 1.0}


@pytest.fixture(autouse=True)
def _storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KODA_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "card.html"
    path.write_text(CARD)
    return path


def stream(path: Path) -> dict[str, Any]:
    command = ["ffprobe", "-v", "error", "-count_packets", "-show_streams", "-of", "json", str(path)]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)["streams"][0]


def corner(path: Path) -> tuple[int, int, int]:
    """The middle pixel of a video's last line."""
    filters = "format=rgb24,crop=1:1:80:88"
    command = ["ffmpeg", "-v", "error", "-i", str(path), "-vf", filters, "-frames:v", "1", "-f", "rawvideo", "pipe:"]
    red, green, blue = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    return red, green, blue


async def test_a_page_with_the_contract_needs_nothing_but_a_name(tmp_path: Path) -> None:
    heard: list[Progress] = []

    async def hear(progress: Progress) -> None:
        heard.append(progress)

    out = tmp_path / "new/folder/video.mp4"
    made = await render(PAGES / "contract", out, on_progress=hear, trim=True, duration=1.0)
    assert (made.width, made.height, made.fps, made.frame_count) == (320, 180, 15, 15)
    found = stream(out)
    assert (found["width"], found["height"], found["r_frame_rate"]) == (320, 180, "15/1")
    assert int(found["nb_read_packets"]) == 15 and out.stat().st_size == made.size_bytes
    assert heard[-1].percent == 100 and [path.name for path in out.parent.iterdir()] == ["video.mp4"]


async def test_what_was_made_is_not_made_again_and_a_sample_is_compared(card: Path, tmp_path: Path) -> None:
    first = await render(card, tmp_path / "a.mp4", **SMALL)
    again = await render(card, tmp_path / "b.mp4", verify=True, report=tmp_path / "about", **SMALL)
    told = {path.name for path in (tmp_path / "about").iterdir()}
    assert told == {"report.json", "report.html", "sheet.jpg", "thumbnail.jpg"}
    assert (first.units_reused, again.units_reused, again.verified_frames) == (0, again.units, 10)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()
    assert first.frame_hash == again.frame_hash and first.job_id != again.job_id


async def test_verifying_finds_what_came_out_different(
    card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = api.verify_sample.__globals__["read_unit"]

    async def another(*given: Any) -> Any:
        unit = await read(*given)
        hashes = list(unit.frame_hashes)
        hashes[3] = "0" * 64
        return type(unit)(**{**vars(unit), "frame_hashes": tuple(hashes)})

    monkeypatch.setitem(api.verify_sample.__globals__, "read_unit", another)
    with pytest.raises(QualityRejected, match="frame 3 came out different"):
        await render(card, tmp_path / "a.mp4", verify=True, **SMALL)


async def test_one_video_per_row_with_warm_browsers_and_a_row_that_fails(
    card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = 0
    launch = Browser.launch

    async def counted(**given: Any) -> Browser:
        nonlocal launched
        launched += 1
        return await launch(**given)

    monkeypatch.setattr(Browser, "launch", counted)
    rows: list[dict[str, Any]] = [
        {"name": "red", "colour": "#f00"},
        {"name": "bad", "fail": True},
        {"name": "green", "colour": "#0f0"},
        {"name": "blue", "colour": "#00f"},
        {"name": "grey", "colour": "#888"},
    ]
    told: list[RowDone] = []
    done = await render_rows(card, str(tmp_path / "card-{name}.mp4"), rows, workers=1, on_done=told.append, **SMALL)
    assert [one.error is None for one in done] == [True, False, True, True, True]
    assert isinstance(done[1].error, PageError) and "no card for bad" in done[1].error.message
    assert sorted(one.index for one in told) == [1, 2, 3, 4, 5] and launched == 1
    for name, place in (("red", 0), ("green", 1), ("blue", 2)):
        pixel = corner(tmp_path / f"card-{name}.mp4")
        assert pixel[place] > 200 and max(pixel[:place] + pixel[place + 1 :]) < 60, (name, pixel)
    assert not (tmp_path / "card-bad.mp4").exists()


async def test_each_row_may_have_a_length_of_its_own(card: Path, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"seconds": 0.5}, {"seconds": 1.5}]
    done = await render_rows(card, str(tmp_path / "{index}.mp4"), rows)
    assert [one.rendered and one.rendered.frame_count for one in done] == [5, 15]


async def test_what_cannot_be_is_said_before_a_browser_starts(
    card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Browser, "launch", None)
    (tmp_path / "folder.mp4").mkdir()
    for out, options, says in [
        ("a.txt", {}, "let it end with .mp4"),
        ("a.mp4", {"format": "webm"}, "named as mp4"),
        ("a.mp4", {"alpha": True}, "cannot be transparent"),
        ("a.mp4", {"preset": "vhs"}, "vhs"),
        ("a.mp4", {"fps": 1000}, "1000"),
        ("a.mp4", {"size": (161, 90)}, "odd"),
        ("a.mp4", {"duration_s": 1}, "no option 'duration_s': give some of duration, fps"),
        ("a.gif", {"audio": [str(card)]}, "no sound"),
        ("folder.mp4", {}, "is a folder"),
        ("card.html/a.mp4", {}, "cannot be written"),
    ]:
        with pytest.raises(InvalidInput, match=says):
            await render(card, tmp_path / out, **{**SMALL, **options})
    with pytest.raises(NotFound):
        await render(tmp_path / "missing", tmp_path / "a.mp4", **SMALL)


async def test_what_the_page_does_wrong_is_told(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<script>throw new Error('not today')</script>")
    with pytest.raises(PageError, match="not today"):
        await render(page, tmp_path / "a.mp4", **SMALL)
    page.write_text("<body style='background: #246'>nobody says how long")
    with pytest.raises(InvalidInput, match="nobody says how long"):
        await render(page, tmp_path / "a.mp4")
    still = await render(page, tmp_path / "a.mp4", **SMALL)
    assert still.still and not still.warnings
    assert (await render(page, tmp_path / "b.mp4", **SMALL)).still  # that was made before
    (tmp_path / "wrong.html").write_text("<body style='background: #246'><script type=module src=app.txt></script>")
    (tmp_path / "app.txt").write_text("document.body.remove()")
    unrun = await render(tmp_path / "wrong.html", tmp_path / "a.mp4", **SMALL)
    assert "Failed to load module script" in unrun.warnings[0]
    page.write_text(
        "<body style='background: #246'><img src='gone.png'><script src='https://cdn.test/gsap.js'></script>"
    )
    told = await render(page, tmp_path / "a.mp4", **SMALL)
    assert any("gone.png" in warning for warning in told.warnings)
    assert any("https://cdn.test/gsap.js" in warning and "no network" in warning for warning in told.warnings)
    page.write_text("<script src='https://cdn.test/gsap.js'></script><script>gsap.to('h1', {x: 1})</script>")
    with pytest.raises(PageError, match=r"gsap is not defined.*before that: https://cdn\.test/gsap\.js was refused"):
        await render(page, tmp_path / "a.mp4", **SMALL)


@pytest.mark.full  # it waits for as long as a page needs that is loaded while the machine is busy
async def test_a_page_that_is_never_ready_is_told(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<script>window.__koda = {version: 1, ready: new Promise(() => {}), seek() {}}</script>")
    with pytest.raises(PageNotReady, match="__koda"):
        await render(page, tmp_path / "a.mp4", ready_timeout_s=40)


async def test_a_cancelled_render_leaves_no_file_and_the_next_one_goes_on(card: Path, tmp_path: Path) -> None:
    out = tmp_path / "long.mp4"
    long: dict[str, Any] = {**SMALL, "duration": 6.0, "fps": 30}
    two = asyncio.Event()

    async def hear(progress: Progress) -> None:
        if progress.frames_done >= 70:
            two.set()

    working = asyncio.create_task(render(card, out, workers=1, on_progress=hear, **long))
    async with asyncio.timeout(60):
        await two.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert not out.exists()
    made = await render(card, out, workers=1, **long)
    assert made.frame_count == 180 and made.units_reused >= 1


def test_the_package_loads_nothing_heavy() -> None:
    code = "import sys, koda_ray.render; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {"pydantic", "asyncio", "ray"} & set(done.stdout.split())
    code = "from koda_ray.render import render, render_sync; print(render.__module__, render_sync.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["koda_ray.render.api"] * 2
