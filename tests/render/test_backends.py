"""The full browser where there is no headless shell, and what a session's actor has to load."""

from __future__ import annotations

import subprocess
import sys

import pytest

from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.protocol import JobContext
from koda_ray.state.storage import Storage
from tests.render.conftest import FULL, USER, put_page, small

pytestmark = pytest.mark.full


@pytest.mark.browser
@pytest.mark.skipif(not FULL.exists(), reason="the full Chromium is not installed")
async def test_the_full_browser_renders_the_same_video_each_time(storage: Storage) -> None:
    hashes: set[str] = set()
    async with LocalExecutor(workers=1, chromium_path=FULL) as executor:
        for name in ("one", "two"):
            fresh = Storage(f"{storage.url}-{name}")
            spec = small(await put_page(fresh, "plain"), duration_s=2.6)
            result = await RenderJob(
                spec, JobContext(storage=fresh, executor=executor, job_id="job_1", user_id=USER)
            ).run()
            environment = result.report["environment"]
            assert isinstance(environment, dict)
            assert environment["backend"] == "screenshot"
            assert result.frame_count == 26
            assert result.report["unstableUnits"] == []
            hashes.add(result.frame_hash)
    assert len(hashes) == 1


def test_a_coordinator_loads_neither_browser_nor_ray() -> None:
    code = "import sys, koda_ray.render.job, koda_ray.render.spec; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {"playwright", "ray", "numpy", "ffmpeg", "PIL", "fsspec"} & set(done.stdout.split())
