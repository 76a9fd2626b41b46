from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.errors import InvalidInput
from koda_ray.render.spec import PRESETS, RenderSpec, fit_size, plan_units, unit_hash

BUNDLE = "a" * 64


def spec(**fields: object) -> RenderSpec:
    values: dict[str, object] = {"bundle": BUNDLE, "duration_s": 5.0, "width": 640, "height": 360, "fps": 15} | fields
    return RenderSpec(**values)  # type: ignore[arg-type]


@given(st.floats(0.01, 600), st.integers(1, 120))
def test_units_cover_every_frame_once_on_the_grid(duration_s: float, fps: int) -> None:
    video = spec(duration_s=duration_s, fps=fps)
    units = plan_units(video)
    assert [frame for unit in units for frame in range(unit.start, unit.stop)] == list(range(video.frame_count))
    assert all(unit.start == unit.index * 2 * fps for unit in units)
    assert all(unit.frame_count == 2 * fps for unit in units[:-1])


def test_a_longer_cut_keeps_the_units_of_a_shorter_one() -> None:
    def names(duration_s: float) -> list[str]:
        video = spec(duration_s=duration_s)
        return [unit_hash(video, unit, environment="e", mode="seek") for unit in plan_units(video)]

    assert names(4) == names(6)[:2]
    assert names(5)[:2] == names(6)[:2]
    assert names(5)[2] != names(6)[2]


def test_a_unit_is_named_by_what_decides_its_bytes() -> None:
    video = spec()
    unit = plan_units(video)[1]
    name = unit_hash(video, unit, environment="e", mode="seek")
    for other in ({"crf": 20}, {"width": 320}, {"fps": 30}, {"seed": 2}, {"format": "webm"}, {"bundle": "b" * 64}):
        assert unit_hash(spec(**other), unit, environment="e", mode="seek") != name
    for same in ({"moves": False}, {"strict": False}, {"ready_timeout_s": 3.0}, {"preset": "preview"}):
        assert unit_hash(spec(**same), unit, environment="e", mode="seek") == name
    assert unit_hash(video, unit, environment="f", mode="seek") != name
    assert unit_hash(video, unit, environment="e", mode="replay") != name


@pytest.mark.parametrize(
    ("preset", "size", "expected"),
    [
        ("preview", (1920, 1080), (640, 360, 15, 28)),
        ("preview", (1080, 1920), (360, 640, 15, 28)),
        ("preview", (1000, 1000), (360, 360, 15, 28)),
        ("final", (1920, 1080), (1920, 1080, 60, 18)),
        ("final", (1080, 1350), (1080, 1350, 60, 18)),
        ("720p", (1080, 1920), (720, 1280, 30, 18)),
        ("1080p", (1, 1), (1080, 1080, 30, 18)),
        ("4k", (1920, 1080), (3840, 2160, 30, 18)),
        ("final", (2560, 1080), (1920, 810, 60, 18)),
    ],
)
def test_presets_keep_the_projects_aspect(preset: str, size: tuple[int, int], expected: tuple[int, ...]) -> None:
    video = RenderSpec.from_preset(preset, bundle=BUNDLE, duration_s=1, size=size)  # type: ignore[arg-type]
    assert (video.width, video.height, video.fps, video.crf) == expected


@given(st.integers(1, 8000), st.integers(1, 8000))
def test_fitted_sizes_are_even_and_inside_their_box(width: int, height: int) -> None:
    if not 0.1 <= width / height <= 10:
        with pytest.raises(InvalidInput, match="aspect"):
            fit_size((width, height), short_side_px=1080, long_side_px=1920)
        return
    fitted = fit_size((width, height), short_side_px=1080, long_side_px=1920)
    assert all(side % 2 == 0 for side in fitted)
    assert min(fitted) <= 1080
    assert max(fitted) <= 1920
    assert abs(fitted[0] / fitted[1] - width / height) / (width / height) < 0.02


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("duration_s", 0.0, "duration"),
        ("duration_s", float("nan"), "duration"),
        ("duration_s", 36_000.0, "duration"),
        ("fps", 0, "fps"),
        ("fps", 1000, "fps"),
        ("width", 641, "640 or 642"),
        ("height", 16384, "height"),
        ("crf", 99, "crf"),
        ("format", "avi", "avi"),
    ],
)
def test_a_wrong_value_is_named(field: str, value: object, word: str) -> None:
    with pytest.raises(InvalidInput, match=word):
        spec(**{field: value})


def test_an_unknown_preset_lists_those_there_are() -> None:
    with pytest.raises(InvalidInput, match="final"):
        RenderSpec.from_preset("best", bundle=BUNDLE, duration_s=1)  # type: ignore[arg-type]


def test_a_spec_survives_json() -> None:
    video = RenderSpec.from_preset("final", bundle=BUNDLE, duration_s=7.5)
    assert RenderSpec.from_json(json.loads(json.dumps(video.to_json()))) == video


def test_lower_quality_is_always_a_valid_spec() -> None:
    for preset, (width, height) in itertools.product(PRESETS, ((1920, 1080), (1080, 1920))):
        video = RenderSpec.from_preset(preset, bundle=BUNDLE, duration_s=1, size=(width, height))
        lower = video.at_lower_quality()
        assert lower.width < video.width
        assert lower.fps <= 30
