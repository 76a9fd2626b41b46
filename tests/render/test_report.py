"""The report that a person reads: stored beside the video, whole, and readable by a browser without a network."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from koda_ray.render.charts import bars, unit_columns
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.protocol import JobContext
from koda_ray.render.report import report_page
from koda_ray.render.spec import RenderSpec
from koda_ray.state.keys import report_key, report_page_key, sheet_key
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small

PAGE = """<!doctype html><body style='margin:0;background:#dde'><b id=b style='font-size:9vw'>Koda</b><script>
setInterval(() => { b.style.marginLeft = performance.now() / 100 + 'vw' }, 50)</script>"""


def unit(index: int, *, reused: bool = False, capture: float = 300.0) -> dict[str, Any]:
    ms = {"ready": 40.0 if index == 0 else 0.0, "capture": capture, "encode_tail": 20.0, "total": capture + 20}
    return {"index": index, "start": index * 10, "stop": index * 10 + 10, "reused": reused, "ms": ms}


def shapes(svg: str) -> ET.Element:
    """Parse a chart as XML would be: attributes without quotes are HTML's own."""
    return ET.fromstring(re.sub(r"=([\w.#-]+)(?=[\s/>])", r'="\1"', svg))


def test_a_column_is_as_wide_as_its_unit_and_as_high_as_its_frames_took() -> None:
    last = unit(2, capture=100.0) | {"stop": 25}
    chart = shapes(unit_columns([unit(0), unit(1, reused=True), last], seconds_per_frame=0.1))
    groups = chart.findall("g")
    assert [group.get("opacity") for group in groups] == [None, "0.35", None]
    assert groups[1].findtext("title") == "frames 10 to 19 (earlier): capture 30.0 ms, end of encoding 2.0 ms"
    widths, heights = [], []
    for group in groups:
        captures = [rect for rect in group.findall("rect") if rect.get("class") == "capture"]
        widths.append(float(captures[0].get("width", 0)) + 2)
        heights.append(float(captures[0].get("height", 0)))
    assert widths[0] == pytest.approx(widths[1]) == pytest.approx(2 * widths[2], abs=0.1)
    assert heights[0] == pytest.approx(heights[1]) == pytest.approx(heights[2] * 1.5, rel=0.01)
    words = [text.text for text in chart.findall("text")]
    assert words == ["0", "10", "20", "30", "40 ms", "0 s", "0.5 s", "1 s", "1.5 s", "2 s", "2.5 s"]


def test_charts_hold_nothing_and_very_much() -> None:
    nothing = unit_columns([unit(0, capture=0.0) | {"ms": {}}], seconds_per_frame=0.1)
    assert len(shapes(nothing).findall("g")) == 1
    many = unit_columns([unit(index, capture=1e5) for index in range(600)], seconds_per_frame=0.1)
    assert len(shapes(many).findall("g")) == 600
    assert len(shapes(many).findall("text")) < 20
    assert [text.text for text in shapes(bars({"capture": 30.0, "join": 0.25})).findall("text")] == [
        "capture", "30.0 ms", "join", "0.25 ms",
    ]  # fmt: skip


def test_what_comes_from_outside_is_text() -> None:
    evil = "<script>alert(1)</script>"
    report: dict[str, Any] = {
        "spec": RenderSpec(bundle=evil, duration_s=1.0, width=160, height=90, fps=10, props=f'"{evil}"').to_json(),  # type: ignore[arg-type]
        "environment": dict.fromkeys(("chromium", "backend", "graphics", "ffmpeg", "fonts", "fingerprint"), evil),
        "units": [unit(0)],
        "seconds": {"total": 1.0, "join": 0.1},
        "failures": [evil],
        "quality": {"warnings": [evil]},
        "frameHash": "a",
        "sha256": "b",
        **{"frames": 10, "durationS": 1.0, "sizeBytes": 1000, "unitsReused": 0},
        **{"replayed": True, "unstableUnits": [3], "replayedBecauseOfUnit": 1},
    }
    page = report_page(report, job_id="job_1")
    assert evil not in page
    assert page.count("&lt;script&gt;alert(1)") >= 6
    assert "every unit was played from the first frame" in page
    assert "1 attempts failed" in page
    assert "of the page before a change" not in page
    page = report_page(report | {"unitsReused": 1, "unitsAdopted": 1}, job_id="job_1")
    assert "<b>1</b><span>of these, of the page before a change</span>" in page


@pytest.mark.browser
@pytest.mark.needs("ffmpeg")
async def test_a_render_leaves_its_report_beside_the_video(storage: Storage) -> None:
    bundle = await put_page(storage, PAGE)
    preview = small(bundle, duration_s=2.0)
    final = small(bundle, duration_s=2.0, width=320, height=180, fps=20, crf=18)
    async with LocalExecutor(workers=1) as executor:

        async def render(spec: RenderSpec, job_id: str, **options: Any) -> dict[str, Any]:
            job = RenderJob(
                spec, JobContext(storage=storage, executor=executor, job_id=job_id, user_id=USER), **options
            )
            return dict((await job.run()).report)

        await render(preview, "job_1")
        report = await render(final, "job_2", reference=f"users/{USER}/renders/job_1/video.mp4")
        again = await render(final, "job_3")
        lost = await render(small(bundle, duration_s=1.0), "job_4", reference=f"users/{USER}/renders/none/video.mp4")
    assert json.loads(await storage.get(report_key(USER, "job_2"))) == report
    compared = report["quality"]["preview"]
    assert compared["psnrDb"] > 20
    assert abs(compared["luminance"] - compared["previewLuminance"]) < 6
    assert report["quality"]["warnings"] == []
    assert lost["quality"]["warnings"][0].startswith("the preview could not be compared: no object")
    page = (await storage.get(report_page_key(USER, "job_2"))).decode()
    sheet = await storage.get(sheet_key(USER, "job_2"))
    assert sheet.startswith(b"\xff\xd8")
    assert base64.b64encode(sheet).decode() in page
    assert "320&#8239;×&#8239;180 · 20 fps · mp4" in page
    assert f"{compared['psnrDb']:.1f} dB on average" in page
    assert re.findall(r"(?:src|href)=.{6}", page) == ['src="data:']  # it needs no network
    assert again["madeBefore"] == "job_2"
    assert await storage.get(report_page_key(USER, "job_3")) == page.encode()
