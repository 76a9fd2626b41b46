"""Asks the helper inside an E2B sandbox (``inside.py``): brings it in, sends questions, and doubts every answer."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Literal

import e2b
from e2b import AsyncSandbox

from koda_ray.errors import SandboxError, TemplateNotFound
from koda_ray.sandbox import e2b_machine
from koda_ray.sandbox.asked import nonsense, read_answer
from koda_ray.sandbox.packed import MAX_ANSWER_BYTES, Header, pack
from koda_ray.sandbox.shipped import helper

__all__ = ["Inside"]

_TIMEOUT_S = 120.0
_TRIES = 3


class Inside:
    """The helper of one sandbox, as seen from here.

    Args:
        sandbox_id: Ours, for messages.
        unusable: Makes the error for a template that does not hold what it must, given what that is.
        machine: Gives E2B's sandbox as it is connected now.
        translated: Turns the SDK's errors of a block into ours, given what the block does.
    """

    def __init__(
        self,
        sandbox_id: str,
        *,
        unusable: Callable[[str], TemplateNotFound],
        machine: Callable[[], AsyncSandbox],
        translated: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._id = sandbox_id
        self._unusable = unusable
        self._machine = machine
        self._translated = translated

    async def ask(
        self, question: Header, files: Mapping[str, bytes], *, part: Literal["files", "processes"]
    ) -> tuple[Header, dict[str, bytes]]:
        """Ask, and raise what the helper raised.

        A helper that is not there yet is brought in first. An answer whose end is missing is asked for again: E2B may
        drop what a command wrote last, and every question may be asked twice.

        Raises:
            KodaError: Whatever the helper says.
            SandboxError: PROVIDER_ERROR, it answers nonsense, or E2B cannot be reached.
        """
        packed = pack(question, files)
        for _ in range(_TRIES):
            with self._translated("work on files" if part == "files" else "work on processes"):
                answer = await self._call(part, packed)
            if answer is not None:
                break
        else:
            raise nonsense(self._id, "nothing, or only the beginning of an answer")
        return read_answer(self._id, answer)

    async def bring(self) -> None:
        """Bring the helper in: uploaded under another name, so that it is there whole or not at all."""
        found = helper()
        path = f"{e2b_machine.FOLDER}/{found.name}"
        with self._translated("bring its helper into a sandbox"):
            await self._upload(f"{path}.new", found.data)
            line = e2b_machine.command(["mv", "-f", f"{path}.new", path])
            await self._machine().commands.run(line, user="root", cwd="/", timeout=_TIMEOUT_S)

    async def _call(self, part: str, packed: bytes) -> bytes | None:
        """Ask once; None when it is worth asking again."""
        key = secrets.token_hex(8)
        if len(packed) > e2b_machine.INLINE_BYTES:
            path = f"{e2b_machine.FOLDER}/in/{key}"
            await self._upload(path, packed)
            question = f"@{path}"
        else:
            question = base64.b64encode(packed).decode()
        archive = f"{e2b_machine.FOLDER}/{helper().name}"
        argv = ["python3", "-I", "-S", archive, part, question]
        argv = e2b_machine.as_user(argv) if part == "files" else argv
        line = e2b_machine.call(argv, key=key, helper=archive)
        try:
            done = await self._machine().commands.run(line, user="root", cwd="/", timeout=_TIMEOUT_S)
        except e2b.CommandExitException as error:
            if error.exit_code == e2b_machine.NO_HELPER:
                await self.bring()
                return None
            raise self._failed(error.exit_code, (error.stderr or error.error or "").strip()) from None
        return await self._answer(done.stdout, key)

    def _failed(self, exit_code: int, said: str) -> SandboxError:
        if exit_code in (126, 127):
            return self._unusable(f"python3 (3.11 or newer) and util-linux must be in it ({said[-200:]})")
        return SandboxError(
            f"the helper in the sandbox {self._id} failed with code {exit_code} ({said[-300:] or 'no message'}); "
            "make another sandbox and restore the last checkpoint into it",
            retryable=True,
        )

    async def _answer(self, printed: str, key: str) -> bytes | None:
        if not printed.endswith(".\n"):
            return None
        kind, _, text = printed[:-2].partition("\n")
        if kind == "inline":
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error:
                raise nonsense(self._id, "an answer that is not base64") from None
        if not kind.isdecimal() or int(kind) > MAX_ANSWER_BYTES:
            raise nonsense(self._id, f"an answer of {kind[:20]!r} bytes, where {MAX_ANSWER_BYTES} are allowed")
        path = f"{e2b_machine.FOLDER}/out/{key}"
        files = self._machine().files
        try:
            return bytes(await files.read(path, "bytes", user="root", request_timeout=_TIMEOUT_S))
        finally:
            with suppress(e2b.SandboxException):
                await files.remove(path, user="root")

    async def _upload(self, path: str, data: bytes) -> None:
        files = self._machine().files
        await files.write(  # pyright: ignore[reportUnknownMemberType]
            path, data, user="root", request_timeout=_TIMEOUT_S
        )
