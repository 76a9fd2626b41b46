"""How much of a whole session's prompts is read from the provider's cache, and what of its files stands in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.actors.conftest import SessionWorld
from tests.actors.script import APP, PROJECT, scripted_model
from tests.agent.long_session import cached_share
from tests.llm.server import Answer

pytestmark = [pytest.mark.sandbox, pytest.mark.browser, pytest.mark.full]

SCENES, CHANGES = 24, 3


class Author:
    """A code generator whose scenes are of usual length; a change rewrites one of them."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def __call__(self, request: dict[str, Any]) -> dict[str, str]:
        assert request["files"] == self.files, "the generator is given every file as it is"
        made = self._made(request)
        self.files |= made
        return made

    def _made(self, request: dict[str, Any]) -> dict[str, str]:
        if request["task"] == "initial_setup":
            duration = f"{request['plan']['totalDuration']:g}"
            return {"src/theatre/project.ts": PROJECT.format(duration=duration), "src/App.tsx": APP}
        if request["task"] == "create_scene":
            number = request["description"].split()[1]
            return {f"src/scenes/Scene{number}.tsx": scene(number, "first")}
        change = len(request["feedback"])
        path = f"src/scenes/Scene{change}.tsx"
        return {path: scene(str(change), f"change {change}"), "src/App.tsx": f"{APP}// {change}\n"}


def scene(number: str, words: str) -> str:
    lines = [f"export const step{n} = (t: number) => t * {n} + {number};" for n in range(40)]
    return "\n".join([f"// {words}", *lines, ""])


async def test_a_long_session_reads_nine_tenths_of_its_prompts_from_the_cache(world: SessionWorld) -> None:
    author, whole = Author(), list[bool]()
    script = scripted_model(author, scenes=SCENES)

    def respond(request: dict[str, Any]) -> Answer:
        if request.get("tools"):
            said = "\n".join(
                block.get("text") or block.get("content") or ""
                for message in request["messages"]
                for block in message["content"]
            )
            whole.append(all(json.dumps(text)[1:-1] in said for text in author.files.values()))
        return script(request)

    session = await world.open(respond=respond)
    await world.until(session, "plan")
    await world.say(session, "accept")
    await world.until(session, "preview")
    for change in range(1, CHANGES + 1):
        await world.say(session, "message", text=f"change {change}: faster, and a little bluer")
        await world.until(session, "preview")
    requests = world.requests
    assert len(requests) > 100 and all(whole), "every file stands whole in the orchestrator's prompts, as it is"
    for tools in (True, False):
        share = cached_share([each for each in requests if bool(each.asked.get("tools")) is tools])
        assert share >= 0.9, f"{'the orchestrator' if tools else 'the code generator'}: {share:.3f}"
