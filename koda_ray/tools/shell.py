"""Commands inside the sandbox. The shell that reads the model's words runs within the isolation, never outside it."""

from __future__ import annotations

import json

from pydantic import BaseModel, Field

from koda_ray.agent.toolkit import Tool, ToolCall, ToolOutcome
from koda_ray.errors import CommandBlocked, CommandTimeout
from koda_ray.tools.workbench import Workbench

__all__ = ["shell_tools"]

MAX_TIMEOUT_MS = 120_000


class _CommandInput(BaseModel):
    """One shell command."""

    command: str = Field(min_length=1, max_length=8000)
    timeout_ms: int = Field(default=30_000, ge=100, le=MAX_TIMEOUT_MS)


def shell_tools(bench: Workbench) -> list[Tool]:
    """Make the command tool. It may have any effect, so it is never run twice for one call."""

    async def run_command(given: _CommandInput, call: ToolCall) -> ToolOutcome:
        sandbox = await bench.sandbox()
        try:
            result = await sandbox.run(("sh", "-c", given.command), timeout_s=given.timeout_ms / 1000)
        except (CommandTimeout, CommandBlocked) as error:
            return ToolOutcome(content=f"{error.code}: {error.message}", is_error=True)
        content = {
            "exitCode": result.exit_code,
            "stdout": result.stdout,
            "stderr": result.stderr,
            "truncated": result.truncated,
        }
        batch = await bench.checkpoint("command")
        return ToolOutcome(content=json.dumps(content, ensure_ascii=False), is_error=result.exit_code != 0, batch=batch)

    return [
        Tool(
            name="sandbox_run_command",
            description="Run a shell command in the project's sandbox. There is no network, and packages are installed "
            "already; use it to look, type-check (npx tsc --noEmit) or clean up.",
            input_model=_CommandInput,
            effect="unsafe",
            run=run_command,
            timeout_s=MAX_TIMEOUT_MS / 1000 + 30,
        )
    ]
