"""The page contract: there before the app, its older names, what it says when the page fails."""

from __future__ import annotations

import pytest
from playwright.sync_api import Error

from koda_ray.render.bundle import Bundle
from tests.template.conftest import Viewer

pytestmark = pytest.mark.browser


def test_the_contract_is_there_before_any_code_of_the_app(viewer: Viewer, probe: Bundle) -> None:
    with viewer.open(probe, "export&case=counted") as visit:
        assert visit.probe()["contractAtImport"] == "function"


def test_it_says_what_the_project_says(viewer: Viewer, demo: Bundle) -> None:
    with viewer.open(demo) as visit:
        facts = visit.page.evaluate("({...window.__koda, size: window.__koda.size})")
        assert facts["duration"] == 5
        assert facts["fps"] == 60
        assert facts["size"] == {"width": 1920, "height": 1080}
        assert (facts["mode"], facts["version"], facts["errors"]) == ("export", 1, [])
        assert visit.page.evaluate("window.__koda.pending()") == []


def test_older_names_lead_to_the_same_object(viewer: Viewer, probe: Bundle) -> None:
    with viewer.open(probe, "case=counted", before="window.__EXPORT_MODE__ = true") as visit:
        assert visit.page.evaluate("[window.__koda.mode, window.__exportReady]") == ["export", True]
        visit.page.evaluate("window.__exportSeekTo(1.25)")
        assert visit.page.inner_text("#seen") == "1.250"
        visit.page.evaluate("window.dispatchEvent(new CustomEvent('theatre-seek', {detail: {frame: 90}}))")
        visit.page.wait_for_function("document.querySelector('#seen').textContent === '1.500'")
        heard = visit.page.evaluate(
            """async () => {
                const heard = [];
                window.addEventListener('theatre-seek', (event) => heard.push(event.detail));
                await window.__koda.seek(2);
                return heard;
            }"""
        )
        assert heard == [{"time": 2, "frame": 120}]
        assert visit.page.evaluate("window.__koda.time") == 2


def test_a_query_flag_selects_export_and_without_it_the_page_plays(viewer: Viewer, probe: Bundle) -> None:
    with viewer.open(probe, "case=counted") as visit:
        assert visit.page.evaluate("window.__koda.mode") == "live"
        visit.page.wait_for_function("Number(document.querySelector('#seen').textContent) > 0.2")
        visit.seek(3)  # seeking pauses
        assert visit.page.inner_text("#seen") == "3.000"


def test_live_mode_loops_over_the_duration(viewer: Viewer, probe: Bundle) -> None:
    with viewer.open(probe, "case=counted") as visit:
        visit.seek(4.9)
        visit.page.evaluate("window.__koda.play()")
        visit.page.wait_for_function("Number(document.querySelector('#seen').textContent) < 4.5")


def test_a_frame_shows_state_that_an_effect_sets(viewer: Viewer, probe: Bundle) -> None:
    with viewer.open(probe, "export&case=counted") as visit:
        for frame in (1, 7, 3):
            visit.seek(frame / 60)
            assert visit.page.inner_text("#seen") == f"{frame / 60:.3f}"


@pytest.mark.parametrize("fps", [15, 24, 30, 60])
def test_frame_numbers_follow_the_time_at_any_rate(viewer: Viewer, probe: Bundle, fps: int) -> None:
    with viewer.open(probe, "export&case=counted") as visit:
        for index in (0, 1, fps - 1, fps, 3 * fps + 1):
            visit.seek(index / fps)
            assert visit.probe()["frames"] == [int(index / fps * 60 + 1e-6), int(index / fps * 15 + 1e-6)]


def test_seek_takes_seconds_only(viewer: Viewer, probe: Bundle) -> None:
    with viewer.open(probe, "export&case=counted") as visit:
        with pytest.raises(Error, match="finite number, not NaN"):
            visit.page.evaluate("window.__koda.seek(NaN)")
        visit.seek(99)
        assert visit.page.inner_text("#seen") == "5.000"


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("throws-at-once", "no such thing as a free frame"),
        ("not-a-component", "an element type is undefined"),
        ("missing-image", "nowhere.png could not be loaded"),
    ],
)
def test_a_page_that_fails_is_not_ready_and_says_why(viewer: Viewer, probe: Bundle, case: str, message: str) -> None:
    with viewer.open(probe, f"export&case={case}", wait=False) as visit:
        with pytest.raises(Error, match=message):
            visit.ready()
        errors = visit.page.evaluate("window.__koda.errors")
        assert any(message in error["message"] for error in errors)
        assert visit.page.evaluate("window.__exportReady") is False


def test_an_error_at_a_later_time_rejects_that_seek(viewer: Viewer, probe: Bundle) -> None:
    with viewer.open(probe, "export&case=throws-late") as visit:
        visit.seek(0.5)
        with pytest.raises(Error, match=r"drawing 1\.5 s failed: Error: too late: 1\.5"):
            visit.seek(1.5)
        (error,) = visit.page.evaluate("window.__koda.errors")
        assert error["source"] in ("react", "error")
        assert "assets/" in error["stack"]


def test_a_page_that_waits_names_what_for(viewer: Viewer, probe: Bundle) -> None:
    early = """{
        const later = window.setTimeout;
        window.setTimeout = (run, wait, ...rest) => later(run, wait > 20000 ? 300 : wait, ...rest);
    }"""
    with viewer.open(probe, "export&case=waits", before=early, wait=False) as visit:
        visit.page.wait_for_function("window.__koda.pending().includes('the moon')")
        with pytest.raises(Error, match=r"not ready after .* s; it still waits for: the moon"):
            visit.ready()
