"""The code generator as a tool: the orchestrator says what, the generator writes complete files.

The files go into the sandbox and into a checkpoint before the outcome is recorded. So an outcome in the ledger
means that its files survive the sandbox, and a call without one may run again: the same paths are written again.
"""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, Field, JsonValue

from koda_ray.agent.toolkit import Tool, ToolCall, ToolOutcome
from koda_ray.errors import InvalidInput
from koda_ray.state.records import Batch
from koda_ray.tools.truncation import MAX_TEXT_CHARS
from koda_ray.tools.workbench import Generated, Workbench
from koda_ray.tools.written import list_written, read_back

__all__ = ["SUBAGENT_TOOLS", "delegate_tools"]

SUBAGENT_TOOLS = ("sandbox_read_file", "sandbox_list_files")
"""What a session's subagents may be given. They work beside the orchestrator and each other, so they change nothing."""


class _GenerateInput(BaseModel):
    """What should be written."""

    task: Literal["initial_setup", "create_component", "create_scene", "modify_existing"]
    name: str | None = Field(default=None, max_length=80, description="create_component: the component's name")
    description: str | None = Field(default=None, max_length=4000, description="What it looks like and how it moves")
    scene: int | None = Field(default=None, ge=1, le=40, description="create_scene: the scene's number in the plan")
    files: list[str] = Field(default_factory=list[str], description="modify_existing: paths that must change")
    change: str | None = Field(default=None, max_length=20_000, description="modify_existing: what changes")


def delegate_tools(workbench: Workbench) -> list[Tool]:
    """Make the tool that delegates writing code."""

    def task_of(given: _GenerateInput) -> dict[str, JsonValue]:
        return given.model_dump(mode="json", exclude_none=True, exclude_defaults=False)

    async def proposed(given: _GenerateInput, call: ToolCall) -> str:
        return await workbench.propose(task_of(given), cause_id=call.id)

    async def generate_code(given: _GenerateInput, call: ToolCall) -> ToolOutcome:
        made: Generated | None = None
        try:
            made = await workbench.generate(task_of(given), cause_id=call.id, agreed=call.agreed)
            if (wants := await workbench.unseen(made, task_of(given), cause_id=call.id)) is not None:
                return ToolOutcome(content="", wants=wants, batch=Batch(charges=[*made.charges]))
            batch = await workbench.keep(made.files, task=task_of(given), shown=made.shown)
        except InvalidInput as error:
            paid = Batch(charges=[*made.charges]) if made is not None else None
            return ToolOutcome(content=f"{error.code}: {error.message}", is_error=True, batch=paid)
        batch.charges.extend(made.charges)
        said = json.dumps({"summary": made.summary}, ensure_ascii=False)
        result = {"files": list_written(made.files, max_chars=MAX_TEXT_CHARS - len(said)), "summary": made.summary}
        return ToolOutcome(content=json.dumps(result, ensure_ascii=False), batch=batch)

    return [
        Tool(
            name="generate_code",
            description="Have the code generator write files. initial_setup: project, timing, App. create_component: "
            "one animated component. create_scene: one scene of the plan from components. modify_existing: change what "
            "exists, only the files that need it. The files are written into the project for you, and the result shows "
            "them whole; those without content can be read.",
            input_model=_GenerateInput,
            effect="idempotent",
            run=generate_code,
            timeout_s=900,
            files=read_back,
            preview=proposed,
            paths=("files",),  # the paths that it writes in the end are held to the rules before they are written
        )
    ]
