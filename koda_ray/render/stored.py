"""Units in storage: the coded frames, and beside them, written last, what is known of them.

A unit without its second object was not finished; one whose bytes are not those that were promised is torn. Both are
captured again, so nobody waits until a unit would outlive a power cut.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from typing import Any, cast

from koda_ray.errors import NotFound
from koda_ray.render.protocol import UnitResult
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.spec import RenderSpec, Unit
from koda_ray.state.keys import bundle_key, unit_key, unit_meta_key
from koda_ray.types import now

__all__ = ["TOUCH_AFTER", "copy_unit", "fits", "needs_replay", "note_replay", "read_unit", "write_unit"]

TOUCH_AFTER = timedelta(hours=6)
"""How exactly is known when something was last used: what nobody uses any more is removed after days."""
_REPLAY_NOTE = "replay.json"


async def write_unit(storage: RetryingStorage, user_id: str, unit: UnitResult, data: bytes) -> None:
    """Store a unit so that it is there whole or not at all, unless the power goes: then it may be there torn.

    Raises:
        StorageError: It could not be stored.
    """
    meta = json.dumps(asdict(unit)).encode()
    await storage.put(unit_key(user_id, unit.key), data, synced=False)
    await storage.put(unit_meta_key(user_id, unit.key), meta, synced=False)


async def read_unit(storage: RetryingStorage, user_id: str, key: str) -> UnitResult | None:
    """Return a unit that was stored before, or None where there is none that looks whole; it counts as used now.

    Its bytes are compared with its hash when they are joined.

    Raises:
        StorageError: Storage could not be read.
    """
    try:
        meta = await storage.get(unit_meta_key(user_id, key))
        data = cast("dict[str, Any]", json.loads(meta))
        data["unit"] = Unit(**data["unit"])
        data["frame_hashes"] = tuple(data["frame_hashes"])
        data["warnings"] = tuple(data["warnings"])
        data["cells"] = {int(place): picture for place, picture in data.get("cells", {}).items()}
        data["thumbnail"] = tuple(data["thumbnail"]) if data.get("thumbnail") else None
        data["reused"] = True
        data["adopted"] = data["alike"] = False
        unit = UnitResult(**data)
        stored = await storage.look(unit_key(user_id, key))
        if now() - stored.at > TOUCH_AFTER:
            await storage.touch(unit_key(user_id, key))
    except (NotFound, ValueError, KeyError, TypeError, AttributeError):
        return None
    whole = stored.size_bytes == unit.size_bytes and len(unit.frame_hashes) == unit.unit.frame_count and unit.key == key
    return unit if whole else None


def fits(spec: RenderSpec, unit: UnitResult) -> bool:
    """Whether a unit may be part of a film: where its page threw, a strict film is to say so and not to have it."""
    return not (spec.strict and unit.threw)


async def copy_unit(storage: RetryingStorage, user_id: str, key: str, unit: UnitResult) -> bool:
    """Give a stored unit a second key, under which it is what ``unit`` says; return whether it was still there.

    Raises:
        StorageError: It could not be stored.
    """
    try:
        await storage.copy(unit_key(user_id, key), unit_key(user_id, unit.key))
    except NotFound:
        return False
    meta = json.dumps(asdict(unit)).encode()
    await storage.put(unit_meta_key(user_id, unit.key), meta, synced=False)
    return True


async def note_replay(storage: RetryingStorage, user_id: str, bundle: str) -> None:
    """Remember that a bundle's page does not restore its state when it is sought.

    Raises:
        StorageError: It could not be stored.
    """
    await storage.put(bundle_key(user_id, bundle, _REPLAY_NOTE), b"{}")


async def needs_replay(storage: RetryingStorage, user_id: str, bundle: str) -> bool:
    """Whether an earlier job found that out: a final video need not find it again at its price."""
    return await storage.exists(bundle_key(user_id, bundle, _REPLAY_NOTE))
