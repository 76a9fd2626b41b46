"""The whole of a render in this process: exact frames whatever the workers, reuse, resume, replay, cancelling."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import pytest

from koda_ray.errors import BrowserCrashed, NotFound, PageError, QualityRejected, RenderError
from koda_ray.render.bundle import Bundle
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.plan import run_of
from koda_ray.render.programs import find_program
from koda_ray.render.protocol import (
    NODE_FULL,
    CaptureTask,
    Environment,
    Hear,
    JobContext,
    JoinResult,
    JoinTask,
    ProbeReport,
    ProbeTask,
    Progress,
    RenderExecutor,
    RenderResult,
    Slots,
    UnitResult,
)
from koda_ray.render.spec import RenderSpec
from koda_ray.state.keys import report_key, sheet_key, thumbnail_key, unit_key, unit_meta_key
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small, until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


class Between:
    """An executor that does something before or after another's captures; the rest is passed on."""

    def __init__(self, inner: RenderExecutor) -> None:
        self.inner = inner
        self.captured: list[CaptureTask] = []
        self.joins = 0

    @property
    def slots(self) -> Slots:
        return self.inner.slots

    async def environment(self) -> Environment:
        return await self.inner.environment()

    async def before(self, task: CaptureTask) -> None:
        """For subclasses."""

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        self.captured.append(task)
        await self.before(task)
        await self.inner.capture(task, hear)

    @property
    def units(self) -> list[int]:
        """The units that were asked for, as often as they were."""
        return sorted(unit.index for task in self.captured for unit in task.units)

    async def join(self, task: JoinTask) -> JoinResult:
        self.joins += 1
        return await self.inner.join(task)

    async def probe(self, task: ProbeTask) -> ProbeReport:
        return await self.inner.probe(task)

    async def cancel_all(self) -> None:
        await self.inner.cancel_all()


async def render(
    spec: RenderSpec,
    storage: Storage,
    executor: RenderExecutor,
    job_id: str = "job_1",
    *,
    attempts: int = 3,
    **heard: object,
) -> RenderResult:
    context = JobContext(storage=storage, executor=executor, job_id=job_id, user_id=USER, attempts=attempts)
    return await RenderJob(spec, context, **heard).run()  # type: ignore[arg-type]


async def forget_videos(storage: Storage) -> None:
    """Let the next job join units again, though their video was made before."""
    await storage.delete_prefix(f"users/{USER}/films")


COUNTING = """<!doctype html><style>body { margin: 0; background: #123 }</style><script>
let shown = 0;
window.__koda = { version: 1, mode: "export", duration: 3, fps: 15, size: { width: 640, height: 360 },
  ready: Promise.resolve(),
  seek: async (seconds) => {
    shown += 1;
    const within = Math.round(seconds * 15) % 15;  // units meet in frames that show nothing of it
    document.body.style.background = within > 3 && within < 12 ? `rgb(${shown * 5}, 80, 40)` : "#123";
  } };
</script>"""


@pytest.mark.full
async def test_a_unit_is_drawn_after_those_of_its_run_also_where_they_are_there(
    storage: Storage, local: LocalExecutor
) -> None:
    bundle = await put_page(storage, Bundle({"index.html": COUNTING.encode()}))
    spec = small(bundle, duration_s=3.0, width=640, height=360, fps=15)
    assert run_of(spec, 2, stepped=False) == 0
    whole = await render(spec, storage, local)
    units = cast("list[dict[str, str]]", whole.report["units"])
    for lost in ((2,), (1,), (0, 2)):
        await forget_videos(storage)
        for index in lost:
            await storage.delete(unit_meta_key(USER, units[index]["key"]))
        again = await render(spec, storage, local, f"job_lost_{sum(lost)}{len(lost)}")
        assert again.report["unitsReused"] == 3 - len(lost) and not again.report["replayed"]
        assert (again.frame_hash, again.report["sha256"]) == (whole.frame_hash, whole.report["sha256"])


@pytest.mark.full
@pytest.mark.parametrize("lengths", [(12.0, 13.0), (13.0, 12.0)])
async def test_a_longer_video_has_the_units_of_a_shorter_one_where_their_pages_begin_at_the_same(
    storage: Storage, local: LocalExecutor, lengths: tuple[float, float]
) -> None:
    """And others where not: the page shows how many frames it was asked for before."""
    bundle = await put_page(storage, Bundle({"index.html": COUNTING.encode()}))
    first, second = (small(bundle, duration_s=each, width=640, height=360, fps=15) for each in lengths)
    await render(first, storage, local, "job_first")
    again = await render(second, storage, local, "job_second")
    assert again.report["unitsReused"] == 9, "of the first twelve, three are begun elsewhere"
    fresh = await render(replace(second, seed=2), storage, local, "job_fresh")
    assert fresh.report["unitsReused"] == 0 and again.frame_hash == fresh.frame_hash


THROWING = COUNTING.replace("shown += 1;", "if (seconds > 1.5) queueMicrotask(() => { throw new Error('too late') });")


@pytest.mark.parametrize("change", [{}, {"notes.txt": b"asked for by nobody"}])
async def test_a_strict_video_has_no_part_in_which_the_page_threw(
    storage: Storage, local: LocalExecutor, change: dict[str, bytes]
) -> None:
    """Neither of its own bundle nor of another one, whose units would be taken over."""
    files = {"index.html": THROWING.encode()}
    lenient = small(await put_page(storage, Bundle(files)), duration_s=3.0, strict=False)
    assert (await render(lenient, storage, local)).report["pageWarnings"]
    strict = replace(lenient, bundle=await put_page(storage, Bundle(files | change)), strict=True)
    with pytest.raises(PageError, match="too late"):
        await render(strict, storage, local, "job_2")
    again = (await render(replace(strict, strict=False), storage, local, "job_3")).report
    assert again["pageWarnings"] and (again["unitsReused"] == 3 if change else again["madeBefore"] == "job_1")


class Shuffled(Between):
    """Captures units in another order than they were asked for."""

    def __init__(self, inner: RenderExecutor, seed: int) -> None:
        super().__init__(inner)
        self.order = random.Random(seed)

    async def before(self, task: CaptureTask) -> None:
        for _ in range(self.order.randrange(4)):
            await asyncio.sleep(0.05)


@pytest.mark.full
async def test_frames_and_bytes_are_the_same_for_any_number_of_workers(storage: Storage) -> None:
    results: dict[str, list[tuple[str, object, int]]] = {"plain": [], "contract": []}
    for seed, workers in enumerate((1, 2, 4)):
        async with LocalExecutor(workers=workers) as executor:
            for page, found in results.items():
                fresh = Storage(f"{storage.url}-{page}-{workers}")
                spec = small(await put_page(fresh, page), duration_s=5.3)
                result = await render(spec, fresh, Shuffled(executor, seed))
                assert result.frame_count == 53
                assert result.report["unstableUnits"] == []
                # the page with the contract sums up steps that seeking leaves out: the job finds out, and plays it
                assert result.report["replayed"] is (page == "contract")
                found.append((result.frame_hash, result.report["sha256"], result.size_bytes))
    for one, two, four in results.values():
        assert one == two == four


@pytest.mark.full
async def test_a_replayed_page_shows_what_playing_it_shows(storage: Storage, local: LocalExecutor) -> None:
    """Frame k of a replayed video is frame k of one that was played from 0 in a single unit."""
    bundle = await put_page(storage, "contract")
    hashes: dict[str, list[str]] = {"whole": [], "units": []}
    for name, duration_s in (("whole", 1.0), ("units", 3.0)):
        units: list[UnitResult] = []

        async def keep(unit: UnitResult, units: list[UnitResult] = units) -> None:
            units.append(unit)

        await render(small(bundle, duration_s=duration_s), storage, local, f"job_{name}", on_unit=keep)
        units.sort(key=lambda unit: unit.unit.start)
        hashes[name] = [digest for unit in units for digest in unit.frame_hashes]
    assert hashes["units"][:10] == hashes["whole"]


@pytest.mark.full
async def test_view_transitions_are_the_same_in_every_unit(storage: Storage) -> None:
    """One begins with a picture of what was painted, on the way to a unit's first frame as well."""
    found: set[object] = set()
    for workers in (1, 3):
        fresh = Storage(f"{storage.url}-{workers}")
        async with LocalExecutor(workers=workers) as executor:
            result = await render(small(await put_page(fresh, "transits"), duration_s=7.0), fresh, executor)
        assert result.report["unstableUnits"] == []
        found.add(result.frame_hash)
    assert len(found) == 1


@pytest.mark.full
async def test_a_layer_that_grows_is_as_sharp_in_every_unit(storage: Storage, local: LocalExecutor) -> None:
    bundle = await put_page(storage, "growing")
    result = await render(small(bundle, duration_s=5.0), storage, local)
    assert result.report["replayed"] is False
    assert result.report["unstableUnits"] == []


async def test_a_second_job_captures_nothing_and_gives_the_same_bytes(storage: Storage, local: LocalExecutor) -> None:
    bundle = await put_page(storage, "plain")
    spec = small(bundle, duration_s=3.0)
    first = await render(spec, storage, local, "job_1")
    again = Between(local)
    await forget_videos(storage)
    second = await render(spec, storage, again, "job_2")
    assert again.captured == []
    assert second.report["unitsReused"] == 3
    assert await storage.get(first.video_key) == await storage.get(second.video_key)
    longer = Between(local)
    await render(small(bundle, duration_s=5.0), storage, longer, "job_3")
    assert longer.units == [3, 4]


async def test_a_job_that_was_stopped_goes_on_where_it_was(storage: Storage, local: LocalExecutor) -> None:
    spec = small(await put_page(storage, "plain"), duration_s=8.0)
    stored: list[int] = []

    async def stop_after_two(unit: UnitResult) -> None:
        stored.append(unit.unit.index)
        if len(stored) == 2:
            running.cancel()

    running = asyncio.create_task(render(spec, storage, local, on_unit=stop_after_two))
    with pytest.raises(asyncio.CancelledError):
        await running
    resumed = Between(local)
    result = await render(spec, storage, resumed)
    assert result.frame_count == 80
    assert 1 <= len(resumed.units) <= 6
    assert not set(resumed.units) & set(stored)


async def test_torn_units_are_found_and_made_again(storage: Storage, local: LocalExecutor) -> None:
    spec = small(await put_page(storage, "plain"), duration_s=4.0)
    units: list[UnitResult] = []

    async def keep(unit: UnitResult) -> None:
        units.append(unit)

    whole = await render(spec, storage, local, "job_1", on_unit=keep)
    keys = [unit.key for unit in sorted(units, key=lambda unit: unit.unit.index)]
    half = await storage.get(unit_key(USER, keys[0]))
    await storage.put(unit_key(USER, keys[0]), half[: len(half) // 2])  # cut off: seen by its size
    other = bytearray(await storage.get(unit_key(USER, keys[1])))
    other[len(other) // 2] ^= 255
    await storage.put(unit_key(USER, keys[1]), bytes(other))  # changed: seen by its hash, when joining
    # what a power cut may leave of a description that was not synced
    await storage.put(unit_meta_key(USER, keys[2]), b'{"unit": ')
    meta = await storage.get(unit_meta_key(USER, keys[3]))
    await storage.put(unit_meta_key(USER, keys[3]), bytes(len(meta)))
    again = Between(local)
    await forget_videos(storage)
    repaired = await render(spec, storage, again, "job_2")
    assert again.units == [0, 1, 2, 3]
    assert again.joins == 2
    assert await storage.get(repaired.video_key) == await storage.get(whole.video_key)


class Crashing(Between):
    """Fails the first attempts at one unit as a lost worker would."""

    def __init__(self, inner: RenderExecutor, unit: int, times: int) -> None:
        super().__init__(inner)
        self.unit, self.times = unit, times

    async def before(self, task: CaptureTask) -> None:
        if task.units[0].index == self.unit and task.attempt <= self.times:
            raise BrowserCrashed("the browser ended")


async def test_a_crash_costs_one_attempt_at_its_unit(storage: Storage, local: LocalExecutor) -> None:
    spec = small(await put_page(storage, "plain"), duration_s=4.0)
    crashing = Crashing(local, unit=3, times=2)
    result = await render(spec, storage, crashing)
    assert crashing.units == [0, 1, 2, 3, 3, 3]
    assert result.frame_count == 40
    assert len(list(result.report["failures"])) == 2  # type: ignore[arg-type]


async def test_nodes_without_room_cost_no_attempt(storage: Storage, local: LocalExecutor) -> None:
    """Each says so before it has tried anything, and there is one less to ask."""

    class Full(Between):
        """As if five nodes, asked one after the other, had no room on their disks."""

        asked = 0

        async def before(self, task: CaptureTask) -> None:
            if task.units[0].index == 3 and self.asked < 5:
                self.asked += 1
                raise RenderError("its disk has no room", code=NODE_FULL, retryable=True)

    spec = small(await put_page(storage, "plain"), duration_s=4.0)
    result = await render(spec, storage, Full(local), attempts=1)
    assert result.frame_count == 40
    assert len(list(result.report["failures"])) == 5  # type: ignore[arg-type]


async def test_a_video_whose_nodes_are_replaced_is_begun_anew_on_those_that_came(
    storage: Storage, local: LocalExecutor
) -> None:
    class Replaced(Between):
        """As if the nodes that it was begun on had gone, and others had another browser."""

        read = 0

        async def environment(self) -> Environment:
            self.read += 1
            now_there = await super().environment()
            return replace(now_there, fingerprint="of before") if self.read == 1 else now_there

    spec = small(await put_page(storage, "plain"), duration_s=2.0)
    replaced = Replaced(local)
    result = await render(spec, storage, replaced)
    assert (result.frame_count, replaced.read) == (20, 2)
    with pytest.raises(RenderError, match="was begun with of before") as caught:
        await render(spec, storage, Gone(local), job_id="job_gone", attempts=1)
    assert caught.value.code == "OTHER_ENVIRONMENT"


class Gone(Between):
    """What a video is begun with is never there."""

    async def environment(self) -> Environment:
        return replace(await super().environment(), fingerprint="of before")


async def test_a_unit_that_keeps_failing_ends_the_job_with_its_frames(storage: Storage, local: LocalExecutor) -> None:
    spec = small(await put_page(storage, "plain"), duration_s=4.0)
    with pytest.raises(RenderError, match=r"unit 3 \(frames 30 to 39\) failed 2 times.*BROWSER_CRASHED") as caught:
        await render(spec, storage, Crashing(local, unit=3, times=9), attempts=2)
    assert caught.value.code == "BROWSER_CRASHED"
    assert caught.value.context["attempts"] == 2


@pytest.mark.parametrize("form", ["mp4", pytest.param("webm", marks=pytest.mark.full)])
async def test_the_result_is_stored_with_its_report_and_thumbnail(
    storage: Storage, local: LocalExecutor, form: Literal["mp4", "webm"]
) -> None:
    spec = small(await put_page(storage, "plain"), duration_s=2.5, format=form)
    progress: list[Progress] = []

    async def hear(step: Progress) -> None:
        progress.append(step)

    result = await render(spec, storage, local, on_progress=hear)
    assert await storage.size(result.video_key) == result.size_bytes
    assert (await storage.get(result.thumbnail_key)).startswith(b"\xff\xd8")
    assert json.loads(await storage.get(report_key(USER, "job_1"))) == result.report
    assert result.duration_s == 2.5
    percents = [step.percent for step in progress]
    assert percents == sorted(percents)
    assert (percents[0], percents[-1]) == (0.0, 100.0)
    assert [step.stage for step in progress][-2:] == ["uploading", "uploading"]
    assert {"capturing", "joining", "uploading"} <= {step.stage for step in progress}
    assert progress[-1].frames_done == progress[-1].frames_total == 25
    assert progress[-1].seconds_left == 0


@pytest.mark.full
async def test_a_sheet_and_a_thumbnail_decode_only_what_nobody_kept(
    storage: Storage, local: LocalExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a list of units FFmpeg decodes the unit before each frame that it seeks: the file of a long one is sought."""
    asked = tmp_path / "asked"
    shim = tmp_path / "bin/ffmpeg"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {asked}\nexec {find_program("ffmpeg")} "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(shim))
    bundle = await put_page(storage, "plain")
    # what was kept is found with the units; a film of another length shows other frames of those that it shares
    cases = (
        (2.0, "pipe:", 1, 0),
        (2.0, "pipe:", 1, 0),
        (3.0, "units.ffconcat", 1, 1),  # its middle is in the middle of the second unit, not at its beginning
        (12.0, "-ss", 12, 0),  # the third unit is that of 3 seconds
        (36.0, "pipe:", 1, 0),  # shows none that was kept for less
    )
    for duration_s, source, times, thumbnails in cases:
        asked.write_text("")
        await storage.delete_prefix(f"users/{USER}/films")  # made anew of its units, not given again
        spec = small(bundle, duration_s=duration_s)
        result = await render(spec, storage, local)
        assert result.frame_count == duration_s * 10
        for key in (sheet_key(USER, "job_1"), thumbnail_key(USER, "job_1")):
            assert (await storage.get(key)).startswith(b"\xff\xd8")
        lines = asked.read_text().splitlines()
        (sheet,) = [line for line in lines if line.endswith("sheet.jpg")]
        assert sum(line.endswith("thumbnail.jpg") for line in lines) == thumbnails
        named = [each for each in ("pipe:", "units.ffconcat", "-ss") if each in sheet]
        assert (named, sheet.count(source)) == ([source], times)


async def test_kept_pictures_that_a_disk_spoilt_are_made_of_the_video(storage: Storage, local: LocalExecutor) -> None:
    spec = small(await put_page(storage, "plain"), duration_s=2.0)
    await render(spec, storage, local)
    for key in await storage.list(f"users/{USER}/units"):
        if not key.endswith(".json"):
            continue
        meta = json.loads(await storage.get(key))
        meta["cells"] = {place: picture[:-5] + "!" for place, picture in meta["cells"].items()}
        meta["thumbnail"] = meta["thumbnail"] and [meta["thumbnail"][0], "half of it"]
        await storage.put(key, json.dumps(meta).encode())
    await storage.delete_prefix(f"users/{USER}/films")
    again = await render(spec, storage, local)
    assert again.report["unitsReused"] == 2
    for key in (sheet_key(USER, "job_1"), thumbnail_key(USER, "job_1")):
        assert (await storage.get(key)).startswith(b"\xff\xd8")


async def test_cancelling_ends_every_process(storage: Storage, local: LocalExecutor) -> None:
    spec = small(await put_page(storage, "plain"), duration_s=60.0, fps=30)
    counts: list[int] = []

    async def hear(step: Progress) -> None:
        counts.append(step.frames_done)

    running = asyncio.create_task(render(spec, storage, local, on_progress=hear))
    await until(lambda: counts and counts[-1] > 5)
    running.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_a_failing_listener_ends_the_job(storage: Storage, local: LocalExecutor) -> None:
    spec = small(await put_page(storage, "plain"), duration_s=20.0)

    async def fail(step: Progress) -> None:
        raise RuntimeError("the store is fenced")

    with pytest.raises(RuntimeError, match="fenced"):
        await render(spec, storage, local, on_progress=fail)


async def test_a_page_that_does_not_move_is_refused_unless_it_should_not(
    storage: Storage, local: LocalExecutor
) -> None:
    bundle = await put_page(storage, "<!doctype html><body style='background:#fff'>still")
    with pytest.raises(QualityRejected, match="does not animate"):
        await render(small(bundle), storage, local)
    assert (await render(small(bundle, moves=False), storage, local)).frame_count == 10


async def test_a_black_page_is_refused(storage: Storage, local: LocalExecutor) -> None:
    bundle = await put_page(
        storage,
        """<!doctype html><body style='background:#000'><p id=p style='color:#0e0e0e'>x<script>
        setInterval(() => { p.style.marginLeft = performance.now() / 10 + 'px'; }, 100)</script>""",
    )
    with pytest.raises(QualityRejected, match="black throughout"):
        await render(small(bundle), storage, local)


async def test_a_page_that_throws_ends_the_job_at_once_with_its_place(storage: Storage, local: LocalExecutor) -> None:
    page = "<!doctype html><script>\nsetTimeout(() => {\n  throw new Error('lost the plot');\n}, 550);</script>"
    bundle = await put_page(storage, page)
    executor = Between(local)
    with pytest.raises(PageError, match=r"frame 6: Error: lost the plot at index\.html:3") as caught:
        await render(small(bundle), storage, executor)
    assert caught.value.context["frame"] == 6
    assert len(executor.captured) == 1


async def test_an_unknown_bundle_is_not_found(storage: Storage, local: LocalExecutor) -> None:
    with pytest.raises(NotFound, match="build the project first"):
        await render(small("a" * 64), storage, local)
