"""Give a target nonsense for a while: ``python -m tests.fuzz --seconds 300 TARGET``.

Prints how many inputs it took, and each crash with the smallest input that was found for it; ends with 1 where there
was one. What was found and mended stands as an example in ``tests/fuzz/test_fuzz.py``.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.preview import PREVIEW
from tests.fuzz.served import SERVED
from tests.fuzz.targets import TARGETS, FuzzTarget, is_refusal

__all__ = ["ALL", "run"]

ALL: dict[str, FuzzTarget] = {**TARGETS, "preview": PREVIEW, **SERVED}
_ROUND = 200


def run(target: FuzzTarget, *, seconds: float, begin: int = 0, rounds: int = _ROUND) -> tuple[int, list[str]]:
    """Fuzz a target.

    Args:
        target: What.
        seconds: How long; a crash ends it sooner.
        begin: Where the random numbers begin.
        rounds: After how many inputs the time is looked at.

    Returns:
        How many inputs it took, and what crashed, in words.
    """
    with target.around():
        return _run(target, time.monotonic() + seconds, begin, rounds)


def _run(target: FuzzTarget, deadline: float, begin: int, rounds: int) -> tuple[int, list[str]]:
    count = 0
    last: list[object] = []

    def once(value: object) -> None:
        nonlocal count
        count += 1
        try:
            target.check(value)
        except Exception as error:
            if not is_refusal(error):
                last[:] = [value, "".join(traceback.format_exception(error)[-6:])]
                raise

    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    number = begin
    while time.monotonic() < deadline:
        number += 1
        round_ = settings(
            max_examples=rounds,
            deadline=None,
            database=None,
            suppress_health_check=checks,
            phases=(Phase.generate, Phase.shrink),
        )(seed(number)(given(target.given)(once)))
        try:
            round_()
        except Exception:
            return count, [f"{last[0]!r}\n{last[1]}"]
    return count, []


def main() -> int:
    """Fuzz what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(ALL))
    parser.add_argument("--seconds", type=float, default=300, help="how long each is fuzzed")
    parser.add_argument("--seed", type=int, default=0, help="where the random numbers begin")
    asked = parser.parse_args()
    failed = False
    for name in asked.targets or ALL:
        if name not in ALL:
            parser.error(f"there is no target {name!r}: {', '.join(ALL)}")
        count, crashes = run(ALL[name], seconds=asked.seconds, begin=asked.seed)
        sys.stdout.write(f"{name}: {count} inputs in {asked.seconds:g} s, {len(crashes)} crashes\n")
        sys.stdout.flush()
        for crash in crashes:
            failed = True
            sys.stdout.write(f"{crash}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
