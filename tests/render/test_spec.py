from __future__ import annotations

import itertools
import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.errors import InvalidInput
from koda_ray.render.names import unit_hash
from koda_ray.render.spec import PRESETS, AudioTrack, RenderSpec, fit_size, frame_rate, plan_units

BUNDLE = "a" * 64


def spec(**fields: object) -> RenderSpec:
    values: dict[str, object] = {"bundle": BUNDLE, "duration_s": 5.0, "width": 640, "height": 360, "fps": 15} | fields
    return RenderSpec(**values)  # type: ignore[arg-type]


@given(st.floats(0.01, 600), st.integers(1, 120))
def test_units_cover_every_frame_once_on_the_grid(duration_s: float, fps: int) -> None:
    video = spec(duration_s=duration_s, fps=fps)
    units = plan_units(video)
    assert [frame for unit in units for frame in range(unit.start, unit.stop)] == list(range(video.frame_count))
    assert all(unit.start == unit.index * fps for unit in units)
    assert all(unit.frame_count == fps for unit in units[:-1])


def test_a_longer_cut_keeps_the_units_of_a_shorter_one() -> None:
    def names(duration_s: float) -> list[str]:
        video = spec(duration_s=duration_s)
        return [unit_hash(video, unit, environment="e", mode="seek") for unit in plan_units(video)]

    assert names(4) == names(6)[:4]
    assert names(4.5)[:4] == names(6)[:4]
    assert names(4.5)[4] != names(6)[4]


def test_a_unit_is_named_by_what_decides_its_bytes() -> None:
    video = spec()
    unit = plan_units(video)[1]
    name = unit_hash(video, unit, environment="e", mode="seek")
    others: list[dict[str, object]] = [{"crf": 20}, {"width": 320}, {"fps": 30}, {"seed": 2}, {"format": "webm"}]
    others += [{"bundle": "b" * 64}, {"scale": 2.0}, {"effort": "small"}, {"bitrate_kbps": 900}, {"props": "[1]"}]
    others += [{"format": "mov", "alpha": True}, {"entry": "other.html"}]
    for other in others:
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
        ("fps", float("nan"), "29.97"),
        ("fps", "fast", "30000/1001"),
        ("fps", True, "fps"),
        ("scale", 0.0, "scale"),
        ("scale", 1.001, "whole pixels"),
        ("alpha", True, "mp4 cannot be transparent"),
        ("bitrate_kbps", 1, "bitrate"),
        ("effort", "much", "small"),
        ("props", "{", "not JSON"),
        ("audio", (AudioTrack(path="a.mp3"),) * 33, "at most 32"),
    ],
)
def test_a_wrong_value_is_named(field: str, value: object, word: str) -> None:
    with pytest.raises(InvalidInput, match=word):
        spec(**{field: value})


def test_an_unknown_preset_lists_those_there_are() -> None:
    with pytest.raises(InvalidInput, match="final"):
        RenderSpec.from_preset("best", bundle=BUNDLE, duration_s=1)  # type: ignore[arg-type]


def test_a_spec_survives_json() -> None:
    plain = RenderSpec.from_preset("final", bundle=BUNDLE, duration_s=7.5)
    rich = spec(fps=29.97, scale=2.0, audio=(AudioTrack(path="a.mp3", volume=0.5),), props='{"a": 1}')
    for video in (plain, rich):
        assert RenderSpec.from_json(json.loads(json.dumps(video.to_json()))) == video


@pytest.mark.parametrize(
    ("rate", "exact"),
    [
        (30, Fraction(30)),
        (23.976, Fraction(24000, 1001)),
        (29.97, Fraction(30000, 1001)),
        ("59.94", Fraction(60000, 1001)),
        ("30000/1001", Fraction(30000, 1001)),
        (12.5, Fraction(25, 2)),
    ],
)
def test_broadcast_rates_are_exact(rate: float | str, exact: Fraction) -> None:
    assert frame_rate(rate) == exact
    video = spec(fps=rate, duration_s=10.0)
    assert video.frame_count == round(10 * exact)
    units = plan_units(video)
    assert [frame for unit in units for frame in range(unit.start, unit.stop)] == list(range(video.frame_count))


def test_a_picture_may_have_more_pixels_than_the_page() -> None:
    assert spec(width=1920, height=1080, scale=2.0).picture == (3840, 2160)
    with pytest.raises(InvalidInput, match="odd"):
        spec(width=250, height=250, scale=0.5)


def test_lower_quality_is_always_a_valid_spec() -> None:
    for preset, (width, height) in itertools.product(PRESETS, ((1920, 1080), (1080, 1920))):
        video = RenderSpec.from_preset(preset, bundle=BUNDLE, duration_s=1, size=(width, height))
        lower = video.at_lower_quality()
        assert lower.width < video.width
        assert lower.fps <= 30
