"""What a session's generated files were at moments that matter: as a call began, and in the preview that worked last.

The first is kept before it is needed and found again by the call's id. The second is the checkpoint that the state's
preview names. So whoever goes on after a crash, after the session was put back, or in a session that was made of it,
finds the moments of its own past.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from koda_ray.actors.core import SessionCore
from koda_ray.actors.project import Project
from koda_ray.commands import Wrote
from koda_ray.errors import Missing, NotFound, StorageError
from koda_ray.sandbox.base import Sandbox
from koda_ray.state import checkpoint
from koda_ray.state.keys import proposal_key
from koda_ray.state.storage import Storage, sha256
from koda_ray.tools.workbench import Failure
from koda_ray.types import Preview

__all__ = ["Moments", "hashes"]


class Moments:
    """The moments of one session's files."""

    def __init__(self, core: SessionCore, *, project: Project, storage: Storage) -> None:
        self._core = core
        self._project = project
        self._storage = storage

    async def began(self, cause_id: str) -> None:
        """Keep what the files are as a call begins; one that runs again has begun before."""
        if await self._read("began", cause_id) is None:
            await self._keep("began", cause_id, hashes(await self._texts()))

    async def changed_since(self, cause_id: str) -> Mapping[str, str]:
        """Read the files, whole, that are others now than when a call began."""
        try:
            before = await self._read("began", cause_id)
        except StorageError:  # that may be why the call failed
            return {}
        if before is None:
            return {}
        present = await self._texts()
        there = hashes(present)
        return {path: text for path, text in present.items() if there[path] != before.get(path)}

    async def as_shown(self, cause_id: str) -> Preview | None:
        """Return the session's preview where all files are as in it and its video is there; None else.

        None too for a call that gave up before: its files were put back to that preview.
        """
        shown = self._core.state.preview
        if shown is None:
            return None
        try:
            if await self.given_up(cause_id) is not None or not await self._are_shown():
                return None
            job = await self._core.store.get_job(shown.job_id)
            video = (job.result or {}).get("videoKey")  # another session's, in one that was made of it
            return shown if isinstance(video, str) and await self._storage.exists(video) else None
        except (Missing, NotFound, StorageError):
            return None  # whoever makes one anew says what is wrong

    async def _are_shown(self) -> bool:
        shown = await self._shown()
        if shown is None:
            return False
        there = await self._project.look(lambda files: {path: sha256(data) for path, data in files.items()})
        return there == {path: entry.sha256 for path, entry in shown.files.items()}

    async def put_back(self) -> bool:
        """Make the generated files again those of the session's preview; False where it has none."""
        shown = await self._shown()
        if shown is None:
            return False
        good = {path: shown.files[path] for path in self._known() if path in shown.files}
        present = hashes(await self._texts())
        old = {
            path: await checkpoint.read_file(self._storage, shown, path)
            for path, entry in good.items()
            if present.get(path) != entry.sha256
        }
        new = tuple(path for path in present if path not in good)
        if not old and not new:
            return True

        async def remove(sandbox: Sandbox) -> None:
            for path in new:
                await sandbox.remove(path)

        await self._project.use(remove)
        batch = await self._project.keep(old, "files")
        batch.phase_commands.append(Wrote(tuple((path, len(body)) for path, body in sorted(old.items())), removed=new))
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

    async def _shown(self) -> checkpoint.Manifest | None:
        """Read which files the session's preview shows."""
        preview = self._core.state.preview
        if preview is None or preview.checkpoint_id is None:
            return None
        pointers = await self._core.store.checkpoints(self._core.session_id)
        key = next((each.manifest_key for each in pointers if each.id == preview.checkpoint_id), None)
        return None if key is None else await checkpoint.load(self._storage, key)

    async def _texts(self) -> dict[str, str]:
        """Read those of the files that the code generator wrote which are there."""
        known = self._known()
        return await self._project.look(
            lambda files: {path: files[path].decode("utf-8", errors="replace") for path in known if path in files}
        )

    def _known(self) -> tuple[str, ...]:
        """List what the code generator ever wrote, whether it is there or not."""
        execution = self._core.state.execution
        return execution.files if execution else ()

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


def hashes(texts: Mapping[str, str]) -> dict[str, str]:
    """Return what files are told apart by, by path."""
    return {path: sha256(text.encode()) for path, text in texts.items()}
