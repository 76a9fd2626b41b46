"""Kill the agent kernel for real: ``python -m tests.faults --seconds 40 --json FILE``.

Random kills run for so many seconds, over so many seeds, or until there were so many, on every store or on those that
are named; ``--points`` kills at every named point in turn, or with ``--every N`` at others each time. Exits with 1
where anything was repeated, missing, lost or invalid; what failed is printed with its seed or point, and ``--seed N``
or ``--point NAME`` runs just that again. The figures say ``first``, and ``--first N`` runs all of it again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import secrets
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests import postgres, sqld
from tests.faults.kernel import ending
from tests.faults.kernel.broken import BROKEN
from tests.faults.kernel.campaign import STORES, Campaign, StoreKind
from tests.faults.kernel.runs import Death, Disturbances, JobTally, each_nth, random_plan

_SERVERS = {"postgres": postgres.why_missing, "libsql": sqld.why_missing}


def main() -> int:
    """Run what was asked for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--store", action="append", choices=STORES, help="all that are here when not given")
    parser.add_argument("--seconds", type=float, help="random kills for so long")
    parser.add_argument("--seeds", type=int, help="random kills with so many seeds on each store")
    parser.add_argument("--kills", type=int, help="random kills until so many processes were killed on each store")
    parser.add_argument(
        "--first",
        type=int,
        default=secrets.randbelow(1 << 31),
        help="the first seed, and which of each Nth points; any when not given",
    )
    parser.add_argument("--seed", type=int, help="one seed, again")
    parser.add_argument("--points", action="store_true", help="a kill at every named point")
    parser.add_argument("--point", action="append", default=[], help="a kill at this point")
    parser.add_argument("--times", type=int, default=1, help="so many processes one after the other die at the point")
    parser.add_argument("--wide", action="store_true", help="points of the job with budget, subagent, rewind and fork")
    parser.add_argument("--every", type=int, default=1, help="only each Nth of the points")
    parser.add_argument(
        "--twins", action="store_true", help="two processes at once, which take the job from each other"
    )
    parser.add_argument("--broken", choices=BROKEN, help="break the kernel first, to see that it is found out")
    parser.add_argument("--workers", type=int, default=(os.cpu_count() or 1) + 1, help="jobs at the same time")
    parser.add_argument("--json", type=Path, help="where the figures are written")
    given = parser.parse_args()
    stores: list[StoreKind] = given.store or [kind for kind in STORES if kind not in _SERVERS or not _SERVERS[kind]()]
    if given.twins and given.store is None:
        stores.remove("json")  # for one process, as its lock says
    if given.broken is not None:
        BROKEN[given.broken]()
    began = time.monotonic()
    ending.heed()
    with Campaign.of(stores) as campaign:
        tally = _done(given, stores, campaign)
    report = {**tally.report(), "stores": stores, "first": given.first, "seconds": round(time.monotonic() - began, 1)}
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=2) + "\n")
    shown = {name: value for name, value in report.items() if name not in ("points", "notes")}
    sys.stdout.write(json.dumps(shown) + "\n")
    sys.stderr.write("".join(f"{note}\n" for note in tally.notes))
    return 0 if tally.good else 1


def _done(given: argparse.Namespace, stores: list[StoreKind], campaign: Campaign) -> JobTally:
    if given.kills is None:
        return campaign.run(_tasks(given, stores, campaign), workers=given.workers)
    tally = JobTally()
    for kind in stores:
        tasks = ((kind, random_plan(seed, twins=given.twins)) for seed in itertools.count(given.first))
        tally.add(campaign.run(tasks, workers=given.workers, kills=given.kills))
    return tally


def _tasks(
    given: argparse.Namespace, stores: list[StoreKind], campaign: Campaign
) -> Iterable[tuple[StoreKind, Disturbances]]:
    if given.points or given.point:
        return [
            (kind, _plan(point, given.times, wide=given.wide))
            for kind in stores
            for point in given.point or each_nth(campaign.points(kind, wide=given.wide), given.every, given.first)
        ]
    if given.seed is not None:
        seeds: Iterable[int] = [given.seed]
    elif given.seeds is not None:
        seeds = range(given.first, given.first + given.seeds)
    elif given.seconds is not None:
        seeds = _until(time.monotonic() + given.seconds, given.first)
    else:
        raise SystemExit("say what to do: --seconds, --seeds, --kills, --seed, --points or --point")
    return ((kind, random_plan(seed, twins=given.twins)) for seed in seeds for kind in stores)


def _plan(point: str, times: int, *, wide: bool) -> Disturbances:
    name = f"{'--wide ' * wide}{f'--times {times} ' * (times > 1)}--point '{point}'"
    return Disturbances(name, (Death(at=point),) * times, wide=wide)


def _until(deadline: float, first: int) -> Iterator[int]:
    return itertools.takewhile(lambda _: time.monotonic() < deadline, itertools.count(first))


if __name__ == "__main__":
    sys.exit(main())
