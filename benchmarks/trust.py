"""Attacks on every sandbox that is here, and many streams of one user: what gets through, and what it costs others.

    python -m benchmarks.trust [--quick] --json FILE

``attacks_tried`` counts, for each provider, the attacks of ``tests/sandbox/attacks`` that were made, and
``attacks_through`` those that got what they wanted; each attack is a test there, which says what it must not get.
``attacks_left_out`` counts those that could not be made; why is printed. ``streams_300_p99_ms`` is a request of one
user's while another follows sessions that sleep with 300 streams, ``streams_300_reads_per_s`` how often the database is
read for them a second.

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
from pathlib import Path
from xml.etree import ElementTree

from benchmarks import streams
from koda_ray.config import REPO_ROOT

__all__ = ["attacks", "counted", "main"]

ATTACKS = "tests/sandbox/attacks"
PROVIDERS = ("local", "docker", "gvisor")
STREAMS = 300
TARGETS = {"attacks_through": 0.0, "streams_300_p99_ms": 200.0, "streams_300_reads_per_s": 50.0}
"""What each figure is to stay under; nothing is to get through."""
_QUICK = (f"{ATTACKS}/test_escapes.py", f"{ATTACKS}/test_rights.py", f"{ATTACKS}/test_reach.py")
_KIND = re.compile(r"\[(?:[^\]]*-)?(local|docker|gvisor)(?:-[^\]]*)?\]$")


def attacks(*, quick: bool) -> tuple[dict[str, int], dict[str, int], dict[str, int], list[str]]:
    """Make the attacks.

    Args:
        quick: Only the quick ones, on the local provider.

    Returns:
        By provider: how many were made, how many got through, how many could not be made. Then what is worth telling.
    """
    asked = [*_QUICK, "-k", "local"] if quick else ["--full", ATTACKS]
    with tempfile.TemporaryDirectory(prefix="koda-trust-") as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"--junitxml={report}"]
        environment = {**os.environ, "PYTHONPATH": str(REPO_ROOT)}
        ran = subprocess.run([*command, *asked], cwd=REPO_ROOT, env=environment, capture_output=True, text=True)
        if not report.exists():
            raise RuntimeError(f"the attacks could not be made:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        cases = list(ElementTree.parse(report).iter("testcase"))
    return counted(cases)


def counted(cases: list[ElementTree.Element]) -> tuple[dict[str, int], dict[str, int], dict[str, int], list[str]]:
    """Count a report's cases by provider; returns as `attacks`."""
    tried, through, left_out = Counter[str](), Counter[str](), Counter[str]()
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
            left_out[kind] += 1
            told.add(f"not made at {kind}: {name}: {broken.get('message', '')[:300]}")
        else:
            tried[kind] += 1
    kinds = [kind for kind in PROVIDERS if tried[kind] or left_out[kind]]
    return (
        {kind: tried[kind] for kind in kinds},
        {kind: through[kind] for kind in kinds},
        {kind: left_out[kind] for kind in kinds},
        sorted(told),
    )


def main() -> int:
    """Attack, measure and print; the exit status is 1 where something got through."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the quick attacks on the local provider, in a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go")
    asked = parser.parse_args()
    tried, through, left_out, told = attacks(quick=asked.quick)
    figures: dict[str, object] = {"attacks_tried": tried, "attacks_through": through, "attacks_left_out": left_out}
    measured = asyncio.run(streams.figures(STREAMS, seconds=5 if asked.quick else 20))
    figures |= measured
    for line in told:
        print(line)
    for kind in tried:
        print(f"{kind}: {tried[kind]} attacks, {through[kind]} got through, {left_out[kind]} not made")
    for name, value in measured.items():
        print(f"{name} {value:g}" + (f" (target {TARGETS[name]:g})" if name in TARGETS else ""))
    if asked.json is not None:
        asked.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(any(through.values()))


if __name__ == "__main__":
    sys.exit(main())
