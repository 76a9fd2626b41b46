"""Commands inside the sandbox. The shell that reads the model's words runs within the isolation, never outside it.

What a command does to the project's code is undone, and the result says so (see `koda_ray.tools.code`).
"""

from __future__ import annotations

import json

from pydantic import BaseModel, Field, JsonValue

from koda_ray.agent.toolkit import Tool, ToolCall, ToolOutcome
from koda_ray.errors import CommandBlocked, CommandTimeout, KodaError
from koda_ray.tools.truncation import MAX_TEXT_CHARS, head, head_and_tail
from koda_ray.tools.workbench import Workbench

__all__ = ["shell_tools"]

MAX_TIMEOUT_MS = 120_000
_MOST_NAMED = 40
_NAMES_CHARS = 4_000
_OUTPUT_CHARS = (MAX_TEXT_CHARS - _NAMES_CHARS) // 2
_PUT_BACK = "Commands cannot write code, use generate_code for that. These files are again as they were before"


class _CommandInput(BaseModel):
    """One shell command."""

    command: str = Field(min_length=1, max_length=8000)
    timeout_ms: int = Field(default=30_000, ge=100, le=MAX_TIMEOUT_MS)


def _undone(put_back: list[str]) -> str | None:
    if not put_back:
        return None
    rest = len(put_back) - _MOST_NAMED
    names = ", ".join(put_back[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
    return f"{_PUT_BACK}: {head(names, _NAMES_CHARS)}"


def shell_tools(workbench: Workbench) -> list[Tool]:
    """Make the command tool. It may have any effect, so it is never run twice for one call."""

    async def run_command(given: _CommandInput, call: ToolCall) -> ToolOutcome:
        async with workbench.code_kept() as (sandbox, put_back):
            try:
                shell = ("sh", "-c", given.command)
                result = await sandbox.run(shell, timeout_s=given.timeout_ms / 1000, network=True)
            except (CommandTimeout, CommandBlocked) as error:
                result = error
        undone = _undone(put_back)
        if isinstance(result, KodaError):
            words = f"{result.code}: {result.message}" + (f"\n{undone}" if undone else "")
            return ToolOutcome(content=words, is_error=True)
        stdout, stderr = (head_and_tail(text, _OUTPUT_CHARS) for text in (result.stdout, result.stderr))
        content: dict[str, JsonValue] = {
            "exitCode": result.exit_code,
            "stdout": stdout,
            "stderr": stderr,
            "truncated": result.truncated or (stdout, stderr) != (result.stdout, result.stderr),
        }
        if undone is not None:
            content["putBack"] = undone
        failed = result.exit_code != 0 or undone is not None
        batch = await workbench.checkpoint("command")
        return ToolOutcome(content=json.dumps(content, ensure_ascii=False), is_error=failed, batch=batch)

    return [
        Tool(
            name="sandbox_run_command",
            description="Run a shell command in the project's sandbox. Packages are installed already, and at most "
            "package registries can be reached; use it to look, type-check (npx tsc --noEmit) or clean up. Code that "
            "a command writes is put back: only generate_code writes code.",
            input_model=_CommandInput,
            effect="unsafe",
            run=run_command,
            timeout_s=MAX_TIMEOUT_MS / 1000 + 30,
        )
    ]
