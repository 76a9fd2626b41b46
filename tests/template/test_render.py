"""A film of the template's own parts, rendered: each frame is the same for any number of workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.protocol import JobContext, RenderResult, UnitResult
from koda_ray.render.spec import RenderSpec
from koda_ray.state.storage import Storage

pytestmark = pytest.mark.browser

USER = "local"


async def render(bundle: Bundle, folder: Path, workers: int) -> tuple[RenderResult, list[str]]:
    """Render the film from nothing; return the result and the captured frames' hashes, in order."""
    storage = Storage(str(folder / f"workers-{workers}"))
    units: dict[int, UnitResult] = {}

    async def keep(unit: UnitResult) -> None:
        units[unit.unit.index] = unit

    spec = RenderSpec(
        bundle=await store_bundle(storage, USER, bundle), duration_s=3.6, width=160, height=90, fps=10, crf=28
    )
    async with LocalExecutor(workers=workers) as executor:
        job = RenderJob(
            spec, JobContext(storage=storage, executor=executor, job_id="job_1", user_id=USER), on_unit=keep
        )
        result = await job.run()
    return result, [digest for _, unit in sorted(units.items()) for digest in unit.frame_hashes]


@pytest.mark.full
async def test_float_summed_time_random_numbers_and_css_are_the_same_for_any_number_of_workers(
    probe: Bundle, tmp_path: Path
) -> None:
    one, alone = await render(probe, tmp_path, workers=1)
    two, shared = await render(probe, tmp_path, workers=2)
    assert len(alone) == one.frame_count == 36
    assert alone == shared
    assert (one.frame_hash, one.report["sha256"]) == (two.frame_hash, two.report["sha256"])
    assert len(set(alone)) == 36, "each frame shows its own moment"
    for result in (one, two):
        assert result.report["replayed"] is True, "seeking cannot restore what this film sums up"
        assert result.report["unstableUnits"] == []
