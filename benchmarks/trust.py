"""Attacks on every sandbox that is here, and many streams of one user: what gets through, and what it costs others.

    python -m benchmarks.trust [--quick] --json FILE

``attacks_tried`` counts, for each provider, the attacks of ``tests/sandbox/attacks`` that were made, and
``attacks_through`` those that got what they wanted; each attack is a test there, which says what it must not get.
``attacks_left_out`` counts those that could not be made here, ``attacks_broken`` those that broke; why is printed.
``streams_300_p99_ms`` is a request of one user's while another follows sessions that sleep with 300 streams,
``streams_300_reads_per_s`` how often the database is read for them a second.

``--quick`` makes the quick attacks on the local provider alone, and measures for a shorter time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from benchmarks import streams
from koda_ray.config import REPO_ROOT

__all__ = ["Attacks", "attacks", "counted", "main"]

ATTACKS = "tests/sandbox/attacks"
PROVIDERS = ("local", "docker", "gvisor")
STREAMS = 300
TARGETS = {"attacks_through": 0.0, "streams_300_p99_ms": 200.0, "streams_300_reads_per_s": 50.0}
"""What each figure is to stay under; nothing is to get through."""
_QUICK = (f"{ATTACKS}/test_escapes.py", f"{ATTACKS}/test_rights.py", f"{ATTACKS}/test_reach.py")
_ENDED = (0, 1, 5)
"""How pytest ends where all tests that there are were run: none has failed, some have, there are none."""
_KIND = re.compile(r"\[(?:[^\]]*-)?(local|docker|gvisor)(?:-[^\]]*)?\]$")


@dataclass(frozen=True, kw_only=True)
class Attacks:
    """What came of the attacks, by provider.

    Attributes:
        tried: How many were made.
        through: How many of those got what they wanted.
        left_out: How many could not be made here.
        broken: How many broke before it was known what they get, or after.
        told: What is worth telling.
    """

    tried: dict[str, int]
    through: dict[str, int]
    left_out: dict[str, int]
    broken: dict[str, int]
    told: list[str]

    @property
    def are_held(self) -> bool:
        """Whether some were made, all of them to the end, and none got through."""
        return any(self.tried.values()) and not any((*self.through.values(), *self.broken.values()))


def attacks(*, quick: bool) -> Attacks:
    """Make the attacks.

    Args:
        quick: Only the quick ones, on the local provider.
    """
    asked = [*_QUICK, "-k", "local"] if quick else ["--full", ATTACKS]
    with tempfile.TemporaryDirectory(prefix="koda-trust-") as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"--junitxml={report}"]
        environment = {**os.environ, "PYTHONPATH": str(REPO_ROOT)}
        ran = subprocess.run([*command, *asked], cwd=REPO_ROOT, env=environment, capture_output=True, text=True)
        if ran.returncode not in _ENDED or not report.exists():
            raise RuntimeError(f"the attacks could not be made:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        cases = list(ElementTree.parse(report).iter("testcase"))
    return counted(cases)


def counted(cases: list[ElementTree.Element]) -> Attacks:
    """Count a report's cases by provider."""
    tried, through, left_out, broke = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    told: set[str] = set()
    for case in cases:
        name = case.get("name", "")
        found = _KIND.search(name)
        kind = found.group(1) if found else "local"
        skipped = case.find("skipped")
        failed, broken = case.find("failure"), case.find("error")
        if skipped is not None:
            left_out[kind] += 1
            told.add(f"{kind}: {skipped.get('message', '')[:200]}")
        elif failed is not None:
            tried[kind] += 1
            through[kind] += 1
            told.add(f"got through at {kind}: {name}: {failed.get('message', '')[:300]}")
        elif broken is not None:
            broke[kind] += 1
            told.add(f"broke at {kind}: {name}: {broken.get('message', '')[:300]}")
        else:
            tried[kind] += 1
    kinds = [kind for kind in PROVIDERS if tried[kind] or left_out[kind] or broke[kind]]
    return Attacks(
        tried={kind: tried[kind] for kind in kinds},
        through={kind: through[kind] for kind in kinds},
        left_out={kind: left_out[kind] for kind in kinds},
        broken={kind: broke[kind] for kind in kinds},
        told=sorted(told),
    )


def main() -> int:
    """Attack, measure and print; the exit status is 1 where something got through or broke, or nothing was tried."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the quick attacks on the local provider, in a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go")
    asked = parser.parse_args()
    made = attacks(quick=asked.quick)
    figures: dict[str, object] = {
        "attacks_tried": made.tried,
        "attacks_through": made.through,
        "attacks_left_out": made.left_out,
        "attacks_broken": made.broken,
    }
    measured = asyncio.run(streams.figures(STREAMS, seconds=5 if asked.quick else 20))
    figures |= measured
    for line in made.told:
        print(line)
    for kind, tried in made.tried.items():
        print(
            f"{kind}: {tried} attacks, {made.through[kind]} got through, {made.left_out[kind]} not made, "
            f"{made.broken[kind]} broke"
        )
    if not any(made.tried.values()):
        print("no attack was made")
    for name, value in measured.items():
        print(f"{name} {value:g}" + (f" (target {TARGETS[name]:g})" if name in TARGETS else ""))
    if asked.json is not None:
        asked.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(not made.are_held)


if __name__ == "__main__":
    sys.exit(main())
