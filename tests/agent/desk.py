"""A loop over a disk in memory, with a scripted model, and small tools for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, Field

from koda_ray.agent.answer import LoopEvent
from koda_ray.agent.loop import AgentLoop, Limits
from koda_ray.agent.spec import ModelAccess, Observers, Policy, Prompt
from koda_ray.agent.toolkit import Tool, ToolCall, Toolkit, ToolOutcome
from koda_ray.errors import InvalidTransition
from koda_ray.llm.base import Block, ModelProvider, StopReason
from koda_ray.state.records import SideEffect
from tests.agent.journals import ME, Disk, MemoryJournal
from tests.agent.scripted import Break, Given, Provider
from tests.llm.server import results

__all__ = ["Desk", "Path", "RunTool", "echo", "tool", "wait_for_person"]


class Path(BaseModel):
    path: str = Field(max_length=20)


RunTool = Callable[[Any, ToolCall], Any]


def tool(name: str, run: RunTool, *, effect: SideEffect = "unsafe", timeout_s: float = 60, asks: bool = False) -> Tool:
    return Tool(name=name, description=name, input_model=Path, effect=effect, run=run, timeout_s=timeout_s, asks=asks)


async def echo(given: Path, call: ToolCall) -> ToolOutcome:
    return ToolOutcome.json({"path": given.path, "attempt": call.attempt})


async def wait_for_person(given: Path, call: ToolCall) -> ToolOutcome:
    return ToolOutcome(content="", suspend=True)


class Desk:
    """A loop over a disk, with everything that happened at hand."""

    def __init__(
        self,
        model: Callable[[Given], Sequence[Block]] | Sequence[Sequence[Block] | Break],
        *tools: Tool,
        disk: Disk | None = None,
        journal: MemoryJournal | None = None,
        stop: StopReason | None = None,
        state: str = "",
        answered_by: ModelProvider | None = None,
        **limits: Any,
    ) -> None:
        self.disk = disk or (journal.disk if journal is not None else Disk())
        self.provider = Provider(model, stop=stop)
        self.seen: list[LoopEvent] = []
        self.waiting: list[str] = []
        self.loop = AgentLoop(
            ME,
            access=ModelAccess(
                provider=answered_by or self.provider,
                model="m",
                prompt=Prompt(system=("One.", "Two."), context=lambda: state, ready=self._ready),
            ),
            toolkit=Toolkit(tools or [tool("echo", echo)]),
            journal=journal or MemoryJournal(self.disk),
            policy=Policy(limits=Limits(first_wait_s=0.001, **limits)),
            observers=Observers(on_event=self._see),
        )

    async def _ready(self) -> None:
        while self.waiting:
            with suppress(InvalidTransition):  # it was taken back meanwhile
                await self.loop.add_user(self.waiting.pop(0))

    async def _see(self, event: LoopEvent) -> None:
        self.seen.append(event)

    @property
    def results(self) -> list[dict[str, Any]]:
        return results(self.provider.requests[-1])

    def types(self) -> list[str]:
        return [event.type for event in self.disk.events if event.type != "breakpoint_change"]
