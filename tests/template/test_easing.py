"""src/utils: easing, springs, random numbers, against independent references."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from koda_ray.config import Settings
from tests.template.building import node

pytestmark = pytest.mark.needs("node")

Evaluate = Callable[[str], Any]

NAMED = [
    f"ease{way}{kind}"
    for kind in ("Sine", "Quad", "Cubic", "Quart", "Quint", "Expo", "Circ", "Back", "Elastic", "Bounce")
    for way in ("In", "Out", "InOut")
]


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory: pytest.TempPathFactory) -> Evaluate:
    """Evaluate an expression with everything of easing.ts in scope as `u`."""
    folder = tmp_path_factory.mktemp("easing")
    settings = Settings()
    rolldown = settings.node_modules_path.resolve() / "rolldown" / "bin" / "cli.mjs"
    source = settings.template_path / "src" / "utils" / "easing.ts"
    out = folder / "easing.mjs"
    done = node(folder, str(rolldown), str(source), "--format=esm", f"--file={out}")
    assert done.returncode == 0, done.stderr

    def run(expression: str) -> Any:
        script = f"import * as u from {json.dumps(Path(out).as_uri())};console.log(JSON.stringify({expression}))"
        ran = node(folder, "--input-type=module", "--eval", script)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    return run


def test_every_easing_begins_at_0_ends_at_1_and_holds(evaluate: Evaluate) -> None:
    names = [*NAMED, "linear", "ease", "easeIn", "easeOut", "easeInOut"]
    values = evaluate(f"{json.dumps(names)}.map((n) => [-1, 0, 1, 2].map(u[n]))")
    assert values == [[0, 0, 1, 1]] * len(names)


def test_in_and_out_mirror_each_other_and_inout_passes_the_middle(evaluate: Evaluate) -> None:
    kinds = sorted({name.replace("InOut", "").replace("In", "").replace("Out", "")[4:] for name in NAMED})
    rows = evaluate(
        f"{json.dumps(kinds)}.map((k) => [0.1, 0.3, 0.7].map((t) => u['easeIn' + k](t) + u['easeOut' + k](1 - t))"
        ".concat([u['easeInOut' + k](0.5)]))"
    )
    for kind, (*sums, middle) in zip(kinds, rows, strict=True):
        assert sums == pytest.approx([1, 1, 1], abs=1e-9), kind
        assert middle == pytest.approx(0.5, abs=1e-9), kind


def test_known_values(evaluate: Evaluate) -> None:
    got = evaluate(
        "[u.easeOutBack(0.5), u.easeOutElastic(0.3), u.easeInOutCubic(0.25), u.easeOutQuint(0.5),"
        " u.easeInOutQuart(0.25), u.easeOutBounce(0.5)]"
    )
    back = 1 + 2.70158 * (-0.5) ** 3 + 1.70158 * 0.25
    elastic = 2**-3 * math.sin((3 - 0.75) * 2 * math.pi / 3) + 1
    bounce = 7.5625 * (0.5 - 1.5 / 2.75) ** 2 + 0.75
    assert got == pytest.approx([back, elastic, 4 * 0.25**3, 1 - 0.5**5, 8 * 0.25**4, bounce])


@pytest.mark.parametrize(
    "points", [(0.25, 0.1, 0.25, 1), (0.42, 0, 0.58, 1), (0, 1, 1, 0), (1, 0, 0, 1), (0.34, 1.56, 0.64, 1)]
)
def test_cubic_bezier_is_the_height_at_that_time(evaluate: Evaluate, points: tuple[float, ...]) -> None:
    x1, y1, x2, y2 = points
    s = np.linspace(0, 1, 200_001)
    xs = 3 * (1 - s) ** 2 * s * x1 + 3 * (1 - s) * s**2 * x2 + s**3
    ys = 3 * (1 - s) ** 2 * s * y1 + 3 * (1 - s) * s**2 * y2 + s**3
    times = [i / 40 for i in range(1, 40)]
    got = evaluate(f"{times}.map(u.cubicBezier({x1}, {y1}, {x2}, {y2}))")
    # where the curve stands upright a time has many heights
    tolerance = 0.03 if points == (1, 0, 0, 1) else 1e-4
    assert got == pytest.approx(np.interp(times, xs, ys).tolist(), abs=tolerance)


def test_a_spring_solves_its_equation(evaluate: Evaluate) -> None:
    stiffness, mass = 120.0, 1.0
    for damping in (4.0, 13.0, 2 * math.sqrt(stiffness), 60.0):
        step, x, v, path = 1e-4, 0.0, 0.0, {}
        for i in range(20_001):
            if i % 2500 == 0:
                path[i * step] = x
            v += (-stiffness * (x - 1) - damping * v) / mass * step
            x += v * step
        shape = f"{{ stiffness: {stiffness}, damping: {damping} }}"
        got = evaluate(f"{list(path)}.map((t) => u.spring(t, {shape}))")
        assert got == pytest.approx(list(path.values()), abs=2e-3)


def test_random_numbers_are_even_and_repeatable(evaluate: Evaluate) -> None:
    first, second, other = evaluate(
        "[7, 7, 8].map((seed) => { const next = u.mulberry32(seed); return Array.from({ length: 4000 }, next); })"
    )
    assert first == second != other
    counts, _ = np.histogram(first, bins=10, range=(0, 1))
    assert counts.min() > 330
    cells = evaluate("Array.from({ length: 4000 }, (_, i) => u.random(3, i))")
    assert abs(np.mean(cells) - 0.5) < 0.02
    assert abs(np.corrcoef(cells[:-1], cells[1:])[0, 1]) < 0.06


def test_noise_is_smooth_and_stays_in_range(evaluate: Evaluate) -> None:
    line = np.array(evaluate("Array.from({ length: 2000 }, (_, i) => u.noise1D(i / 100))"))
    plane = np.array(evaluate("Array.from({ length: 2000 }, (_, i) => u.noise2D(i / 100, i / 170))"))
    for values in (line, plane):
        assert np.abs(values).max() <= 1
        assert np.abs(np.diff(values)).max() < 0.06
        assert values.std() > 0.15


def test_a_bounce_falls_back_to_the_ground_in_time(evaluate: Evaluate) -> None:
    heights = evaluate("[0, 0.25, 0.5, 0.85, 1.2, 20].map((t) => u.bounceHeight(t, 1, 0.7))")
    assert heights == pytest.approx([1, 0.75, 0, 0.49, 0, 0], abs=1e-9)


def test_progress_and_ranges(evaluate: Evaluate) -> None:
    got = evaluate(
        "[u.progress(1, 2, 2), u.progress(3, 2, 2), u.progress(9, 2, 2), u.progress(2, 2, 0),"
        " u.mapRange(5, 0, 10, 100, 200), u.mapRange(50, 0, 10, 100, 200), u.clamp(-3), u.smoothstep(0, 1, 0.5)]"
    )
    assert got == [0, 0.5, 1, 1, 150, 200, 0, 0.5]
