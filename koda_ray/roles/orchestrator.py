"""The orchestrator: the agent that runs the workflow and never writes code.

This module says what it knows (its prompt), what it can do (names from the one tool registry) and what it is shown of
the session each time. That is never stored: it would be stale in the next turn. What changes seldom stands before the
conversation, what changes all the time after it, so that the prompt cache breaks in neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources

from pydantic import JsonValue

from koda_ray.agent.toolkit import Tool
from koda_ray.state.records import AssetRecord
from koda_ray.tools.delegate import delegate_tools
from koda_ray.tools.files import file_tools
from koda_ray.tools.planning import planning_tools
from koda_ray.tools.render import render_tools
from koda_ray.tools.shell import shell_tools
from koda_ray.tools.ui import ui_tools
from koda_ray.tools.workbench import Workbench
from koda_ray.types import NodeState, Pointed

__all__ = [
    "instructions",
    "opening",
    "orchestrator_tools",
    "request_context",
    "session_block",
    "state_block",
]


_FEEDBACK_STEP = 10


_TAKE = (
    "This is take {number} of one wish, made beside others for the person to choose from. Do not ask which style is "
    "meant. The first take is what comes to mind first; each further one has another idea, composition, palette and "
    "rhythm."
)


@cache
def instructions(agent: str) -> tuple[str, ...]:
    """Read an agent's system prompt from ``prompts/``; one part for the cache breakpoint to follow.

    Args:
        agent: ``orchestrator`` or ``code_generator``.
    """
    return (resources.files("koda_ray.roles").joinpath("prompts", f"{agent}.md").read_text(encoding="utf-8"),)


def orchestrator_tools(workbench: Workbench) -> list[Tool]:
    """Give the orchestrator its tools."""
    return [
        *ui_tools(workbench),
        *planning_tools(workbench),
        *delegate_tools(workbench),
        *file_tools(workbench),
        *shell_tools(workbench),
        *render_tools(workbench),
    ]


def opening(state: NodeState) -> str:
    """Say the first message of a session."""
    style = f"\n\nStyle: {state.style}" if state.style else ""
    return f"Create an animation: {state.prompt}{style}"


def request_context(state: NodeState, assets: Sequence[AssetRecord]) -> dict[str, JsonValue]:
    """What both agents are told of the session: the wish, the choices made and the files to use."""
    plan: JsonValue = state.plan.model_dump(mode="json", by_alias=True) if state.plan else None
    context: dict[str, JsonValue] = {
        "prompt": state.prompt,
        "style": state.style,
        "answers": [answered.model_dump(mode="json", by_alias=True, exclude_none=True) for answered in state.answers],
        "plan": plan,
        "feedback": list(state.feedback),
        "options": state.options.model_dump(mode="json", by_alias=True, exclude_none=True),
        "assets": [{"id": a.id, "name": a.name, "mediaType": a.media_type, "path": a.project_path} for a in assets],
    }
    if state.pointed:
        context["pointed"] = _told(state.pointed)
    if state.options.take is not None:
        context["take"] = _TAKE.format(number=state.options.take)
    return context


def session_block(state: NodeState, assets: Sequence[AssetRecord]) -> str:
    """Write the session block that ends the instructions: the wish, the choices made, the plan, older changes."""
    count = _settled(state)
    pointed = tuple(each for each in state.pointed if each.change <= count)
    older = state.model_copy(update={"feedback": state.feedback[:count], "pointed": pointed})
    return f"<session>{json.dumps(request_context(older, assets), ensure_ascii=False)}</session>"


def _settled(state: NodeState) -> int:
    """Count the changes that stand in the session block: it is written anew for every ten, not for each."""
    return len(state.feedback) // _FEEDBACK_STEP * _FEEDBACK_STEP


def _told(pointed: Iterable[Pointed]) -> list[JsonValue]:
    """Write what was pointed at, as data: the words of it stand among the feedback."""
    return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in pointed]


def state_block(state: NodeState) -> str:
    """Write the state block that follows the newest message of each request."""
    todos: list[JsonValue] = []
    files: list[JsonValue] = []
    if state.execution is not None:
        todos = [todo.model_dump(mode="json", by_alias=True) for todo in state.execution.todos]
        files = list(state.execution.files)
    block: dict[str, JsonValue] = {
        "phase": state.phase,
        "feedback": list(state.feedback[_settled(state) :]),
        "question": state.question.model_dump(mode="json", by_alias=True) if state.question else None,
        "planAccepted": state.plan_accepted,
        "todos": todos,
        "files": files,
        "hasPreview": state.preview is not None,
    }
    if recent := _told(each for each in state.pointed if each.change > _settled(state)):
        block["pointed"] = recent
    return f"<state>{json.dumps(block, ensure_ascii=False)}</state>"
