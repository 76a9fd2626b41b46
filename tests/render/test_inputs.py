"""Units that another bundle's page showed: taken over where nothing that it asked for differs, never otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koda_ray.errors import QualityRejected
from koda_ray.render import capture
from koda_ray.render.bundle import Bundle, bundle_contents, store_bundle
from koda_ray.render.inputs import ABSENT, MAX_INPUTS, Inputs, Siblings
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.names import unit_hash
from koda_ray.render.protocol import CaptureTask, Hear, JobContext, JoinResult, JoinTask, RenderResult, UnitResult
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.spec import AudioTrack, RenderSpec, plan_units
from koda_ray.render.stored import read_unit, write_unit
from koda_ray.state.keys import bundle_key, unit_key
from koda_ray.state.storage import Storage, Stored
from tests.render.conftest import USER, put_page, small
from tests.render.test_audio import click, wav

PAGE = """<!doctype html>
<style>body { margin: 0; background: #123 } i { position: absolute; width: 8px; height: 8px }</style>
<i></i><script type="module">
import { colour } from "./colour.js";
const dot = document.querySelector("i");
const extra = await fetch("extra.json").then((answer) => answer.ok ? answer.json() : {});
let late;
window.__koda = { version: 1, mode: "export", duration: 3, fps: 10, size: { width: 64, height: 36 },
  ready: Promise.resolve(),
  seek: async (seconds) => {
    if (seconds >= 2 && !late) late = await fetch("late.json").then((answer) => answer.json());
    dot.style.background = late ? late.colour : extra.colour ?? colour;
    dot.style.left = seconds * 10 + "px";
  } };
</script>"""
FILES = {
    "index.html": PAGE.encode(),
    "colour.js": b'export const colour = "#f00";',
    "late.json": b'{"colour": "#0f0"}',
    "music.wav": wav(click(100)),
    "notes.txt": b"asked for by nobody",
}


async def made(storage: Storage, files: Mapping[str, bytes], job_id: str, **fields: Any) -> RenderResult:
    bundle = await put_page(storage, Bundle(dict(files)))
    spec = small(bundle, **{"duration_s": 3.0, **fields})
    async with LocalExecutor(workers=1) as executor:
        return await RenderJob(spec, JobContext(storage=storage, executor=executor, job_id=job_id, user_id=USER)).run()


def adopted(result: RenderResult) -> tuple[object, object]:
    return result.report["unitsAdopted"], result.report["unitsReused"]


@pytest.mark.full
@pytest.mark.browser
@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({"music.wav": wav(click(7_000))}, 3),
        ({"notes.txt": b"other", "more.txt": b"asked for by nobody"}, 3),
        ({"late.json": b'{"colour": "#00f"}'}, 2),  # the last second alone reads it
        ({"colour.js": b'export const colour = "#ff0";'}, 0),
        ({"extra.json": b'{"colour": "#fff"}'}, 0),  # it was asked for, and was not there
        ({"index.html": PAGE.encode() + b"<!-- -->"}, 0),
        (
            {"pictures.css": b"i { background: url(data:image/gif;base64,x) }"},
            0,
        ),  # another script
    ],
)
async def test_what_nobody_asked_for_changes_no_frame(storage: Storage, change: dict[str, bytes], taken: int) -> None:
    first = await made(storage, FILES, "job_1")
    assert adopted(first) == (0, 0)
    changed = FILES | change
    second = await made(storage, changed, "job_2")
    assert adopted(second) == (taken, taken)
    elsewhere = Storage(str(storage.local_path("x") or "").removesuffix("/x") + "-fresh")
    assert second.frame_hash == (await made(elsewhere, changed, "job_3")).frame_hash
    # they are its own now: the other's may go, and a third film of the same bundle finds them under their keys
    for unit in cast("list[dict[str, str]]", first.report["units"]):
        await storage.delete(unit_key(USER, unit["key"]))
    assert adopted(await made(storage, changed, "job_4", duration_s=2.0)) == (0, 2)


@pytest.mark.browser
@pytest.mark.parametrize("is_summed_up", [False, True])
async def test_a_new_soundtrack_has_nothing_captured_again(storage: Storage, is_summed_up: bool) -> None:
    sound, page = (AudioTrack(path="music.wav"),), PAGE
    if is_summed_up:  # where the dot is then depends on the frames before: the page is played
        page = page.replace("seconds * 10 +", "(dot.way = (dot.way ?? 0) + 1) +")
    files = FILES | {"index.html": page.encode()}
    first = await made(storage, files, "job_1", audio=sound, duration_s=5.0)
    second = await made(storage, files | {"music.wav": wav(click(9_000))}, "job_2", audio=sound, duration_s=5.0)
    assert first.report["replayed"] is second.report["replayed"] is is_summed_up
    assert second.report["replayedBecauseOfUnit"] is None  # nothing was sought to find that out
    assert adopted(first) == (0, int(is_summed_up)) and adopted(second) == (5, 5)  # unit 0 is the same in both modes
    assert first.frame_hash == second.frame_hash and first.report["sha256"] != second.report["sha256"]


@pytest.mark.full
@pytest.mark.browser
async def test_what_a_refused_video_was_made_of_is_taken_over_too(storage: Storage) -> None:
    still = FILES | {"index.html": PAGE.replace("seconds * 10", "10").replace("late ? late.colour :", "").encode()}
    with pytest.raises(QualityRejected, match="does not animate"):
        await made(storage, still, "job_1", moves=True)
    assert adopted(await made(storage, still | {"notes.txt": b"other"}, "job_2", moves=False)) == (3, 3)


class Recording(LocalExecutor):
    """Notes what it is given."""

    def __init__(self) -> None:
        super().__init__(workers=1)
        self.captures: list[CaptureTask] = []
        self.joins: list[JoinTask] = []

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        self.captures.append(task)
        await super().capture(task, hear)

    async def join(self, task: JoinTask) -> JoinResult:
        self.joins.append(task)
        return await super().join(task)


@pytest.mark.browser
async def test_what_units_were_drawn_from_lies_in_storage_and_no_job_holds_it(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[UnitResult] = []
    # on a busy machine capturing may take long enough for a look, which finds the third as before
    monkeypatch.setattr(capture, "MISSES", 0)

    async def hear(unit: UnitResult) -> None:
        told.append(unit)

    async with Recording() as executor:
        for number, change in enumerate(
            # captured, taken over, captured beside what was there before, and found
            ({}, {"notes.txt": b"other"}, {"colour.js": b'export const colour = "#f00"; '}, {}),
        ):
            bundle = await put_page(storage, Bundle(FILES | change))
            spec = small(bundle, duration_s=3.0 if number < 3 else 2.0)
            context = JobContext(storage=storage, executor=executor, job_id=f"job_{number}", user_id=USER)
            await RenderJob(spec, context, on_unit=hear).run()
    assert [(unit.reused, unit.adopted) for unit in told[::3]] == [
        (False, False), (True, True), (False, False), (True, False)
    ]  # fmt: skip
    held = [*told, *(unit for task in executor.joins for unit in task.units)]
    assert len(executor.joins) == 4 and all((unit.inputs, unit.evidence) == (None, None) for unit in held)
    (before,) = [task.before for task in executor.captures if task.before]
    assert len(before) == 3 and all(unit.inputs is None and unit.evidence for unit in before)
    for unit in told:
        stored = await read_unit(RetryingStorage(storage), USER, unit.key)
        assert stored is not None and stored.evidence and "colour.js" in (stored.inputs or {})


# --- the rule -----------------------------------------------------------------------------------------------------

NAMES = ("index.html", "a.js", "b.json", "c.png", "d.txt")
BUNDLES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from((b"1", b"2")), min_size=1)


async def shown(storage: Storage, spec: RenderSpec, bundle: Bundle, asked: list[str]) -> None:
    """Store a film's units as a page stores them that asks for some files, whatever it finds."""
    inputs = Inputs(bundle)
    for name in asked:
        inputs.asked(name)
    for unit in plan_units(spec):
        key = unit_hash(spec, unit, environment="e", mode="seek")
        told = UnitResult(
            unit=unit, key=key, mode="seek", frame_hashes=("0" * 32,) * unit.frame_count, before_hash=None,
            sha256="0" * 64, size_bytes=4, worker="w", inputs=inputs.so_far(),
        )  # fmt: skip
        await write_unit(RetryingStorage(storage), USER, told, b"unit")
    await siblings(storage, spec).note()


def siblings(storage: Storage, spec: RenderSpec) -> Siblings:
    return Siblings(storage=RetryingStorage(storage), user_id=USER, spec=spec, environment="e", mode="seek")


@settings(max_examples=40, deadline=None)
@given(one=BUNDLES, other=BUNDLES, asked=st.lists(st.sampled_from((*NAMES, "none.css")), unique=True))
async def test_a_unit_is_taken_over_exactly_where_all_that_was_asked_for_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, one: dict[str, bytes], other: dict[str, bytes], asked: list[str]
) -> None:
    storage = Storage(str(tmp_path_factory.mktemp("s")))
    specs = [small(await store_bundle(storage, USER, Bundle(files)), duration_s=5.0) for files in (one, other)]
    await shown(storage, specs[0], Bundle(one), asked)
    taken = await siblings(storage, specs[1]).adopt(plan_units(specs[1]))
    same = all(one.get(name) == other.get(name) for name in asked)
    alike = Bundle(one).traits == Bundle(other).traits
    assert len(taken) == (5 if same and alike and one != other else 0)
    for unit in taken:
        assert unit.adopted and unit.key == unit_hash(specs[1], unit.unit, environment="e", mode="seek")
        assert await storage.get(unit_key(USER, unit.key)) == b"unit"


class Counted(Storage):
    """Notes what is read and looked below."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.asked: list[str] = []

    async def get(self, key: str) -> bytes:
        self.asked.append("get")
        return await super().get(key)

    async def look_below(self, prefix: str) -> list[Stored]:
        self.asked.append("look")
        return await super().look_below(prefix)


async def test_a_video_without_siblings_is_told_by_one_look_and_one_with_some_looks_once(tmp_path: Path) -> None:
    storage = Counted(str(tmp_path))
    one, other = Bundle({"index.html": b"1"}), Bundle({"index.html": b"1", "x": b"2"})
    spec = small(await store_bundle(storage, USER, one), duration_s=1.0)
    mine = replace(spec, bundle=await store_bundle(storage, USER, other))
    units = plan_units(mine)
    alone = siblings(storage, mine)
    assert not await alone.show(units[-1])
    assert await alone.adopt(units) == await alone.before(units) == []
    assert storage.asked == ["look"]
    await shown(storage, spec, one, ["index.html"])
    storage.asked.clear()
    beside = siblings(storage, mine)
    assert await beside.show(units[-1])
    assert len(await beside.adopt(units)) == len(units)
    assert storage.asked.count("look") == 1
    reads = storage.asked.count("get")
    assert await beside.show(units[-1])
    assert storage.asked.count("get") == reads + 1  # what is in the bundle is known by now


async def test_other_sizes_environments_and_users_share_nothing(storage: Storage) -> None:
    one, other = Bundle({"index.html": b"1"}), Bundle({"index.html": b"1", "x": b"2"})
    spec = small(await store_bundle(storage, USER, one))
    await shown(storage, spec, one, ["index.html"])
    mine = replace(spec, bundle=await store_bundle(storage, USER, other))
    await store_bundle(storage, "bob", other)
    units = plan_units(mine)
    assert await siblings(storage, mine).adopt([]) == []
    assert await siblings(storage, replace(mine, width=128)).adopt(units) == []
    assert await replace(siblings(storage, mine), environment="f").adopt(units) == []
    assert await replace(siblings(storage, mine), mode="replay").adopt(units) == []
    assert await replace(siblings(storage, mine), user_id="bob").adopt(units) == []
    assert len(await siblings(storage, mine).adopt(units)) == len(units)


async def test_a_bundle_whose_contents_nobody_wrote_down_is_compared_with_none(storage: Storage) -> None:
    bundle = Bundle({"index.html": b"1"})
    content_hash = await store_bundle(storage, USER, bundle)
    assert await bundle_contents(RetryingStorage(storage), USER, content_hash) == {**bundle.traits, **bundle.digests}
    await storage.put(bundle_key(USER, content_hash, "contents.json"), b"[")
    assert await bundle_contents(RetryingStorage(storage), USER, content_hash) is None
    assert await siblings(storage, small(content_hash)).adopt(plan_units(small(content_hash))) == []


def test_a_page_that_asks_without_end_is_compared_with_none() -> None:
    inputs = Inputs(Bundle({"index.html": b"1"}))
    for number in range(MAX_INPUTS):
        inputs.asked(f"{number}.js")
    found = inputs.so_far()
    assert found is not None and found["7.js"] == ABSENT and len(found) == MAX_INPUTS + 3
    inputs.asked("one more")
    inputs.asked("index.html")
    assert inputs.so_far() is None
