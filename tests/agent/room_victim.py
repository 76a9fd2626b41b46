"""A process with a room of three that do something together, killed at an instant. Run by `tests.agent.warm`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

# imported here, so that no life has to
import anthropic.resources.messages  # noqa: F401

from koda_ray.agent.room import Member, Room
from koda_ray.agent.runtime import Runtime
from koda_ray.llm.anthropic import AnthropicProvider
from tests.agent.crew_victim import ticking
from tests.agent.warm import Clock
from tests.llm.server import Answer, last_text, reply

NAMES = ("ann", "bob", "cid")


def talker(name: str, request: dict[str, Any]) -> Answer:
    """Ann asks both, both answer, ann says that it is done."""
    heard = last_text(request)
    if name != "ann":
        return reply(f"@ann {name} did it.")
    return reply("@bob and @cid, do it." if "person:" in heard else "Both did it.")


def live(url: str, base_url: str, dies_at: int, report: str) -> None:
    """Live until the room is quiet, and write down what was said."""
    asyncio.run(_live(url, base_url, Clock(dies_at), Path(report)))


async def _live(url: str, base_url: str, clock: Clock, report: Path) -> None:
    store = ticking(url, clock)
    await store.open()
    provider = AnthropicProvider("test-key", base_url=base_url)
    members = [Member(name=name) for name in NAMES]
    async with Room("desk", members, runtime=Runtime(provider=provider, store=store)) as room:
        outcome = await room.run("@ann, do it.", key="job")
        assert outcome.kind == "quiet", outcome
        said = [f"{each.position} {each.author}: {each.text}\n" for each in room.transcript]
        told = [event.data["position"] for event in await store.events(room.id) if event.type == "room_message"]
        assert told == [each.position for each in room.transcript]
    await provider.close()
    await store.close()
    report.write_text(f"{clock.now}\n{''.join(said)}")
