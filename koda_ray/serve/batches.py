"""A batch's name and the names of its renders, which say that they belong together: no table holds batches.

A batch is a user's idempotency key, hashed; its renders' ids are that and the number of the row. So one key makes one
batch however often it is sent, and a batch is listed as the ids that begin alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pydantic import JsonValue

from koda_ray.serve.once import keyed_digits
from koda_ray.state.records import JobRecord

__all__ = ["BATCH_ID", "MADE_SURE", "batch_jobs", "batch_name", "batch_prefix"]

BATCH_ID = r"^bat_[0-9a-f]{27}$"
MADE_SURE = timedelta(seconds=5)
"""How long a new render is left alone by who looks for work: until its bundle is known to be there."""
_TICK = timedelta(microseconds=1)


def batch_name(user_id: str, key: str) -> str:
    """Return the id of the batch that a user makes with a key."""
    return f"bat_{keyed_digits(key, user_id, 'batch', count=27)}"


def batch_prefix(batch_id: str) -> str:
    """Return how the ids of a batch's renders begin."""
    return f"job_{batch_id.removeprefix('bat_')}"


def batch_jobs(
    batch_id: str, like: JobRecord, requests: Sequence[dict[str, JsonValue]], at: datetime
) -> list[JobRecord]:
    """Return the rows of a batch's renders.

    Args:
        batch_id: Its id.
        like: What all have in common.
        requests: What each of them is, in the order of the rows.
        at: When it was made. The renders' times differ a little, so that they are listed and begun in order.
    """
    return [
        replace(
            like,
            id=f"{batch_prefix(batch_id)}{index:05d}",
            spec={**request, "batch": {"id": batch_id, "row": index, "rows": len(requests)}},
            created_at=at - index * _TICK,
            updated_at=at + index * _TICK,
        )
        for index, request in enumerate(requests, 1)
    ]
