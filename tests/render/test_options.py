"""What was left open is filled in: given over preset over page over defaults; platforms and their limits."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from koda_ray.errors import InvalidInput
from koda_ray.render.options import JobOptions, PageContract, check_options, make_spec, needs_page
from koda_ray.render.presets import PLATFORMS, PRESET_NAMES
from koda_ray.render.spec import AudioTrack

BUNDLE = "0" * 64
PAGE = PageContract(duration_s=4.0, fps=25, size=(1280, 720))


def test_what_is_given_wins_over_preset_page_and_defaults() -> None:
    def made(page: PageContract = PAGE, **options: object) -> tuple[int, int, float, float, float]:
        spec = make_spec(JobOptions(**options), bundle=BUNDLE, page=page)  # type: ignore[arg-type]
        return (*spec.picture, spec.scale, spec.rate, spec.duration_s)

    assert made() == (1280, 720, 1.0, 25, 4.0)
    assert made(PageContract(duration_s=2.0)) == (1920, 1080, 1.0, 30, 2.0)
    assert made(size=(640, 360), fps="29.97", duration_s=1) == (640, 360, 1.0, pytest.approx(29.97, abs=1e-2), 1)
    assert made(preset="1080p") == (1920, 1080, 1.5, 30, 4.0)
    assert made(preset="4k", fps=60) == (3840, 2160, 3.0, 60, 4.0)
    assert made(preset="preview") == (640, 360, 0.5, 15, 4.0)
    assert made(preset="youtube") == (1920, 1080, 1.5, 60, 4.0)
    assert made(preset="tiktok") == (1080, 1920, 1.0, 30, 4.0)  # another shape than the page's
    assert made(PageContract(duration_s=1), preset="4k") == (3840, 2160, 2.0, 30, 1.0)
    assert made(preset="tiktok", size=(540, 960)) == (540, 960, 1.0, 30, 4.0)
    assert made(scale=2) == (2560, 1440, 2, 25, 4.0)


def test_a_presets_quality_is_kept_unless_another_is_given() -> None:
    assert make_spec(JobOptions(preset="preview"), bundle=BUNDLE, page=PAGE).crf == 28
    assert make_spec(JobOptions(preset="preview", crf=10), bundle=BUNDLE, page=PAGE).crf == 10


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_each_preset_fits_pages_of_each_shape(preset: str) -> None:
    for size in (None, (1920, 1080), (1080, 1920), (1000, 1000), (1280, 720), (1366, 768)):
        spec = make_spec(JobOptions(preset=preset), bundle=BUNDLE, page=PageContract(duration_s=1, size=size))
        width, height = spec.picture
        if preset in PLATFORMS:
            assert (width, height) == (PLATFORMS[preset].width, PLATFORMS[preset].height)
        elif size is not None:
            assert width / height == pytest.approx(size[0] / size[1], rel=0.01)


@pytest.mark.parametrize(
    ("preset", "limit_s"),
    [("instagram-reels", 90), ("tiktok", 180), ("twitter", 140), ("x", 140), ("youtube-shorts", 180)],
)
def test_a_platforms_limit_is_named_with_the_value_or_the_video_cut(preset: str, limit_s: float) -> None:
    for make in (
        lambda trim: JobOptions(preset=preset, duration_s=limit_s + 0.5, trim=trim),
        lambda trim: make_spec(
            JobOptions(preset=preset, trim=trim), bundle=BUNDLE, page=PageContract(duration_s=limit_s + 0.5)
        ),
    ):
        with pytest.raises(InvalidInput, match=rf"{limit_s + 0.5:g} s is longer than the {limit_s:g} s"):
            make(False)
    cut = make_spec(JobOptions(preset=preset, trim=True), bundle=BUNDLE, page=PageContract(duration_s=limit_s + 0.5))
    assert cut.duration_s == limit_s
    assert (
        make_spec(JobOptions(preset=preset), bundle=BUNDLE, page=PageContract(duration_s=limit_s)).duration_s == limit_s
    )


def test_youtube_has_no_limit_that_a_render_could_reach() -> None:
    assert make_spec(JobOptions(preset="youtube", duration_s=600), bundle=BUNDLE, page=PAGE).duration_s == 600


def test_values_that_cannot_be_are_named() -> None:
    with pytest.raises(InvalidInput, match="nobody says how long"):
        make_spec(JobOptions(), bundle=BUNDLE, page=PageContract())
    with pytest.raises(InvalidInput, match="'vhs' is none of preview"):
        JobOptions(preset="vhs")
    with pytest.raises(InvalidInput, match="duration 0"):
        make_spec(JobOptions(duration_s=0), bundle=BUNDLE, page=PAGE)
    with pytest.raises(InvalidInput, match="fps"):
        JobOptions(fps=0.0)
    with pytest.raises(InvalidInput, match="crf 20 and a bitrate of 800 kbit/s: give one"):
        JobOptions(crf=20, bitrate_kbps=800)


def test_only_what_no_page_could_make_right_is_refused_at_once() -> None:
    check_options(JobOptions(scale=8), bundle=BUNDLE)  # of a small page
    check_options(JobOptions(), bundle=BUNDLE)  # the page may say how long it is
    for wrong in (
        JobOptions(duration_s=0),
        JobOptions(size=(1920, 1080), scale=8),
        JobOptions(alpha=True),
        JobOptions(crf=52),
    ):
        with pytest.raises(InvalidInput):
            check_options(wrong, bundle=BUNDLE)


def test_the_page_is_asked_only_where_something_is_open() -> None:
    assert (
        needs_page(JobOptions()) and needs_page(JobOptions(duration_s=1, fps=30)) and needs_page(JobOptions(preset="x"))
    )
    assert not needs_page(JobOptions(duration_s=1, fps=30, size=(64, 64)))
    assert not needs_page(JobOptions(duration_s=1, preset="tiktok", size=(64, 64)))


def test_options_survive_json() -> None:
    track = AudioTrack(path="a.mp3", start_s=1.5)
    for options in (
        JobOptions(),
        JobOptions(fps=Fraction(30000, 1001), size=(64, 48), audio=(track,), props='{"a": 1}', trim=True, preset="x"),
        JobOptions(fps="24", duration_s=2, strict=False, alpha=True, format="webm", crf=0),
    ):
        plain = json.loads(json.dumps(options.to_json()))
        again = JobOptions.from_json(plain)
        assert again == options or (str(again.fps) == str(options.fps) and again.audio == options.audio)
        assert make_spec(again, bundle=BUNDLE, page=PAGE) == make_spec(options, bundle=BUNDLE, page=PAGE)
