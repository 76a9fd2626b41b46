"""Page renders on a real Ray: their processes are killed, they are cancelled, the server is started anew."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import time
import zipfile
from datetime import datetime
from itertools import accumulate
from typing import Any

import httpx
import psutil
import pytest

from koda_ray.render.isolation import sweep_dead_folders
from koda_ray.render.memory import usual_browsers
from koda_ray.render.programs import find_browser
from tests.faults.conftest import Rig, until

pytestmark = [
    pytest.mark.full,
    pytest.mark.alone,
    pytest.mark.ray, pytest.mark.browser, pytest.mark.timeout(400),
    pytest.mark.asyncio(loop_scope="package"),
]  # fmt: skip

PAGE = """<!doctype html><style>body{margin:0;background:#123} div{width:40px;height:40px;background:orange;
animation:go 3s linear infinite} @keyframes go{to{transform:translateX(100px) rotate(180deg)}}</style><div></div>"""


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("index.html", PAGE)
    return buffer.getvalue()


async def post(rig: Rig, **options: object) -> dict[str, Any]:
    given = {"width": 320, "height": 180, "fps": 30, **options}
    async with httpx.AsyncClient(base_url=rig.server.url, trust_env=False, timeout=30) as http:
        files = {"file": ("page.zip", zipped(), "application/zip")}
        made = await http.post("/v1/renders", files=files, data={"options": json.dumps(given)})
    assert made.status_code == 202, made.text
    return made.json()


async def status(rig: Rig, job_id: str) -> str:
    return (await rig.store.get_job(job_id)).status


async def reaches(rig: Rig, job_id: str, *, units: int, limit_s: float = 60) -> None:
    """Wait until so many units are stored."""
    deadline = time.monotonic() + limit_s
    while len(await rig.store.chunks(job_id)) < units:
        assert time.monotonic() < deadline, f"never {units} units\n{rig.server.log()[-3000:]}"
        await asyncio.sleep(0.02)


async def ends(rig: Rig, job_id: str, *, limit_s: float = 120) -> str:
    deadline = time.monotonic() + limit_s
    while (found := await status(rig, job_id)) in ("queued", "running"):
        assert time.monotonic() < deadline, f"still {found}\n{rig.server.log()[-3000:]}"
        await asyncio.sleep(0.05)
    return found


def browsers(rig: Rig) -> list[psutil.Process]:
    return rig.processes(str(find_browser(None).path))


async def test_a_render_goes_on_after_each_kill_of_its_process(rig: Rig) -> None:
    killed = await post(rig, duration=16, fps=24)
    for units in (1, 3):
        await reaches(rig, killed["id"], units=units)
        for victim in rig.workers("_CoordinatorHost"):
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
    assert await ends(rig, killed["id"]) == "succeeded", (await rig.store.get_job(killed["id"])).error
    row = await rig.store.get_job(killed["id"])
    assert row.epoch >= 2 and row.result is not None and row.result["frames"] == 384
    events = await rig.store.events(killed["id"], limit=10_000)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.type for event in events].count("render_complete") == 1
    assert events[-1].type == "state_change" and events[-1].data == {"status": "succeeded"}
    async with httpx.AsyncClient(base_url=rig.server.url, trust_env=False, timeout=60) as http:
        video = await http.get(f"/v1/renders/{killed['id']}/video")
        report = (await http.get(f"/v1/renders/{killed['id']}/report")).json()
    assert len(video.content) == row.result["fileSize"]
    await until(lambda: not rig.workers("_CoordinatorHost"), "the process of renders gone when there are none")
    assert report["frames"] == 384 and report["unitsReused"] >= 1


async def test_a_cancelled_render_ends_with_its_processes(rig: Rig) -> None:
    made = await post(rig, duration=300, fps=60, width=640, height=360)
    await reaches(rig, made["id"], units=1)
    assert browsers(rig)
    async with httpx.AsyncClient(base_url=rig.server.url, trust_env=False, timeout=30) as http:
        ended = await http.post(f"/v1/renders/{made['id']}/cancel")
    assert ended.json()["status"] == "cancelled"
    await until(lambda: not browsers(rig), "the browsers gone", limit_s=60)
    last = (await rig.store.events(made["id"], limit=10_000))[-1]
    assert (last.type, last.data) == ("state_change", {"status": "cancelled"})
    await asyncio.to_thread(sweep_dead_folders)  # as the janitor does: a worker that had to be killed leaves its own


async def test_a_render_outlives_the_server(rig: Rig) -> None:
    made = await post(rig, duration=20, fps=25)
    await reaches(rig, made["id"], units=2)
    await rig.kill()
    assert await status(rig, made["id"]) == "running"
    done = len(await rig.store.chunks(made["id"]))
    await rig.start()  # nobody asks for the render: the janitor finds it
    assert await ends(rig, made["id"]) == "succeeded"
    async with httpx.AsyncClient(base_url=rig.server.url, trust_env=False, timeout=60) as http:
        report = (await http.get(f"/v1/renders/{made['id']}/report")).json()
    assert report["unitsReused"] >= done >= 2


async def test_more_renders_than_there_is_room_for_wait_their_turn(rig: Rig) -> None:
    browsers = usual_browsers()
    made = [await post(rig, duration=0.5, fps=10, seed=seed) for seed in range(browsers + 4)]
    assert {await ends(rig, render["id"]) for render in made} == {"succeeded"}
    turns: list[tuple[datetime, int]] = []
    for render in made:
        events = await rig.store.events(render["id"], limit=10_000)
        states = {str(event.data["status"]): event.at for event in events if event.type == "state_change"}
        turns += [(states["running"], 1), (states["succeeded"], -1)]
    under_way = list(accumulate(by for _, by in sorted(turns)))
    # one more than there are browsers, in one process
    assert max(under_way) <= browsers + 1, under_way
    assert len(rig.workers("_CoordinatorHost")) == 1
