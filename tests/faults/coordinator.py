"""A process that renders one video on a cluster, to be killed.

    python -m tests.faults.coordinator ADDRESS STORAGE SPEC

It says how many frames are done, a line each, and in the end the digest of all captured frames and the file's hash.
"""

from __future__ import annotations

import asyncio
import json
import sys

import ray

from koda_ray.render.job import RenderJob
from koda_ray.render.protocol import JobContext, Progress
from koda_ray.render.spec import RenderSpec
from koda_ray.render.tasks import RayExecutor
from koda_ray.state.storage import Storage
from tests.render.conftest import USER

ATTEMPTS = 50
"""Each kill may hit the same unit again."""


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def main() -> None:
    address, storage, spec = sys.argv[1:4]
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")

    async def hear(progress: Progress) -> None:
        say(f"frames {progress.frames_done}")

    job = RenderJob(
        RenderSpec.from_json(json.loads(spec)),
        JobContext(storage=Storage(storage), executor=RayExecutor(), job_id="job_1", user_id=USER, attempts=ATTEMPTS),
        on_progress=hear,
    )
    result = await job.run()
    units = result.report["units"]
    assert isinstance(units, list)
    workers = {str(unit["worker"]) for unit in units if isinstance(unit, dict)}
    facts = [result.frame_hash, result.report["sha256"], result.frame_count, len(workers)]
    say(f"done {json.dumps(facts)}")


if __name__ == "__main__":
    asyncio.run(main())
