"""Talking to the person: what is going on, what was decided, and what needs an answer."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator

from koda_ray.agent.toolkit import Tool, ToolCall, ToolOutcome
from koda_ray.commands import Ask, Propose, Think
from koda_ray.events import NewEvent
from koda_ray.state.records import Batch
from koda_ray.tools.touched import touches
from koda_ray.tools.workbench import Workbench, with_phase_commands
from koda_ray.types import Option, Plan, Question

__all__ = ["ui_tools"]


class _ThinkingInput(BaseModel):
    """A few words."""

    message: str = Field(min_length=1, max_length=100, description="Under 50 characters: 'Shaping the bounce'")


class _MessageInput(BaseModel):
    """Something substantial for the person."""

    content: str = Field(min_length=1, max_length=4000)


class _OptionInput(BaseModel):
    """One exclusive answer."""

    id: str = Field(min_length=1, max_length=40)
    label: str = Field(min_length=1, max_length=80)
    description: str | None = Field(default=None, max_length=300)


class _ApprovalInput(BaseModel):
    """A question with options, or a plan."""

    type: Literal["question", "plan"]
    content: str = Field(min_length=1, max_length=8000, description="The question, or the plan in words")
    options: list[_OptionInput] = Field(default_factory=list[_OptionInput], max_length=8)
    reason: Literal["style", "impossible", "unclear", "rejected"] = "style"
    plan: Plan | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.type == "plan" and self.plan is None:
            raise ValueError("type 'plan' needs the field 'plan'")
        if self.type == "question" and len(self.options) < 2:
            raise ValueError("a question needs at least two exclusive options in 'options'")
        return self


def ui_tools(workbench: Workbench) -> list[Tool]:
    """Make the tools that reach the person."""

    async def set_thinking(given: _ThinkingInput, call: ToolCall) -> ToolOutcome:
        return ToolOutcome(content='{"success": true}', batch=with_phase_commands(workbench, Think(given.message)))

    async def send_message(given: _MessageInput, call: ToolCall) -> ToolOutcome:
        event = NewEvent(type="message", data={"role": "assistant", "content": given.content}, cause_id=call.id)
        return ToolOutcome(content='{"success": true}', batch=Batch(events=[event]))

    async def request_approval(given: _ApprovalInput, call: ToolCall) -> ToolOutcome:
        owes = workbench.state.owes
        if owes not in ("analyze", "plan"):
            return ToolOutcome(
                content=f"Nobody can answer in phase {workbench.state.phase}: the plan is accepted. Use send_message "
                "to explain what you decided, and go on.",
                is_error=True,
            )
        if given.plan is not None and given.type == "plan":
            return ToolOutcome(content="", suspend=True, batch=with_phase_commands(workbench, Propose(given.plan)))
        options = tuple(Option(id=o.id, label=o.label, description=o.description) for o in given.options)
        question = Question(text=given.content, options=options, reason=given.reason)
        return ToolOutcome(content="", suspend=True, batch=with_phase_commands(workbench, Ask(question)))

    return [
        Tool(
            name="set_thinking",
            description="Say in a few words what you are doing now. Update it often.",
            input_model=_ThinkingInput,
            effect="idempotent",
            keys=touches("thinking"),
            run=set_thinking,
            timeout_s=10,
            guarded=False,
        ),
        Tool(
            name="send_message",
            description="Send the person a message: a decision, a limitation, how you read a conflicting request.",
            input_model=_MessageInput,
            effect="idempotent",
            keys=touches("messages"),
            run=send_message,
            timeout_s=10,
            guarded=False,
        ),
        Tool(
            name="request_approval",
            description="Put the one question (exclusive options; own words are always possible) or the plan to the "
            "person, and wait. The result is the answer, or accepted, rejected or changes with the feedback.",
            input_model=_ApprovalInput,
            effect="idempotent",
            run=request_approval,
            timeout_s=10,
            asks=True,
        ),
    ]
