"""Killed with SIGKILL at every commit and in every tool: no subagent twice, no charge twice, no result lost or told
twice."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from koda_ray.agent.delegation import subagents_among
from koda_ray.agent.ledger import recorded_result
from koda_ray.state.json_store import JSONStore
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store
from tests.agent.crew import crew_model
from tests.agent.outside import effects, record_effect
from tests.agent.warm import Warm
from tests.llm.server import ModelServer, ScriptedModel

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    warm = Warm("tests.agent.crew_victim")
    yield warm
    warm.close()


class Job:
    """The job in one folder, lived through as many processes as it takes."""

    def __init__(self, warm: Warm, folder: Path, kind: str, base_url: str) -> None:
        folder.mkdir()
        self._warm = warm
        self._path = folder / "agents"
        self._url = f"{kind}:{self._path}"
        self._outside = folder / "outside.db"
        record_effect(self._outside, "made", once=True)  # who is killed while it is made leaves half of one
        self._base_url = base_url
        self._report = folder / "report"

    def live(self, dies_at: int = 0) -> int:
        return self._warm.live(self._url, str(self._outside), self._base_url, dies_at, str(self._report))

    def instants(self) -> int:
        return int(self._report.read_text())

    async def check(self) -> None:
        plain, _ = effects(self._outside)
        assert sorted(plain) == ["a", "b"], f"charged {plain}"
        kind = self._url.partition(":")[0]
        store: Store = JSONStore(self._path) if kind == "json" else SqlStore(self._path)
        await store.open()
        try:
            (row,) = await store.list_sessions("local")
            crew = list(subagents_among(await store.beads(row.id)).values())
            assert [(each.status, each.result, each.told) for each in crew] == [
                ("done", "a is charged", True),
                ("done", "b is charged", True),
            ]
            messages = await store.messages(row.id)
            assert {message.agent for message in messages} == {"lead", *(each.id for each in crew)}
            assert all(recorded_result(record) is not None for record in await store.tool_calls(row.id))
            events = await store.events(row.id, limit=1000)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            for type in ("subagent_start", "subagent_end"):
                told = [event.data["subagentId"] for event in events if event.type == type]
                assert sorted(map(str, told)) == sorted(each.id for each in crew), f"{type} twice or never"
        finally:
            await store.close()


@pytest.mark.parametrize("kind", ["sqlite", "json"])
async def test_killed_at_every_instant_nothing_is_lost_or_done_twice(warm: Warm, tmp_path: Path, kind: str) -> None:
    with ModelServer(ScriptedModel(crew_model)) as server:
        whole = Job(warm, tmp_path / "whole", kind, server.base_url)
        assert whole.live() == 0
        await whole.check()
        # each store has every other instant, or half of these, others each time; what happens at one does not depend
        # on the store
        first = (1 if kind == "sqlite" else 2) + random.choice((0, 2))
        ends: list[int] = []
        for instant in range(first, whole.instants() + 1, 4):
            job = Job(warm, tmp_path / str(instant), kind, server.base_url)
            ends.append(job.live(instant))
            assert job.live() == 0, f"killed at instant {instant}"
            await job.check()
        # its tasks are not in lockstep: the last instants may not come
        assert set(ends) <= {-signal.SIGKILL, 0} and ends.count(-signal.SIGKILL) > len(ends) / 2


@pytest.mark.parametrize("kind", ["sqlite", "json"])
async def test_killed_again_and_again(warm: Warm, tmp_path: Path, kind: str) -> None:
    with ModelServer(ScriptedModel(crew_model)) as server:
        for seed in range(3):
            chance, job = random.Random(seed), Job(warm, tmp_path / f"seed {seed}", kind, server.base_url)
            lives = [job.live(chance.randint(1, 14)) for _ in range(chance.randint(2, 5))]
            assert lives[0] == -signal.SIGKILL and set(lives) <= {-signal.SIGKILL, 0}
            assert job.live() == 0, f"seed {seed}"
            await job.check()
