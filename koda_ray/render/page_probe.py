"""What a page says of itself, asked once and kept beside its bundle: length, rate and size."""

from __future__ import annotations

import hashlib
import json
from typing import Any, cast

from koda_ray.errors import KodaError, NotFound, PageError, PageNotReady
from koda_ray.render.options import JobOptions, PageContract
from koda_ray.render.protocol import ProbeReport, ProbeTask, RenderExecutor
from koda_ray.render.retry import RetryingStorage
from koda_ray.state.keys import bundle_key
from koda_ray.state.storage import Storage

__all__ = ["page_contract"]

_ASKED_SIZE = (1920, 1080)
_LOOK_S = 0.1


async def page_contract(
    options: JobOptions, *, bundle: str, entry: str, storage: Storage, executor: RenderExecutor, user_id: str
) -> PageContract:
    """Open a page and read what it says of itself; the answer is kept beside the bundle.

    Raises:
        PageError: It threw.
        PageNotReady: It did not become ready.
        BrowserCrashed: The browser ended.
    """
    width, height = options.size or _ASKED_SIZE
    asked = json.dumps([entry, options.props, options.seed, width, height])
    key = bundle_key(user_id, bundle, f"says-{hashlib.sha256(asked.encode()).hexdigest()[:32]}.json")
    retrying = RetryingStorage(storage)
    kept: dict[str, Any]
    try:
        kept = cast("dict[str, Any]", json.loads(await retrying.get(key)))
    except (NotFound, ValueError):
        report = await executor.probe(
            ProbeTask(
                storage=storage,
                user_id=user_id,
                bundle=bundle,
                entry=entry,
                width=width,
                height=height,
                duration_s=_LOOK_S,
                ready_timeout_s=options.ready_timeout_s,
                seed=options.seed,
                props=options.props,
            )
        )
        if not report.ready:
            raise _not_ready(report) from None
        kept = {"duration": report.duration_s, "fps": report.fps, "width": report.width, "height": report.height}
        said = json.dumps(kept).encode()
        await retrying.put(key, said)
    wide, high = kept["width"], kept["height"]
    return PageContract(
        duration_s=kept["duration"],
        fps=kept["fps"],
        size=(int(wide), int(high)) if wide and high else None,
    )


def _not_ready(report: ProbeReport) -> KodaError:
    problems = [problem for problem in report.problems if problem.kind != "console"] or list(report.problems)
    if not problems:
        return PageNotReady("the page did not become ready, and nobody said why")
    kind: type[KodaError] = PageNotReady if problems[-1].kind == "not_ready" else PageError
    said = [
        problem.message + (f" ({problem.file}:{problem.line})" if problem.file else "") for problem in problems[-3:]
    ]
    return kind("; ".join(said))
