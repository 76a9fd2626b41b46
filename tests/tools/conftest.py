"""The orchestrator's tools on a real session at rest: its workbench, its sandbox, its database."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

import pytest

from koda_ray.actors.session import Session
from koda_ray.agent.runner import run_tool
from koda_ray.agent.toolkit import BoundCall, ToolCall, Toolkit, ToolOutcome
from koda_ray.roles.orchestrator import orchestrator_tools
from koda_ray.sandbox.base import Sandbox
from koda_ray.state.records import Batch
from koda_ray.types import Preview, new_id
from tests.actors.conftest import SessionWorld, world

__all__ = ["Tools", "world"]


@dataclass
class Tools:
    """Calls tools as the loop does, and commits what they leave with their outcome."""

    world: SessionWorld
    session: Session
    toolkit: Toolkit

    @classmethod
    def of(cls, session: Session, world: SessionWorld) -> Self:
        return cls(world, session, Toolkit(orchestrator_tools(session.workbench)))

    async def call(self, name: str, **given: Any) -> ToolOutcome:
        bound = self.toolkit.bind(name, given)
        assert isinstance(bound, BoundCall), bound
        outcome = await run_tool(bound, ToolCall(id=new_id("call"), attempt=1, agent="orchestrator", name=name))
        if outcome.batch is not None:
            await self.session.core.commit(outcome.batch)
        return outcome

    async def json(self, name: str, **given: Any) -> dict[str, Any]:
        """Call a tool that must succeed."""
        outcome = await self.call(name, **given)
        assert not outcome.is_error, outcome.content
        return json.loads(outcome.content)

    async def sandbox(self) -> Sandbox:
        return await self.session.project.sandbox()

    async def keep(self, files: dict[str, str]) -> None:
        """Write files as the code generator does."""
        await self.session.core.commit(await self.session.workbench.keep(files))

    async def shown(self) -> Preview:
        """Have the files as they are be those of the session's preview, without rendering them; the work goes on."""
        core, saved = self.session.core, await self.world.store.latest_checkpoint(self.session.session_id)
        assert saved is not None
        named = Preview(video_url="/v1/video", job_id="job_1", bundle="b1", duration=2, checkpoint_id=saved.id)
        await core.commit(Batch(), patch={"preview": named})
        return named


@pytest.fixture
async def tools(world: SessionWorld) -> Tools:
    return Tools.of(await world.at_rest(), world)
