"""A video that was made before is given again: found by what decides it, copied where it lies, and looked at once more.

Only a user's own: keys are below the user's folder. A video whose objects have gone since is made anew.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any, cast

from koda_ray.errors import NotFound
from koda_ray.render.protocol import RenderResult
from koda_ray.render.retry import RetryingStorage
from koda_ray.state.keys import film_key, render_prefix, report_key

__all__ = ["is_noted", "made_before", "note_made"]


async def note_made(storage: RetryingStorage, *, user_id: str, film: str, job_id: str, result: RenderResult) -> None:
    """Remember which job made a video.

    Raises:
        StorageError: It could not be stored.
    """
    data = json.dumps({"job": job_id, "result": {**asdict(result), "report": None}}).encode()
    await storage.put(film_key(user_id, film), data, synced=False)


async def is_noted(storage: RetryingStorage, *, user_id: str, film: str) -> bool:
    """Whether a job is remembered that made a video, as likely as not still there.

    Raises:
        StorageError: Storage failed.
    """
    return await storage.exists(film_key(user_id, film))


async def made_before(storage: RetryingStorage, *, user_id: str, film: str, job_id: str) -> RenderResult | None:
    """Return a video as a new job's own where another made the same before, or None.

    Raises:
        StorageError: Storage failed.
    """
    try:
        made = cast("dict[str, Any]", json.loads(await storage.get(film_key(user_id, film))))
        before = str(made["job"])
        result = RenderResult(**made["result"])
        old, new = render_prefix(user_id, before), render_prefix(user_id, job_id)
        if await storage.size(result.video_key) != result.size_bytes:
            return None
        report = cast("dict[str, Any]", json.loads(await storage.get(report_key(user_id, before))))
        if before != job_id:
            for key in await storage.list(old):
                if key != report_key(user_id, before):
                    await storage.copy(key, new + key.removeprefix(old))
        keys = {name: new + getattr(result, name).removeprefix(old) for name in ("video_key", "thumbnail_key")}
        # the other may be deleted amid this: what was listed then is not all of it
        if await storage.size(keys["video_key"]) != result.size_bytes or not await storage.exists(
            keys["thumbnail_key"]
        ):
            return None
    except (NotFound, ValueError, KeyError, TypeError):
        return None
    report["madeBefore"] = before
    await storage.put(report_key(user_id, job_id), json.dumps(report, indent=1).encode())
    result = replace(result, report=report, **keys)
    # the newest copy is the one to give next: the older may be deleted, or go because nobody uses it
    await note_made(storage, user_id=user_id, film=film, job_id=job_id, result=result)
    return result
