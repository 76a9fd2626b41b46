"""A page that is tried by one of those who capture it: the same video, and nothing of a page that fails."""

from __future__ import annotations

import asyncio

import pytest

from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.protocol import CaptureTask, Hear, JobContext, ProbeReport, ProbeTask
from koda_ray.render.trial import Trial
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

FAILS_LATE = """<div style="width:9px;height:9px;background:red"></div><script>
window.__koda = { ready: Promise.resolve(), duration: 5, fps: 10, size: { width: 160, height: 90 }, mode: 'export',
  version: 1, async seek(s) { if (s > 3) throw new Error('it is late'); document.body.style.marginLeft = s + 'px'; } };
</script>"""


class Noted:
    """An executor that notes with which unit its captures begin that have a trial."""

    def __init__(self, local: LocalExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tried: list[int] = []
        self._capture = local.capture
        monkeypatch.setattr(local, "capture", self.capture)

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        if task.trial is not None:
            self.tried.append(task.units[0].index)
        await self._capture(task, hear)


def trial_of(storage: Storage, bundle: str) -> ProbeTask:
    return ProbeTask(storage=storage, user_id=USER, bundle=bundle, duration_s=5.0)


@pytest.mark.full
async def test_a_video_whose_page_was_tried_on_the_way_has_the_same_frames(
    local: LocalExecutor, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = Noted(local, monkeypatch)
    spec = small(await put_page(storage, "contract"), duration_s=5.0)
    job = RenderJob(spec, JobContext(storage=storage, executor=local, job_id="job_1", user_id=USER))
    job.begin_early(trial_of(storage, spec.bundle))
    report = await job.tried()
    assert report is not None and report.ready and not report.problems and report.moves
    result = await job.run()
    assert len(noted.tried) == 1 and noted.tried[0] > 0  # what is seen first is not held up
    calm = Storage(f"{storage.url}-calm")
    await put_page(calm, "contract")
    expected = await RenderJob(spec, JobContext(storage=calm, executor=local, job_id="job_1", user_id=USER)).run()
    assert (result.frame_hash, result.report["sha256"]) == (expected.frame_hash, expected.report["sha256"])


async def test_of_a_page_that_fails_there_is_a_report_and_no_video(local: LocalExecutor, storage: Storage) -> None:
    bundle = await put_page(storage, FAILS_LATE)
    spec = small(bundle, duration_s=5.0)
    job = RenderJob(spec, JobContext(storage=storage, executor=local, job_id="job_1", user_id=USER))
    job.begin_early(trial_of(storage, bundle))
    report = await job.tried()
    assert report is not None and "it is late" in report.problems[0].message
    await job.end()


async def test_a_page_of_which_everything_is_there_is_not_tried_on_the_way(
    local: LocalExecutor, storage: Storage
) -> None:
    spec = small(await put_page(storage, "contract"), duration_s=5.0)
    await RenderJob(spec, JobContext(storage=storage, executor=local, job_id="job_1", user_id=USER)).run()
    job = RenderJob(spec, JobContext(storage=storage, executor=local, job_id="job_2", user_id=USER))
    job.begin_early(trial_of(storage, spec.bundle))
    assert await job.tried() is None  # whoever waits for it tries the page
    await job.run()


async def test_a_trial_has_one_who_makes_it_and_ends_once(storage: Storage) -> None:
    report = ProbeReport(ready=True, problems=(), duration_s=5, fps=10, width=160, height=90, moves=True)
    trial = Trial(trial_of(storage, "0" * 64))
    assert trial.take() is trial and trial.take() is None
    trial.forgo(taken=False)
    assert not trial.is_over
    trial.let_go()  # its maker was lost
    assert trial.take() is trial
    waiting = asyncio.create_task(trial.report())
    trial.told(report)
    trial.forgo()
    assert await waiting is report and not trial.is_forgone
    assert trial.take() is None
