"""Todos: what a person follows while the agents work. Underneath each is a bead of type task."""

from __future__ import annotations

from pydantic import BaseModel, Field

from koda_ray.agent.toolkit import Tool, ToolCall, ToolOutcome
from koda_ray.commands import SetTodos, SetTodoStatus
from koda_ray.tools.touched import touches
from koda_ray.tools.workbench import Workbench, with_phase_commands
from koda_ray.types import Todo, TodoStatus

__all__ = ["planning_tools"]


class _TodoItem(BaseModel):
    """One todo to be."""

    id: str = Field(min_length=1, max_length=40, description="Short and stable, such as 'scene-2'")
    label: str = Field(min_length=1, max_length=120, description="What will be done, for the person to read")


class _SetTodosInput(BaseModel):
    """The whole list, in the order of work."""

    todos: list[_TodoItem] = Field(min_length=1, max_length=40)


class _UpdateTodoInput(BaseModel):
    """One todo's new status."""

    todo_id: str
    status: TodoStatus


def planning_tools(workbench: Workbench) -> list[Tool]:
    """Make the todo tools. They only describe a change of state, which is committed with their outcome."""

    async def set_todos(given: _SetTodosInput, call: ToolCall) -> ToolOutcome:
        todos = tuple(Todo(id=item.id, label=item.label) for item in given.todos)
        return ToolOutcome(content='{"success": true}', batch=with_phase_commands(workbench, SetTodos(todos)))

    async def update_todo(given: _UpdateTodoInput, call: ToolCall) -> ToolOutcome:
        return ToolOutcome(
            content='{"success": true}',
            batch=with_phase_commands(workbench, SetTodoStatus(given.todo_id, given.status)),
        )

    return [
        Tool(
            name="set_todos",
            description="Set the todo list that the person follows, from the accepted plan: set-up, one todo for each "
            "scene, finishing touches, preview. Todos that are done already stay done.",
            input_model=_SetTodosInput,
            effect="idempotent",
            keys=touches("todos"),
            run=set_todos,
            timeout_s=10,
            guarded=False,
            tracks=True,
        ),
        Tool(
            name="update_todo",
            description="Mark a todo active when you begin it and done when it is finished.",
            input_model=_UpdateTodoInput,
            effect="idempotent",
            keys=touches("todos"),
            run=update_todo,
            timeout_s=10,
            guarded=False,
            tracks=True,
        ),
    ]
