"""Reading and listing the project in the sandbox; paths are relative to the project's root."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel, Field, JsonValue

from koda_ray.agent.toolkit import Tool, ToolCall, ToolOutcome
from koda_ray.errors import InvalidInput, NotFound
from koda_ray.sandbox.policy import readable
from koda_ray.tools.touched import touches
from koda_ray.tools.truncation import head
from koda_ray.tools.workbench import Workbench

__all__ = ["MAX_LISTED", "file_tools"]


MAX_LISTED = 500
"""Entries in one list; who wants the others asks for a directory below."""


class _ReadInput(BaseModel):
    """One file."""

    path: str = Field(min_length=1, max_length=1024, description="Relative, such as src/App.tsx")


class _ListInput(BaseModel):
    """One directory."""

    path: str = Field(default="src", max_length=1024)
    recursive: bool = True


def file_tools(workbench: Workbench) -> list[Tool]:
    """Make the tools that look at files."""

    async def read_file(given: _ReadInput, call: ToolCall) -> ToolOutcome:
        sandbox = await workbench.sandbox()
        try:
            data = await sandbox.read_file(given.path)
        except (NotFound, InvalidInput) as error:
            return ToolOutcome(content=f"{error.code}: {error.message}", is_error=True)
        text = data.decode("utf-8", errors="replace")
        cut = head(text)
        result = {"content": cut, "sizeBytes": len(data), "truncated": len(cut) < len(text)}
        return ToolOutcome(content=json.dumps(result, ensure_ascii=False))

    async def list_files(given: _ListInput, call: ToolCall) -> ToolOutcome:
        sandbox = await workbench.sandbox()
        try:
            entries = await sandbox.list_files(given.path, recursive=given.recursive)
        except (NotFound, InvalidInput) as error:
            return ToolOutcome(content=f"{error.code}: {error.message}", is_error=True)
        files = [{"path": e.path, "type": e.type, "sizeBytes": e.size_bytes} for e in entries[:MAX_LISTED]]
        listed = {"files": files, "leftOut": len(entries) - len(files)}
        return ToolOutcome(content=json.dumps(listed, ensure_ascii=False))

    def shown(given: Mapping[str, JsonValue], result: str) -> Mapping[str, str | None]:
        read = json.loads(result)
        return {} if read["truncated"] else {readable(str(given["path"])): str(read["content"])}

    return [
        Tool(
            name="sandbox_read_file",
            description="Read a file of the project.",
            input_model=_ReadInput,
            effect="pure",
            keys=touches("project"),
            run=read_file,
            timeout_s=30,
            files=shown,
        ),
        Tool(
            name="sandbox_list_files",
            description="List the project's files.",
            input_model=_ListInput,
            effect="pure",
            keys=touches("project"),
            run=list_files,
            timeout_s=30,
        ),
    ]
