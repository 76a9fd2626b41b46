"""A sentence becomes a video: the offline director, the session, sandbox, Ray and render of one real server."""

from __future__ import annotations

import asyncio
import colorsys
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image, ImageDraw

from benchmarks.server import Server
from koda_ray.client import KodaClient
from koda_ray.console.exits import Exit
from koda_ray.errors import NotFound
from koda_ray.render.programs import find_program
from koda_ray.types import NodeState, RenderOptions, SessionOptions
from tests import leaks

pytestmark = [
    pytest.mark.full,
    pytest.mark.alone,
    pytest.mark.ray,
    pytest.mark.sandbox,
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="module"),
]

BALL = "Create a bouncing ball animation, blue, smooth, 2 seconds"
SMALL = RenderOptions(resolution="720p", fps=30)
MAGENTA, GREEN = (255, 0, 200), (0, 210, 60)
Picture = np.ndarray
"""(height, width, 3) uint8 RGB."""


@dataclass
class ServedWorld:
    """A running server, its client, and the ``koda`` of somebody in ``folder``."""

    server: Server
    client: KodaClient
    folder: Path

    async def film(self, prompt: str, phase: str, *assets: str) -> NodeState:
        """Make a film through the API, accepting everything, until it rests in a phase."""
        options = SessionOptions(duration=2.0) if assets else None
        session_id = (await self.client.create(prompt, options=options, render=SMALL, asset_ids=assets)).session_id
        state = await self.rests(session_id, "plan")
        while state.phase != phase:
            await self.client.accept(session_id)
            state = await self.rests(session_id, "complete" if state.phase == "preview" else "preview")
        return state

    async def picture(self) -> NodeState:
        """Upload a picture and have it animated."""
        asset = await self.client.upload(self.folder / "halves.png", media_type="image/png")
        return await self.film("animate my picture, smooth", "complete", asset.id)

    async def koda(self, *words: str) -> str:
        """Run ``koda`` as a person does, and return what it printed; its status must be 0."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "koda_ray", *words,
            cwd=self.folder,
            env={**os.environ, "KODA_SERVER": self.server.url, "NO_COLOR": "1"},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await process.communicate()
        assert process.returncode == Exit.DONE, f"{out.decode()}\n{self.server.log()[-3000:]}"
        return out.decode()

    async def until(self, session_id: str, done: Callable[[NodeState], bool], *, limit_s: float = 300) -> NodeState:
        """Poll a session's state until it is as wanted; an error fails at once."""
        deadline = time.monotonic() + limit_s
        while True:
            state = (await self.client.session(session_id)).state
            if done(state):
                return state
            assert state.phase != "error", f"{state.error}\n{self.server.log()[-3000:]}"
            assert time.monotonic() < deadline, f"still {state.phase} owing {state.owes}"
            await asyncio.sleep(0.3)  # each look costs the server, which has work to do, a few milliseconds

    async def rests(self, session_id: str, phase: str) -> NodeState:
        """Wait until a session rests in a phase."""
        return await self.until(session_id, lambda state: state.phase == phase and state.owes is None)

    async def pictures(self, session_id: str, kind: str) -> list[Picture]:
        """Download a video and return its frames."""
        target = self.folder / f"{session_id}-{kind}.mp4"
        await self.client.download(session_id, target, kind="final" if kind == "final" else "preview")
        return frames_of(target)


@dataclass
class Films:
    """What is being made while other tests run."""

    picture: asyncio.Task[NodeState]
    japanese: asyncio.Task[NodeState]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServedWorld]:
    folder = tmp_path_factory.mktemp("served")
    await asyncio.to_thread(folder.chmod, 0o755)
    server = Server(folder, KODA_DIRECTOR="offline")
    leaks.keep(folder)  # its sessions outlive the tests that began them
    photo = Image.new("RGB", (640, 480), MAGENTA)
    ImageDraw.Draw(photo).rectangle((320, 0, 639, 479), fill=GREEN)
    photo.save(folder / "halves.png")
    async with server, KodaClient(server.url) as client:
        yield ServedWorld(server, client, folder)
    sys.stdout.write(server.log()[-8000:])  # shown where a test fails


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def films(served: ServedWorld) -> AsyncIterator[Films]:
    """Films under way, side by side: one builds while another renders."""
    made = Films(
        picture=asyncio.create_task(served.picture()),
        japanese=asyncio.create_task(served.film("春の京都をめぐる静かな旅、滑らかに、2秒", "preview")),
    )
    yield made
    for task in (made.picture, made.japanese):
        task.cancel()
    await asyncio.gather(made.picture, made.japanese, return_exceptions=True)


def facts_of(video: Path) -> tuple[int, int, int, float, str]:
    """(frames, width, height, seconds, frame rate) that ffprobe counts in a video."""
    asked = "stream=nb_read_frames,width,height,r_frame_rate:format=duration"
    words = [find_program("ffprobe"), "-v", "error", "-count_frames", "-select_streams", "v:0", "-show_entries", asked]
    done = subprocess.run([*words, "-of", "json", str(video)], capture_output=True, text=True, check=True, timeout=60)
    found = json.loads(done.stdout)
    stream = found["streams"][0]
    seconds = float(found["format"]["duration"])
    return int(stream["nb_read_frames"]), stream["width"], stream["height"], seconds, stream["r_frame_rate"]


def frames_of(video: Path) -> list[Picture]:
    """Decode every frame of a video."""
    _, width, height, _, _ = facts_of(video)
    words = [find_program("ffmpeg"), "-v", "error", "-i", str(video), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(words, capture_output=True, check=True, timeout=60).stdout
    return list(np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3))


def hue_of(picture: Picture) -> float:
    """Hue in degrees of the picture's most saturated pixels."""
    flat = picture.reshape(-1, 3) / 255
    saturation = flat.max(axis=1) - flat.min(axis=1)
    return colorsys.rgb_to_hsv(*flat[saturation >= np.quantile(saturation, 0.995)].mean(axis=0))[0] * 360


@pytest.mark.quick
@pytest.mark.timeout(1200)
async def test_a_sentence_becomes_a_video_though_its_session_is_killed(served: ServedWorld) -> None:
    prompt = "Create a bouncing ball animation, blue, 1.5 seconds"
    session_id = (await served.client.create(prompt, render=SMALL)).session_id
    state = await served.rests(session_id, "question")
    assert state.question is not None
    await served.client.answer(session_id, option_id=state.question.options[0].id)
    state = await served.rests(session_id, "plan")
    assert state.plan is not None and state.plan.total_duration == 1.5
    await served.client.accept(session_id)
    await served.until(session_id, lambda state: state.execution is not None and bool(state.execution.files))
    killed = await served.server.session_pid(session_id)
    os.kill(killed, signal.SIGKILL)

    state = await served.rests(session_id, "preview")
    assert state.preview is not None
    first = state.preview.job_id
    preview = await served.pictures(session_id, "preview")
    assert len(preview) == 22 and 190 < hue_of(preview[11]) < 260
    await served.client.accept(session_id)
    await served.rests(session_id, "complete")
    video = await served.pictures(session_id, "final")
    assert (len(video), video[0].shape) == (45, (720, 1280, 3))
    assert np.mean(np.abs(video[0].astype(int) - video[22]) > 24) > 0.01, "nothing moves"

    await served.client.say(session_id, "make it red")
    state = await served.rests(session_id, "preview")
    assert state.preview is not None and state.preview.job_id != first
    hue = hue_of((await served.pictures(session_id, "preview"))[11])
    assert hue < 20 or hue > 340
    assert await served.server.session_pid(session_id) != killed

    await served.client.delete(session_id)
    with pytest.raises(NotFound):
        await served.client.session(session_id)


async def test_create_makes_a_video_and_a_change_makes_another(served: ServedWorld) -> None:
    said = await served.koda(
        "create", BALL, "--yes", "--out", "made", "--resolution", "720p", "--fps", "30", "--plain"
    )  # fmt: skip
    assert "offline director: fixed vocabulary, no model" in said
    made = served.folder / "made"
    assert facts_of(made / "video.mp4") == (60, 1280, 720, 2.0, "30/1")
    assert facts_of(made / "preview.mp4") == (30, 640, 360, 2.0, "15/1")
    with Image.open(made / "thumbnail.jpg") as thumbnail:
        assert np.asarray(thumbnail.convert("RGB")).std() > 10, "the thumbnail is blank"
    report = json.loads((made / "report.json").read_text())
    assert (report["prompt"], report["phase"]) == (BALL, "complete")
    assert report["timings"]["toVideoS"] > 0
    assert {"src/App.tsx", "src/theme.ts", "src/scenes/BounceScene.tsx", "package.json"} <= {
        path.relative_to(made / "source").as_posix() for path in (made / "source").rglob("*")
    }
    video = frames_of(made / "video.mp4")
    assert np.mean(np.abs(video[0].astype(int) - video[30]) > 24) > 0.01, "nothing moves"
    before = hue_of(frames_of(made / "preview.mp4")[15])
    assert 190 < before < 260

    session_id = str(report["session"])
    first = (await served.client.session(session_id)).state.preview
    await served.koda("say", session_id, "make it red")
    state = await served.rests(session_id, "preview")
    assert state.preview is not None and first is not None
    assert state.preview.job_id != first.job_id
    after = hue_of((await served.pictures(session_id, "preview"))[15])
    assert after < 20 or after > 340
    assert b"#E5322D" in await served.client.read_file(session_id, "src/theme.ts")


async def test_a_picture_that_was_uploaded_is_seen_in_the_video(served: ServedWorld, films: Films) -> None:
    state = await films.picture
    assert state.plan is not None and "No picture" not in state.plan.notes
    video = await served.pictures(state.session_id, "final")
    assert (len(video), video[0].shape) == (60, (720, 1280, 3))
    middle = video[40]
    columns: list[float] = []
    for colour in (MAGENTA, GREEN):
        near = np.abs(middle.astype(int) - colour).max(axis=-1) < 48
        assert near.mean() > 0.1, f"the picture's {colour} is not there"
        columns.append(np.where(near)[1].mean())
    assert columns[0] < columns[1], "the picture is mirrored"


async def test_a_japanese_prompt_becomes_japanese_words(served: ServedWorld, films: Films) -> None:
    state = await films.japanese
    assert state.plan is not None and state.plan.total_duration == 2
    paths = [file.path for file in (await served.client.files(state.session_id)).files if "/scenes/" in file.path]
    scenes = [(await served.client.read_file(state.session_id, path)).decode() for path in paths]
    assert any("春の京都" in scene for scene in scenes)
    video = await served.pictures(state.session_id, "preview")
    assert len(video) == 30
    shown = video[18].astype(int)
    ink = np.abs(shown - np.median(shown.reshape(-1, 3), axis=0)).sum(axis=-1) > 150
    assert 0.005 < ink.mean() < 0.4, "no words stand on the ground"


async def test_the_impossible_is_refused_with_a_way_out_that_works(served: ServedWorld) -> None:
    made = await served.client.create("a two-hour film about the sea", render=SMALL)
    state = await served.rests(made.session_id, "question")
    assert state.question is not None
    assert "the limit is 5 minutes" in state.question.text
    assert [option.id for option in state.question.options][:2] == ["length-60", "length-30"]
    await served.client.answer(made.session_id, option_id="length-30")
    state = await served.rests(made.session_id, "plan")
    assert state.plan is not None and state.plan.total_duration == 30
    await served.client.accept(made.session_id)
    state = await served.until(made.session_id, lambda state: state.execution is not None)
    assert state.plan_accepted
    await served.client.delete(made.session_id)
