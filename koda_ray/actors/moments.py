"""What a session's generated files were at moments that matter: as a call began, and in the preview that worked last.

Both are kept before they are needed and found again by the call's id, or by the bundle of the preview that the state
names. So whoever goes on after a crash, or after the session was put back, finds the moments of its own past.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from koda_ray.actors.core import SessionCore
from koda_ray.actors.project import Project
from koda_ray.commands import Wrote
from koda_ray.errors import NotFound, StorageError
from koda_ray.sandbox.base import Sandbox
from koda_ray.state.storage import Storage, proposal_key, sha256
from koda_ray.tools.workbench import Failure

__all__ = ["Moments"]


class Moments:
    """The moments of one session's files."""

    def __init__(self, core: SessionCore, *, project: Project, storage: Storage) -> None:
        self._core = core
        self._project = project
        self._storage = storage

    async def began(self, cause_id: str) -> None:
        """Keep what the files are as a call begins; one that runs again has begun before."""
        if await self._read("began", cause_id) is None:
            await self._keep("began", cause_id, _hashes(await self._texts()))

    async def changed_since(self, cause_id: str) -> Mapping[str, str]:
        """Read the files, whole, that are others now than when a call began."""
        try:
            before = await self._read("began", cause_id)
        except StorageError:  # that may be why the call failed
            return {}
        if before is None:
            return {}
        present = await self._texts()
        there = _hashes(present)
        return {path: text for path, text in present.items() if there[path] != before.get(path)}

    async def worked(self, bundle: str) -> None:
        """Keep the files of a preview that worked."""
        await self._keep("worked", bundle, await self._texts())

    async def put_back(self) -> bool:
        """Make the files again those of the session's preview; False where nobody knows any."""
        preview = self._core.state.preview
        good = await self._read("worked", preview.bundle) if preview is not None else None
        if good is None:
            return False
        present = await self._texts()
        old = {path: str(text).encode() for path, text in good.items() if present.get(path) != text}
        new = tuple(path for path in present if path not in good)
        if not old and not new:
            return True

        async def remove(sandbox: Sandbox) -> None:
            for path in new:
                await sandbox.remove(path)

        await self._project.use(remove)
        batch = await self._project.keep(old, "files")
        batch.moves.append(Wrote(tuple((path, len(body)) for path, body in sorted(old.items())), removed=new))
        await self._core.commit(batch)
        return True

    async def give_up(self, cause_id: str, failure: Failure) -> None:
        """Keep why a call has no preview, before files are put back: they would work when it runs again."""
        told: dict[str, JsonValue] = {"code": failure.code, "message": failure.message, "details": failure.details}
        await self._keep("given up", cause_id, told)

    async def given_up(self, cause_id: str) -> Failure | None:
        """Read why a call that runs again has no preview."""
        told = await self._read("given up", cause_id)
        if told is None:
            return None
        return Failure(code=str(told["code"]), message=str(told["message"]), details=str(told["details"]))

    async def _texts(self) -> dict[str, str]:
        """Read those of the files that the code generator wrote which are there."""
        files, execution = await self._project.files(), self._core.state.execution
        known = execution.files if execution else ()
        return {path: files[path].decode("utf-8", errors="replace") for path in known if path in files}

    def _key(self, moment: str, of: str) -> str:
        core = self._core
        return proposal_key(core.user_id, core.project_id, core.session_id, sha256(f"{moment}\0{of}".encode()))

    async def _keep(self, moment: str, of: str, value: Mapping[str, JsonValue] | Mapping[str, str]) -> None:
        await self._storage.put(self._key(moment, of), json.dumps(dict(value)).encode())

    async def _read(self, moment: str, of: str) -> dict[str, JsonValue] | None:
        try:
            return cast("dict[str, JsonValue]", json.loads(await self._storage.get(self._key(moment, of))))
        except NotFound:
            return None


def _hashes(texts: Mapping[str, str]) -> dict[str, str]:
    return {path: sha256(text.encode()) for path, text in texts.items()}
