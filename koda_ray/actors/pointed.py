"""Pictures of what a person points at, as the agents look at them: they are kept in what was said."""

from __future__ import annotations

import base64

from koda_ray.commands import Command, RequestChanges, Say
from koda_ray.errors import NotFound, StorageError
from koda_ray.llm.base import ImageBlock
from koda_ray.state.storage import Storage
from koda_ray.state.store import Store

__all__ = ["pictures_of"]


async def pictures_of(command: Command, *, user_id: str, store: Store, storage: Storage) -> list[ImageBlock]:
    """Read the pictures that a command's notes name, in their order; what is not there any more is left out."""
    if not isinstance(command, RequestChanges | Say):
        return []
    found: list[ImageBlock] = []
    for note in command.notes:
        if note.picture is None:
            continue
        try:
            asset = await store.get_asset(note.picture, user_id=user_id)
            data = await storage.get(asset.key)
        except (NotFound, StorageError):  # the words say what was meant, and where
            continue
        source = base64.b64encode(data).decode()
        found.append({"type": "image", "source": {"type": "base64", "media_type": asset.media_type, "data": source}})
    return found
