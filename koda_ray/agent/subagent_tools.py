"""The tools with which an agent spawns subagents, looks after them, and gets what they found."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model

from koda_ray.agent.delegation import Subagent
from koda_ray.agent.subagents import Subagents
from koda_ray.agent.toolkit import Tool, ToolCall, ToolOutcome
from koda_ray.events import NewEvent
from koda_ray.state.records import Batch, MessageRecord
from koda_ray.types import new_id, now

__all__ = ["MAX_WAIT_S", "subagent_tools"]

MAX_WAIT_S = 540.0
_A_WAIT_S = 30.0
_SHOWN_CHARS = 200


class _SpawnInput(BaseModel):
    """A task for somebody else."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=60, description="Its role in a word or two, such as 'fact checker'")
    task: str = Field(
        min_length=1,
        max_length=20_000,
        description="Everything that it needs to know: it sees nothing of this conversation. Say what the result is.",
    )


class _OneInput(BaseModel):
    """One subagent."""

    model_config = ConfigDict(extra="forbid")

    subagent_id: str


class _ResultInput(_OneInput):
    wait_s: float = Field(default=120.0, ge=0, le=MAX_WAIT_S, description="How long to wait for it at most, in seconds")


class _StatusInput(BaseModel):
    """One subagent, or all."""

    model_config = ConfigDict(extra="forbid")

    subagent_id: str | None = Field(default=None, description="All of yours when left out")


class _CancelInput(_OneInput):
    reason: str = Field(default="It is no longer needed.", max_length=500)


def subagent_tools(crew: Subagents, agent: str, depth: int) -> list[Tool]:
    """Make the tools of one agent.

    Args:
        crew: All subagents of the session.
        agent: The agent's id.
        depth: 0 for the one that a person talks to; how deep it is itself otherwise.
    """
    own = _OwnSubagents(crew, agent, depth)
    return [
        Tool(
            name="subagent_spawn",
            description="Give a task to a subagent: an agent of its own that works while you go on, with only the "
            "tools that you name. Good for work that is independent of yours, or that would fill your own memory. "
            "Several can work at the same time. Get what it found with subagent_result; you are also told when your "
            "turn ends.",
            input_model=_spawn_input(crew, deeper=own.deeper),
            effect="idempotent",
            run=own.spawn,
            guarded=False,  # what they do is looked at call by call
            changes=lambda given: crew.may_change(given.get("tools"), delegates=given.get("may_delegate") is True),
        ),
        Tool(
            name="subagent_status",
            description="Look how your subagents are doing, without waiting: how many answers of their model each has "
            "had. To wait for one, use subagent_result.",
            input_model=_StatusInput,
            effect="pure",
            run=own.status,
        ),
        Tool(
            name="subagent_result",
            description="Wait for a subagent to end and read its result. Calls for several wait at the same time.",
            input_model=_ResultInput,
            effect="pure",
            run=own.result,
            timeout_s=MAX_WAIT_S + 30,
        ),
        Tool(
            name="subagent_cancel",
            description="End a subagent whose work is no longer needed, and all that it has spawned.",
            input_model=_CancelInput,
            effect="idempotent",
            run=own.cancel,
            guarded=False,
            changes=lambda _: False,
        ),
    ]


class _OwnSubagents:
    """What one agent may do with the subagents that it has spawned.

    Args:
        crew: All subagents of the session.
        agent: The agent's id.
        depth: How deep it is itself.

    Attributes:
        deeper: Whether its subagents may have some of their own.
    """

    def __init__(self, crew: Subagents, agent: str, depth: int) -> None:
        self._crew = crew
        self._agent = agent
        self._depth = depth
        self.deeper = depth + 1 < crew.delegation.depth

    async def spawn(self, given: Any, call: ToolCall) -> ToolOutcome:
        """Write down a subagent, with its task; whoever has the session begins it."""
        await self._crew.load()
        id = f"sub_{call.id.partition('_')[2]}"  # the call's own: however often it is tried, it is one subagent
        unfinished = sum(each.status == "running" for each in self._crew.known.values())
        if unfinished >= self._crew.delegation.unfinished:
            return _limit(f"{unfinished} subagents are unfinished, and no more may be: wait for one with "
                          "subagent_result, or cancel one", retryable=True)  # fmt: skip
        if (spawned := await self._crew.spawned()) >= self._crew.delegation.total:
            return _limit(f"{spawned} subagents were spawned for this request, and no more may be: do the rest "
                          "yourself, or tell the person what is left", retryable=False)  # fmt: skip
        subagent = Subagent(
            id=id,
            parent=self._agent,
            name=given.name,
            task=given.task,
            tools=tuple(given.tools),
            model=given.model or self._crew.delegation.models[0],
            depth=self._depth + 1,
            delegates=self.deeper and given.may_delegate,
            place=len(self._crew.known),
            created_at=now(),
        )
        message = MessageRecord(
            id=new_id("msg"),
            session_id=self._crew.session_id,
            user_id=self._crew.user_id,
            agent=id,
            position=1,
            role="user",
            content=[{"type": "text", "text": given.task}],
            created_at=subagent.created_at,
        )
        data: dict[str, JsonValue] = {
            "subagentId": id,
            "name": given.name,
            "parent": self._agent,
            "depth": self._depth + 1,
            "model": subagent.model,
            "tools": list(subagent.tools),
        }
        event = NewEvent(type="subagent_start", data=data, cause_id=call.id)
        batch = Batch(beads=[self._crew.row(subagent)], messages=[message], events=[event])
        return ToolOutcome.json(_shown(subagent), batch=batch)

    async def status(self, given: _StatusInput, call: ToolCall) -> ToolOutcome:
        """Say how one does, or all."""
        await self._crew.load()
        if given.subagent_id is None:
            return ToolOutcome.json({"subagents": [await self._about(each) for each in self._crew.of(self._agent)]})
        found = self._own(given.subagent_id)
        return found if isinstance(found, ToolOutcome) else ToolOutcome.json(await self._about(found))

    async def result(self, given: _ResultInput, call: ToolCall) -> ToolOutcome:
        """Wait for one to end, and say what came of it."""
        await self._crew.load()
        found = self._own(given.subagent_id)
        if isinstance(found, ToolOutcome):
            return found
        try:
            async with asyncio.timeout(given.wait_s):
                while self._crew.known[found.id].status == "running" and self._crew.waits_for(found.id) is None:
                    await self._crew.news()
        except TimeoutError:
            pass  # what is known now is the answer
        found = self._crew.known[found.id]
        if found.status == "running":
            about = await self._about(found)
            if given.wait_s >= _A_WAIT_S:  # time counts as news only for who has let some pass
                about["running_s"] = round((now() - found.created_at).total_seconds())
            return ToolOutcome.json(about)
        said: dict[str, JsonValue] = {**_shown(found), "result": found.result}
        return ToolOutcome.json(said, batch=None if found.told else Batch(beads=[self._crew.row(found, told=True)]))

    async def cancel(self, given: _CancelInput, call: ToolCall) -> ToolOutcome:
        """End one."""
        await self._crew.load()
        found = self._own(given.subagent_id)
        if isinstance(found, ToolOutcome):
            return found
        await self._crew.cancel(found.id, given.reason)
        found = self._crew.known[found.id]
        said: dict[str, JsonValue] = {**_shown(found), "result": found.result}
        return ToolOutcome.json(said, batch=Batch(beads=[self._crew.row(found, told=True)]))

    def _own(self, subagent_id: str) -> Subagent | ToolOutcome:
        mine = {each.id: each for each in self._crew.of(self._agent)}
        if subagent_id in mine:
            return mine[subagent_id]
        known = ", ".join(mine) or "none"
        return ToolOutcome.failure(
            "NOT_FOUND", f"You have no subagent {subagent_id[:_SHOWN_CHARS]!r}; yours: {known}.", retryable=True
        )

    async def _about(self, subagent: Subagent) -> dict[str, JsonValue]:
        """Say how one does. There is no clock in it: asked again and again it says the same until something moves."""
        said = _shown(subagent)
        if self._crew.waits_for(subagent.id) is not None:
            said["status"] = "waiting"
            said["note"] = "It waits for a person, who has been asked. End your turn: you hear of it when it is over."
        elif subagent.status == "running":
            said["answers"] = sum(each.role == "assistant" for each in await self._crew.messages(subagent.id))
        return said


def _spawn_input(crew: Subagents, *, deeper: bool) -> type[BaseModel]:
    """Make the shape of a spawn: what may be handed on stands in the schema, so that a model sees it."""
    fields: dict[str, Any] = {}
    names, models = tuple(crew.offered), crew.delegation.models
    if names:
        some: Any = list[Literal[names]]  # pyright: ignore[reportInvalidTypeForm] - known only now
        fields["tools"] = (some, Field(description="What it can use: no more than it needs"))
    else:
        fields["tools"] = (list[str], Field(default_factory=list, max_length=0, description="There is none to give"))
    one: Any = Literal[(*models, None)]
    fields["model"] = (one, Field(default=None, description=f"{models[0]} when left out"))
    described = Field(default=False, description="Whether it may have subagents of its own")
    fields["may_delegate"] = (bool, described) if deeper else (Literal[False], False)
    return create_model("subagent_spawn_input", __base__=_SpawnInput, **fields)


def _shown(subagent: Subagent) -> dict[str, JsonValue]:
    shown: dict[str, JsonValue] = {"subagent_id": subagent.id, "name": subagent.name, "status": subagent.status}
    if subagent.code is not None:
        shown["code"] = subagent.code
    return shown


def _limit(message: str, *, retryable: bool) -> ToolOutcome:
    return ToolOutcome.failure("LIMIT", message, retryable=retryable)
