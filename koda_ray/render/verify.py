"""Rendering a sample of a finished video's units again, on fresh pages, and comparing the pictures.

What is compared are the hashes of captured pictures, before any encoding: equal means equal to the last bit. Nothing
that is stored is used for the second time but the bundle.
"""

from __future__ import annotations

import tempfile
from typing import cast

from pydantic import JsonValue

from koda_ray.cancellation import all_or_cancel
from koda_ray.errors import QualityRejected
from koda_ray.render.protocol import Captured, CaptureTask, RenderExecutor, RenderResult, UnitResult
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.spec import CaptureMode, RenderSpec, Unit
from koda_ray.render.stored import read_unit
from koda_ray.state.keys import bundle_key
from koda_ray.state.storage import Storage

__all__ = ["verify_sample"]

_SAMPLE = 3


async def verify_sample(
    result: RenderResult, *, spec: RenderSpec, storage: Storage, executor: RenderExecutor, user_id: str
) -> int:
    """Render the first, the middle and the last unit again.

    Returns:
        How many frames were compared and are equal.

    Raises:
        QualityRejected: A frame differs; the message names the first one.
        RenderError: As capturing does.
    """
    units = cast("list[dict[str, JsonValue]]", result.report["units"])
    last = len(units) - 1
    sample = sorted({round(last * look / (_SAMPLE - 1)) for look in range(_SAMPLE)})
    environment = cast("dict[str, str]", result.report["environment"])["fingerprint"]
    with tempfile.TemporaryDirectory(prefix="koda-verify-") as folder:
        scratch = Storage(folder)
        bundle = bundle_key(user_id, spec.bundle)
        await scratch.put(bundle, await storage.get(bundle))

        async def compare(made: dict[str, JsonValue]) -> None:
            unit, key = Unit(*(cast("int", made[name]) for name in ("index", "start", "stop"))), str(made["key"])
            first = await read_unit(RetryingStorage(storage), user_id, key)
            if first is None:
                raise QualityRejected(f"unit {unit.index} is no longer in storage to compare with: render again")
            task = CaptureTask(
                storage=scratch,
                user_id=user_id,
                job_id="verify",
                spec=spec,
                units=(unit,),
                keys=(key,),
                mode=cast("CaptureMode", made["mode"]),
                environment=environment,
            )
            _same(first, await _capture(task, executor))

        await all_or_cancel([compare(units[place]) for place in sample])
    return sum(cast("int", units[place]["stop"]) - cast("int", units[place]["start"]) for place in sample)


def _same(first: UnitResult, again: UnitResult) -> None:
    for offset, (one, two) in enumerate(zip(first.frame_hashes, again.frame_hashes, strict=True)):
        if one != two:
            frame = first.unit.start + offset
            raise QualityRejected(
                f"frame {frame} came out different when it was rendered again: the page's pictures depend on more than "
                "their time (a clock or random numbers that are not replaced?)",
                context={"frame": frame},
            )


async def _capture(task: CaptureTask, executor: RenderExecutor) -> UnitResult:
    heard: list[UnitResult] = []

    async def hear(told: Captured | UnitResult) -> None:
        if isinstance(told, UnitResult):
            heard.append(told)

    await executor.capture(task, hear)
    return heard[0]
