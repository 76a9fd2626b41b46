"""What the orchestrator's prompts hold, and how much of them is read from the cache."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

from koda_ray.agent.loop import AgentLoop, Limits
from koda_ray.agent.spec import ModelAccess, Policy, Prompt
from koda_ray.agent.toolkit import ToolCall, Toolkit, ToolOutcome
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.llm.base import Message
from koda_ray.roles.offline.conversation import read_state
from koda_ray.roles.orchestrator import instructions, orchestrator_tools, session_block, state_block
from koda_ray.tools.workbench import Workbench
from koda_ray.tools.written import list_written
from koda_ray.types import NodeState
from tests.actors.script import plan_of
from tests.agent.journals import ME, Disk, MemoryJournal
from tests.agent.long_session import cached_share
from tests.llm.server import Call, ModelServer, ScriptedModel, reply

TURNS = 25


def state_after(changes: int) -> NodeState:
    return NodeState.model_validate(
        {
            "node_id": "nod_1", "user_id": "local", "project_id": "prj_1", "session_id": "ses_1", "phase": "executing",
            "owes": "execute", "prompt": "A dot crosses the picture, smooth", "plan": plan_of(12), "style": "smooth",
            "plan_accepted": True, "feedback": [f"change {n}: faster, and a little bluer" for n in range(changes)],
            "execution": {"files": [f"src/scenes/Scene{n}.tsx" for n in range(6)]},
        }
    )  # fmt: skip


def test_every_change_that_was_asked_for_is_told_once() -> None:
    for changes in (0, 9, 10, 23):
        state = state_after(changes)
        block = json.loads(state_block(state).removeprefix("<state>").removesuffix("</state>"))
        assert len(block["feedback"]) < 10
        message = Message(role="user", content=({"type": "text", "text": state_block(state)},))
        read = read_state([message], ("You lead.", session_block(state, [])))
        assert read.feedback == state.feedback and read.prompt == state.prompt and read.plan == state.plan


async def test_a_session_of_many_changes_reads_nine_tenths_of_its_prompts_from_the_cache() -> None:
    changes, step = 0, 0
    calls = [
        Call("set_thinking", {"message": "Making it faster"}),
        Call("generate_code", {"task": "modify_existing", "files": ["src/scenes/Scene1.tsx"], "change": "0.5 s less"}),
        Call("render_preview"),
    ]

    def model(request: Any) -> Any:
        nonlocal step
        step = (step + 1) % 4
        return reply(calls[step - 1]) if step else reply("It is faster now. The colour could be changed next.")

    async def run(given: object, call: ToolCall) -> ToolOutcome:
        made = {"files": list_written({"src/scenes/Scene1.tsx": scene()}), "summary": "Scene 1 is faster."}
        return ToolOutcome(content=json.dumps(made if call.name == "generate_code" else {}))

    def scene() -> str:
        return "\n".join(f"export const move{changes}_{line} = ease({line}, {changes});" for line in range(50))

    with ModelServer(ScriptedModel(model)) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        loop = AgentLoop(
            ME,
            access=ModelAccess(
                provider=provider,
                model="claude-sonnet-5-5",
                prompt=Prompt(
                    system=instructions("orchestrator"),
                    context=lambda: state_block(state_after(changes)),
                    briefing=lambda: session_block(state_after(changes), []),
                ),
            ),
            toolkit=Toolkit(replace(tool, run=run) for tool in orchestrator_tools(cast("Workbench", None))),
            journal=MemoryJournal(Disk()),
            policy=Policy(limits=Limits(turns=500)),
        )
        for change in range(TURNS):
            changes = change + 1
            await loop.add_user(f"change {change}: faster, and a little bluer")
            assert (await loop.run()).kind == "end_turn"
        await provider.close()
        share = cached_share(server.requests)
    assert len(server.requests) == TURNS * 4
    assert share >= 0.9, f"{share:.3f}"
    for number, record in enumerate(server.requests):  # the file as it is now, whole, in each prompt
        written = number // 4 + (number % 4 > 1)
        prompt = json.dumps(record.asked["messages"])
        assert not written or all(f"move{written}_{line} = " in prompt for line in range(50)), number
