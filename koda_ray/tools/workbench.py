"""What tools may ask of the session that they work for, and nothing more.

Tools never hold a session: they get this narrow view, so that each can be tested with a small stand-in for the
session and real parts (sandbox, files, browser) behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from koda_ray import phases
from koda_ray.agent.toolkit import Agreement
from koda_ray.commands import Command
from koda_ray.events import NewEvent
from koda_ray.sandbox.base import Sandbox
from koda_ray.state.charges import ChargeEntry
from koda_ray.state.records import Batch
from koda_ray.types import NodeState, Preview, now

__all__ = ["Failure", "Generated", "Picture", "Workbench", "with_phase_commands"]


@dataclass(frozen=True, kw_only=True)
class Generated:
    """What the code generator answered: complete files by path, and one sentence about them.

    ``charges`` say what the answer cost, to be committed with what is made of it; ``shown`` that a person has seen the
    files and agreed; ``before`` is the hash of each file that was there when they were shown, None where it is not
    known.
    """

    files: Mapping[str, str]
    summary: str
    charges: Sequence[ChargeEntry] = ()
    shown: bool = False
    before: Mapping[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Work that ended without a result, as a value: the message is for a person, the details for whoever mends it.

    ``mendable`` says that agents go on with it; otherwise a person has to.
    """

    code: str
    message: str
    details: str = ""
    mendable: bool = False


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A stored picture of the page: where it is got, the time it shows, and how long the page says it lasts."""

    url: str
    at_s: float
    duration_s: float | None


class Workbench(Protocol):
    """A session, as its tools see it."""

    @property
    def state(self) -> NodeState:
        """The session's state as last committed."""
        ...

    async def sandbox(self) -> Sandbox:
        """The session's sandbox, made and filled from the newest checkpoint when there is none."""
        ...

    def code_kept(self) -> AbstractAsyncContextManager[tuple[Sandbox, list[str]]]:
        """Give the sandbox for a command: what it does to the code is undone, and then stands in the list.

        Nothing is saved meanwhile, and a sandbox whose command was cut off by a crash is not taken up again.
        """
        ...

    async def emit(self, event: NewEvent) -> None:
        """Announce something at once, under the session's fence."""
        ...

    async def checkpoint(self, trigger: str) -> Batch:
        """Store the project's files and manifest; the batch holds the pointer, for the caller's own commit."""
        ...

    async def generate(self, task: Mapping[str, JsonValue], *, cause_id: str, agreed: str = "") -> Generated:
        """Ask the code generator, streaming ``code_chunk`` events; ``agreed`` names what a person has agreed to."""
        ...

    async def unseen(self, made: Generated, task: Mapping[str, JsonValue], *, cause_id: str) -> Agreement | None:
        """Say what a person has to see before it is written; None where they saw it or need not."""
        ...

    async def propose(self, task: Mapping[str, JsonValue], *, cause_id: str) -> str:
        """Ask the code generator and show what it would change, as a diff; `generate` then gives the same files."""
        ...

    async def keep(
        self, files: Mapping[str, str], *, task: Mapping[str, JsonValue] | None = None, shown: bool = False
    ) -> Batch:
        """Write what was generated for a task and store the project; refuses the template's files and forbidden ones.

        The batch holds the checkpoint's pointer and says what was written, for the caller's own commit.
        """
        ...

    async def preview(self, *, cause_id: str, agreed: str = "") -> Preview | Failure | Agreement:
        """Build, probe, correct and render; ``cause_id`` names the same job when it runs again.

        Where no file differs from those of the preview that the state names, it is that one, and nothing is made.
        A correction that a person has to agree to is shown to them first; ``agreed`` names the one that they have.
        """
        ...

    async def show(self, preview: Preview) -> Batch:
        """Store the files that a preview shows; the batch holds both, for the caller's own commit.

        Where the state has it already, nothing is stored and no version is made of it.

        Raises:
            InvalidTransition: There is no work whose preview it could be.
        """
        ...

    async def corrected(self, *, cause_id: str) -> Mapping[str, str]:
        """Read the generated files, whole, that are others now than when `preview` began for this call."""
        ...

    async def picture(self, at_s: float, *, width_px: int, height_px: int) -> Picture:
        """Take a picture of the page at a time, inside the sandbox, and store it."""
        ...

    async def start_stream(self) -> str:
        """Start the dev server and return where people reach it."""
        ...


def with_phase_commands(workbench: Workbench, *commands: Command, batch: Batch | None = None) -> Batch:
    """Add phase commands to a batch after trying them on the present state.

    They are applied again when the batch is committed; trying them here means that what the phase refuses becomes the
    tool's own error, which a model can read and act on.

    Raises:
        InvalidInput: The state refuses a command.
    """
    state = workbench.state
    for command in commands:
        state, _ = phases.apply(state, command, now())
    batch = batch or Batch()
    batch.phase_commands.extend(commands)
    return batch
