"""How a whole deployment is, over HTTP and on the command line; what Ray would say is written down here."""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from koda_ray.actors.janitor_round import JanitorRound
from koda_ray.actors.nodes import ClusterNode, NodesSeen
from koda_ray.client import KodaClient
from koda_ray.console.cluster import print_cluster
from koda_ray.console.exits import Exit
from koda_ray.errors import KodaError, Unavailable
from koda_ray.types import now
from tests.serve.world import World, world
from tests.shell import Shell
from tests.state import records

OPERATOR, OTHER = "operator-key-of-sixteen", "another-key-of-sixteen"
NODES = NodesSeen(
    nodes=(
        ClusterNode(id="a" * 56, address="10.0.0.1", group="head", status="idle", idle_s=90.0, total={"CPU": 0.0}),
        ClusterNode(
            id="b" * 56, address="10.0.0.2", group="chromium",
            total={"CPU": 16.0, "memory": 32e9, "chromium": 8.0, "chromium_urgent": 4.0, "node:10.0.0.2": 1.0},
            used={"CPU": 3.5, "memory": 7e9, "chromium": 7.0},
        ),
        ClusterNode(id="c" * 56, address="10.0.0.3", group="chromium", status="draining", total={"chromium": 8.0},
                    used={"chromium": 2.0}),
    ),
    lost=1, coming=2, waiting=(({"chromium": 1.0, "CPU": 0.5}, 5), ({"session": 1.0}, 3)),
)  # fmt: skip


@dataclass
class Eyes:
    """What is seen of a cluster, unless its head says nothing."""

    seen: NodesSeen | None = NODES
    told: JanitorRound | None = field(
        default_factory=lambda: JanitorRound(
            woke_at=now(), cleared_at=now() - timedelta(seconds=30), took_s=1.5, machines=3, gone=2, waking=1, failing=1
        )
    )

    async def nodes(self) -> NodesSeen:
        if self.seen is None:
            raise Unavailable("the cluster's head does not answer within 5 s")
        return self.seen

    async def janitor(self) -> JanitorRound:
        if self.told is None:
            raise Unavailable("the janitor does not answer")
        return self.told


@pytest.fixture
def eyes() -> Eyes:
    return Eyes()


@pytest.fixture
async def koda(tmp_path: Path, eyes: Eyes) -> AsyncIterator[World]:
    keys = f"ann={OPERATOR},bob={OTHER}"
    async with world(tmp_path, eyes=eyes, KODA_API_KEYS=keys, KODA_OPERATORS="ann, carl") as found:
        yield found


async def filled(koda: World) -> None:
    """Two users' sessions and renders."""
    awake = await records.active_session(koda.store)
    await records.new_session(koda.store, "bob", owes="analyze")
    await koda.store.release((await records.active_session(koda.store, "bob")).id, 1)
    await koda.store.create_job(records.job("bob"))
    assert awake.epoch == 1


async def test_it_is_told_to_operators_and_to_nobody_else(koda: World) -> None:
    await filled(koda)
    async with KodaClient(koda.url, key=OTHER) as bob:
        with pytest.raises(KodaError) as refused:
            await bob.cluster()
    assert refused.value.code == "NOT_AN_OPERATOR" and "KODA_OPERATORS" in refused.value.message
    async with KodaClient(koda.url, key=OPERATOR) as ann:
        found = await ann.cluster()
    assert found.nodes is not None and [node.status for node in found.nodes] == ["working", "draining", "idle"]
    assert found.nodes[0].resources.keys() == {"CPU", "memory", "chromium", "chromium_urgent"}
    assert found.browsers is not None and (found.browsers.used, found.browsers.total) == (9, 8), "draining takes none"
    assert (found.lost_nodes, found.coming_nodes, found.renders.waiting) == (1, 2, 5)
    assert found.sessions.model_dump() == {"active": 1, "asleep": 2, "owing": 1, "closing": 0}
    assert (found.renders.queued, found.owed.count) == (1, 2) and found.owed.since is not None
    assert found.database.backend == "sqlite" and found.database.rows["sessions"] == 3
    assert found.database.writes > 3 and found.database.size_bytes is not None and found.database.failures == 0
    assert found.janitor is not None and (found.janitor.machines, found.janitor.gone) == (3, 2)
    assert "bob" not in found.model_dump_json() and "ses_" not in found.model_dump_json(), "figures name nobody"


async def test_what_the_head_does_not_say_is_said_and_the_rest_is_there(koda: World, eyes: Eyes) -> None:
    eyes.seen = eyes.told = None
    await filled(koda)
    async with KodaClient(koda.url, key=OPERATOR) as ann:
        found = await ann.cluster()
    assert found.nodes is None and found.browsers is None and found.renders.waiting is None
    assert found.problem == "the cluster's head does not answer within 5 s"
    assert found.janitor_problem == "the janitor does not answer" and found.sessions.active == 1


async def test_a_server_without_ray_says_so(tmp_path: Path) -> None:
    async with world(tmp_path) as alone, KodaClient(alone.url) as client:
        assert (await client.cluster()).problem == "this server is in no Ray cluster"


async def test_the_command_line_shows_it(koda: World, eyes: Eyes, tmp_path: Path) -> None:
    await filled(koda)
    shell = Shell(tmp_path, koda.url)
    shown = await shell("cluster", "status", KODA_API_KEY=OPERATOR)
    assert shown.status == Exit.DONE, shown.err
    lines = dict(line.split("\t", 1) for line in shown.out.splitlines() if not line.startswith("node\t"))
    assert lines["nodes"] == "3 nodes, 2 coming, 1 lost since the head began"
    assert lines["browsers"] == "9 of 8 taken" and lines["sessions"] == "1 active, 2 asleep, 1 at work"
    assert lines["renders"] == "1 queued, 0 under way, 5 pieces waiting for a browser"
    assert lines["owed"].startswith("2 that nobody holds, the oldest from ")
    assert re.match(r"sqlite, [\d.]+ kB, \d+ rows, reads [\d.]+ ms, writes [\d.]+ ms, the slowest", lines["database"])
    assert "cleared 3 machines 3" in lines["janitor"] and "1 that cannot be woken" in lines["janitor"]
    (busy,) = (line for line in shown.out.splitlines() if line.startswith(f"node\t{'b' * 56}"))
    assert busy.split("\t")[2:5] == ["10.0.0.2", "chromium", "working"] and "chromium=7/8" in busy
    eyes.seen = None
    silent = await shell("cluster", "status", "--json", KODA_API_KEY=OPERATOR)
    assert silent.status == Exit.FAILED and json.loads(silent.out)["problem"].startswith("the cluster's head")


async def test_a_person_sees_bars_and_a_table(koda: World) -> None:
    async with KodaClient(koda.url, key=OPERATOR) as ann:
        found = await ann.cluster()
    console = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    print_cluster(console, found)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "━" in text and "idle 1:30" in text and "7/8" in text and "32.0 GB" in text


async def test_a_node_that_can_do_no_work_is_called_so_and_counts_for_none(koda: World, eyes: Eyes) -> None:
    head, busy, draining = NODES.nodes
    more = replace(busy, id="d" * 56, address="10.0.0.4", unfit="full", used={})
    old = replace(busy, id="e" * 56, address="10.0.0.5", unfit="outdated", used={})
    eyes.seen = replace(NODES, nodes=(head, busy, draining, more, old))
    async with KodaClient(koda.url, key=OPERATOR) as ann:
        found = await ann.cluster()
        assert [node.unfit for node in found.nodes or ()] == [None, None, "full", "outdated", None]
        assert found.browsers is not None and found.browsers.total == 8
        eyes.seen = replace(NODES, nodes=(head, more))
        alone = await ann.cluster()
    assert alone.browsers is not None and alone.browsers.total == 8, "with no other, it works as well as it can"
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=140, color_system=None)
        print_cluster(console, found)
        text = console.file.getvalue()  # type: ignore[attr-defined]
        said = (
            ("working, disk full", "working, older version")
            if terminal
            else ("\tworking,full\t", "\tworking,outdated\t")
        )
        assert all(each in text for each in said), text
