"""The page contract: there before the app, its older names, what it says when the page fails."""

from __future__ import annotations

import pytest
from playwright.async_api import Error

from koda_ray.render.bundle import Bundle
from tests.template.conftest import Viewer

pytestmark = [pytest.mark.full, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.full
async def test_the_contract_is_there_before_any_code_of_the_app(viewer: Viewer, probe: Bundle) -> None:
    async with viewer.open(probe, "export&case=counted") as visit:
        assert (await visit.probe())["contractAtImport"] == "function"


async def test_it_says_what_the_project_says(viewer: Viewer, demo: Bundle) -> None:
    async with viewer.open(demo) as visit:
        facts = await visit.page.evaluate("({...window.__koda, size: window.__koda.size})")
        assert facts["duration"] == 5
        assert facts["fps"] == 60
        assert facts["size"] == {"width": 1920, "height": 1080}
        assert (facts["mode"], facts["version"], facts["errors"]) == ("export", 1, [])
        assert await visit.page.evaluate("window.__koda.pending()") == []


async def test_older_names_lead_to_the_same_object(viewer: Viewer, probe: Bundle) -> None:
    async with viewer.open(probe, "case=counted", before="window.__EXPORT_MODE__ = true") as visit:
        assert await visit.page.evaluate("[window.__koda.mode, window.__exportReady]") == ["export", True]
        await visit.page.evaluate("window.__exportSeekTo(1.25)")
        assert await visit.page.inner_text("#seen") == "1.250"
        await visit.page.evaluate("window.dispatchEvent(new CustomEvent('theatre-seek', {detail: {frame: 90}}))")
        await visit.page.wait_for_function("document.querySelector('#seen').textContent === '1.500'")
        heard = await visit.page.evaluate(
            """async () => {
                const heard = [];
                window.addEventListener('theatre-seek', (event) => heard.push(event.detail));
                await window.__koda.seek(2);
                return heard;
            }"""
        )
        assert heard == [{"time": 2, "frame": 120}]
        assert await visit.page.evaluate("window.__koda.time") == 2


async def test_a_query_flag_selects_export_and_without_it_the_page_plays(viewer: Viewer, probe: Bundle) -> None:
    async with viewer.open(probe, "case=counted") as visit:
        assert await visit.page.evaluate("window.__koda.mode") == "live"
        await visit.page.wait_for_function("Number(document.querySelector('#seen').textContent) > 0.2")
        await visit.seek(3)  # seeking pauses
        assert await visit.page.inner_text("#seen") == "3.000"


async def test_live_mode_loops_over_the_duration(viewer: Viewer, probe: Bundle) -> None:
    async with viewer.open(probe, "case=counted") as visit:
        await visit.seek(4.9)
        await visit.page.evaluate("window.__koda.play()")
        await visit.page.wait_for_function("Number(document.querySelector('#seen').textContent) < 4.5")


async def test_a_frame_shows_state_that_an_effect_sets(viewer: Viewer, probe: Bundle) -> None:
    async with viewer.open(probe, "export&case=counted") as visit:
        for frame in (1, 7, 3):
            await visit.seek(frame / 60)
            assert await visit.page.inner_text("#seen") == f"{frame / 60:.3f}"


@pytest.mark.parametrize("fps", [15, 24, 30, 60])
async def test_frame_numbers_follow_the_time_at_any_rate(viewer: Viewer, probe: Bundle, fps: int) -> None:
    async with viewer.open(probe, "export&case=counted") as visit:
        for index in (0, 1, fps - 1, fps, 3 * fps + 1):
            await visit.seek(index / fps)
            assert (await visit.probe())["frames"] == [int(index / fps * 60 + 1e-6), int(index / fps * 15 + 1e-6)]


async def test_seek_takes_seconds_only(viewer: Viewer, probe: Bundle) -> None:
    async with viewer.open(probe, "export&case=counted") as visit:
        with pytest.raises(Error, match="finite number, not NaN"):
            await visit.page.evaluate("window.__koda.seek(NaN)")
        await visit.seek(99)
        assert await visit.page.inner_text("#seen") == "5.000"


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("throws-at-once", "no such thing as a free frame"),
        ("not-a-component", "an element type is undefined"),
        ("missing-image", "nowhere.png could not be loaded"),
    ],
)
async def test_a_page_that_fails_is_not_ready_and_says_why(
    viewer: Viewer, probe: Bundle, case: str, message: str
) -> None:
    async with viewer.open(probe, f"export&case={case}", wait=False) as visit:
        with pytest.raises(Error, match=message):
            await visit.ready()
        errors = await visit.page.evaluate("window.__koda.errors")
        assert any(message in error["message"] for error in errors)
        assert await visit.page.evaluate("window.__exportReady") is False


async def test_an_error_at_a_later_time_rejects_that_seek(viewer: Viewer, probe: Bundle) -> None:
    async with viewer.open(probe, "export&case=throws-late") as visit:
        await visit.seek(0.5)
        with pytest.raises(Error, match=r"drawing 1\.5 s failed: Error: too late: 1\.5"):
            await visit.seek(1.5)
        (error,) = await visit.page.evaluate("window.__koda.errors")
        assert error["source"] in ("react", "error")
        assert "assets/" in error["stack"]


async def test_a_page_that_waits_names_what_for(viewer: Viewer, probe: Bundle) -> None:
    early = """{
        const later = window.setTimeout;
        window.setTimeout = (run, wait, ...rest) => later(run, wait > 20000 ? 300 : wait, ...rest);
    }"""
    async with viewer.open(probe, "export&case=waits", before=early, wait=False) as visit:
        await visit.page.wait_for_function("window.__koda.pending().includes('the moon')")
        with pytest.raises(Error, match=r"not ready after .* s; it still waits for: the moon"):
            await visit.ready()
