"""Who draws WebGL on the processor: really drawn with, kept, refused in words, measured; and threads that help."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from importlib.resources import files
from pathlib import Path

import psutil
import pytest

from koda_ray.errors import Missing
from koda_ray.render import graphics, rasterizers
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.environment import read_environment
from koda_ray.render.graphics import RASTERIZERS, RasterizerName, software_graphics
from koda_ray.render.isolation import CAPTURE, WorkFolder, captures_at_work
from koda_ray.render.local import LocalExecutor
from koda_ray.render.memory import helper_threads
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from koda_ray.render.programs import find_browser
from koda_ray.render.rasterizers import Measured, choose_rasterizer, fastest, measure_rasterizers

SCENE = Bundle({"index.html": files("koda_ray.render").joinpath("rasterizer_scene.html").read_bytes()})


@pytest.fixture
def own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what is kept of tries, in which nothing is kept yet."""
    monkeypatch.setattr(rasterizers, "own_folder", lambda name: tmp_path)
    return tmp_path


def break_one(monkeypatch: pytest.MonkeyPatch, name: RasterizerName) -> None:
    broken = replace(RASTERIZERS[name], flags=("--use-gl=angle", "--use-angle=none"))
    monkeypatch.setitem(RASTERIZERS, name, broken)


async def picture(browser: Browser, frame: int) -> bytes:
    page = await LoadedPage.open(browser, SCENE, PageSetup(width=320, height=180))
    try:
        await page.wait_ready(30)
        await page.go(frame, Fraction(30))
        return await page.picture(image="png")
    finally:
        await page.close()


@pytest.mark.browser
async def test_the_first_that_draws_is_taken_and_another_time_nothing_is_started(
    own_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = find_browser().path
    first = await choose_rasterizer(binary, why="no GPU")
    assert first.rasterizer in rasterizers.USUAL and first.why == "no GPU"
    monkeypatch.delattr(rasterizers, "draw")
    assert await choose_rasterizer(binary, why="no GPU") == first


@pytest.mark.browser
async def test_what_does_not_draw_is_passed_over_and_refused_by_name(
    own_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = find_browser().path
    break_one(monkeypatch, "llvmpipe")
    assert (await choose_rasterizer(binary)).rasterizer == "swiftshader"
    with pytest.raises(Missing, match=r"KODA_RENDER_GRAPHICS=llvmpipe does not draw here: llvmpipe: no WebGL 2\. Set"):
        await choose_rasterizer(binary, "llvmpipe")
    break_one(monkeypatch, "swiftshader")
    none = await choose_rasterizer(binary, why="no GPU")
    assert none.why == "no GPU; no WebGL; llvmpipe: no WebGL 2; swiftshader: no WebGL 2"


@pytest.mark.browser
async def test_another_that_draws_in_its_place_is_not_taken_for_it(
    own_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RASTERIZERS, "llvmpipe", replace(RASTERIZERS["swiftshader"], name="llvmpipe", renderer="Mesa"))
    with pytest.raises(Missing, match=r"llvmpipe: ANGLE .*SwiftShader.* draws instead"):
        await choose_rasterizer(find_browser().path, "llvmpipe")


@pytest.mark.browser
async def test_of_a_browser_that_does_not_answer_nothing_is_kept(
    own_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = own_tmp / "chromium-headless-shell"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    for path in (own_tmp, *own_tmp.parents[:2]):
        path.chmod(0o755)
    monkeypatch.setattr(rasterizers, "draw", partial(rasterizers.draw, timeout_s=0.5))
    assert (await choose_rasterizer(silent)).rasterizer == "llvmpipe"
    assert list(own_tmp.iterdir()) == [silent]


def test_each_is_part_of_the_fingerprint_and_its_helpers_are_not() -> None:
    each = {name: read_environment(None, software_graphics("", one)) for name, one in RASTERIZERS.items()}
    assert len({environment.fingerprint for environment in each.values()}) == len(RASTERIZERS)
    usual = software_graphics()
    helped = replace(usual, environment=usual.helped_by(4))
    assert helped != usual and helped.identity == usual.identity
    assert read_environment(None, helped).fingerprint == each["llvmpipe"].fingerprint


def test_each_of_mesas_libraries_that_draws_is_part_of_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphics, "_LIBRARY_FOLDERS", (tmp_path,))
    told = {graphics.graphics_libraries.__wrapped__()}
    for name in ("libgallium-25.0.so", "libLLVM-19.so.1", "libvulkan_lvp.so"):
        for size in (3, 4):
            (tmp_path / name).write_bytes(bytes(size))
            told.add(graphics.graphics_libraries.__wrapped__())
    assert len(told) == 7


def took(**cpu_ms: float | None) -> list[Measured]:
    names: dict[str, RasterizerName] = {"usual": "llvmpipe", "wide": "llvmpipe-512", "own": "swiftshader"}
    return [Measured(names[name], cpu_ms=value) for name, value in cpu_ms.items()]


@pytest.mark.parametrize(
    ("measured", "best"),
    [
        (took(usual=100, wide=90, own=300), "llvmpipe-512"),
        (took(usual=100, wide=97, own=300), "llvmpipe"),  # noise
        (took(usual=None, wide=None, own=300), "swiftshader"),
        (took(usual=None, wide=90, own=300), "llvmpipe-512"),
        (took(usual=100, wide=None, own=50), "swiftshader"),
        (took(usual=None), None),
        ([], None),
    ],
)
def test_the_fastest_is_clearly_faster_than_the_usual_one(
    measured: list[Measured], best: RasterizerName | None
) -> None:
    assert fastest(measured) == best
    drawn_too = Measured("llvmpipe", composited=True, cpu_ms=1.0)
    assert fastest([*measured, drawn_too]) == best  # nobody can choose that


@pytest.mark.browser
@pytest.mark.full
async def test_all_that_draw_are_measured_by_a_scene_and_the_others_say_why_not() -> None:
    *found, composited = await measure_rasterizers(find_browser().path)
    measured = {each.name: each for each in found}
    assert measured.keys() == RASTERIZERS.keys() and not any(each.composited for each in found)
    assert composited.composited and (composited.cpu_ms is None) == (measured["llvmpipe"].cpu_ms is None)
    for each in measured.values():
        assert (each.cpu_ms is None) == bool(each.why_not) == (each.wall_ms is None)
        assert each.cpu_ms is None or (each.cpu_ms > 0 and each.renderer)
    assert measured["swiftshader"].cpu_ms
    for name, each in measured.items():
        assert bool(each.html_ms) == (name == "llvmpipe" and each.cpu_ms is not None)
    assert (composited.html_ms is None) == (composited.cpu_ms is None)


@pytest.mark.browser
@pytest.mark.full
def test_the_doctor_measures_when_it_is_asked_to() -> None:
    line = [sys.executable, "-P", "-m", "koda_ray", "doctor", "--measure", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    findings = {each["name"]: each for each in json.loads(done.stdout)["findings"]}
    assert findings.keys() >= {*RASTERIZERS, "llvmpipe, page and all", "choice"}
    assert "ms by the clock" in findings["swiftshader"]["detail"]
    composited = findings["llvmpipe, page and all"]["detail"]
    assert "times as long; only to compare" in composited or "not here" in composited
    assert "KODA_RENDER_GRAPHICS=" in findings["choice"]["detail"] + findings["choice"]["remedy"]


# --- threads that help --------------------------------------------------------------------------------------------


def test_a_page_has_helpers_where_there_are_more_processors_than_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert [helper_threads(pages) for pages in (1, 2, 3, 4, 5, 8, 11)] == [8, 4, 2, 2, 0, 0, 0]


def llvmpipe_threads(pid: int) -> int:
    tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    found = 0
    for process in tree:
        for task in Path(f"/proc/{process.pid}/task").glob("*/comm"):
            with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                found += task.read_text().startswith("llvmpipe-")
    return found


@pytest.mark.browser
async def test_helpers_draw_the_same_picture() -> None:
    if (await choose_rasterizer(find_browser().path)).rasterizer != "llvmpipe":
        pytest.skip("Mesa draws nothing here")
    pictures: list[bytes] = []
    for helpers in (0, 3):
        async with await Browser.launch(helpers=helpers) as browser:
            pictures.append(await picture(browser, 10))
            assert llvmpipe_threads(browser.pid) == helpers
    assert pictures[0] == pictures[1]


@pytest.mark.browser
async def test_whoever_works_alone_has_helpers_and_beside_others_none(monkeypatch: pytest.MonkeyPatch) -> None:
    if (await choose_rasterizer(find_browser().path)).rasterizer != "llvmpipe":
        pytest.skip("Mesa draws nothing here")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert captures_at_work() == 0
    for is_warm, pages, others, helpers in (
        (False, None, 0, 2),
        (True, None, 0, 2),
        (False, 2, 0, 0),
        (False, 1, 1, 0),
    ):
        async with LocalExecutor(workers=1) as executor:
            if is_warm:
                await executor.warm()
            beside = [WorkFolder(CAPTURE) for _ in range(others)]
            assert captures_at_work() == others
            async with executor.browser(pages=pages) as browser:
                await picture(browser, 0)
                assert llvmpipe_threads(browser.pid) == browser.graphics.helpers == helpers
            for each in beside:
                each.close()


@pytest.mark.browser
async def test_of_warm_browsers_the_one_is_taken_that_has_the_helpers_that_are_of_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if (await choose_rasterizer(find_browser().path)).rasterizer != "llvmpipe":
        pytest.skip("Mesa draws nothing here")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    async with LocalExecutor(workers=2) as executor:
        async with executor.browser(pages=1) as alone, executor.browser() as beside:
            assert (alone.graphics.helpers, beside.graphics.helpers) == (2, 0)
        for pages, expected in ((1, alone), (None, beside), (2, beside), (1, alone)):
            async with executor.browser(pages=pages) as browser:
                assert browser is expected
