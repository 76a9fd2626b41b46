"""Films measured in their pixels: built by Vite, shown by the renderer's own browser, without a network."""

from __future__ import annotations

import asyncio
import colorsys
import hashlib
import io
import itertools
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image

from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from koda_ray.roles.offline import generate_files, make_plan, parse_brief
from tests.template.building import TemplateBuilds, write_project

pytestmark = [
    pytest.mark.browser,
    pytest.mark.needs("node"),
    pytest.mark.asyncio(loop_scope="module"),
]

FPS = 20.0
SHOWN = "animate this, smooth, 6 seconds"
BLUE_BALL = "bouncing ball, smooth, no shadow, blue, on white, 6 seconds"
CAPTIONED = 'A bouncing ball, playful, with the caption "Hello there"'
ISSUE = {
    "ball": "Create a bouncing ball animation, playful",
    "logo": "smooth minimal logo reveal for Acme, 6 seconds",
    "title": "cinematic title 'The Long Night' with particles",
    "bars": "bar chart of 12, 30, 45, 70 growing, blue, 8s",
    "countdown": "count down from 5",
    "steps": "the quarterly roadmap in three steps",
    "japanese": "夜空に花火が上がる, スムーズに",
}
FILMS: dict[str, tuple[str, ...]] = {
    **{name: (prompt,) for name, prompt in ISSUE.items()},
    "blue ball": (BLUE_BALL,),
    "line": ("line chart of revenue: Jan 10, Feb 22, Mar 18, smooth",),
    "calm countdown": ("smooth countdown from 3",),
    "changed ball": (BLUE_BALL, "make the ball red", "twice as fast"),
}
"""A prompt and the change requests after it."""
TWICE = ("ball", "title")
MOMENTS = (0.7, 1.7, 2.7, 4.2)
Picture = np.ndarray
"""(height, width, 3) uint8 RGB."""


def files_of(prompt: str, *feedback: str) -> dict[str, str]:
    plan = make_plan(parse_brief(prompt)).model_dump(mode="json", by_alias=True)
    return generate_files({"task": "create_component", "prompt": prompt, "plan": plan, "feedback": list(feedback)})


def files_pointed(prompt: str, *notes: dict[str, object]) -> dict[str, str]:
    """Write a film of which something was pointed at."""
    plan = make_plan(parse_brief(prompt)).model_dump(mode="json", by_alias=True)
    pointed = [{"change": n, "notes": [{"time": 1.0, **note}]} for n, note in enumerate(notes, 1)]
    asked = {"feedback": [str(note["text"]) for note in notes], "pointed": pointed}
    return generate_files({"task": "create_component", "prompt": prompt, "plan": plan, **asked})


def files_again(prompt: str) -> dict[str, str]:
    """Write a film's files in a Python of its own: neither memory nor the order of a set is shared."""
    script = f"import json, sys; from {__name__} import files_of; print(json.dumps(files_of(sys.argv[1])))"
    done = subprocess.run(
        [sys.executable, "-c", script, prompt], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Bundle]:
    """Every film of this module, each from a project of its own; what is made twice is written and built by others."""
    folder = tmp_path_factory.mktemp("films")
    made = [write_project(folder / name, files_of(*said)) for name, said in FILMS.items()]
    again = [write_project(folder / f"{name} again", files_again(ISSUE[name])) for name in TWICE]
    builds = [TemplateBuilds(made), TemplateBuilds(again)]
    try:
        return builds[0].bundles() | builds[1].bundles()
    finally:
        for build in builds:
            build.end()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with await Browser.launch() as launched:
        yield launched


async def shoot(
    browser: Browser,
    bundle: Bundle,
    times: Sequence[float],
    *,
    size: tuple[int, int] = (640, 360),
    entry: str = "index.html",
) -> list[Picture]:
    """Show a film and take its picture at each time, in seconds."""
    page = await LoadedPage.open(browser, bundle, PageSetup(width=size[0], height=size[1], seed=1, entry=entry))
    try:
        await page.wait_ready(60)
        pictures: list[Picture] = []
        for time in times:
            await page.go(round(time * FPS), FPS)
            png = await page.picture(image="png")
            pictures.append(np.asarray(Image.open(io.BytesIO(png)).convert("RGB")))
        return pictures
    finally:
        await page.close()


async def passes_of(browser: Browser, film: Bundle, width: int, height: int) -> tuple[int, int]:
    """(frames that were composited, passes that it took) while some are shown at a size."""
    names: list[str] = []
    over = asyncio.Event()
    connection = browser.connection
    connection.on("Tracing.dataCollected", lambda told: names.extend(each.get("name", "") for each in told["value"]))
    connection.on("Tracing.tracingComplete", lambda _: over.set())
    page = await LoadedPage.open(browser, film, PageSetup(width=width, height=height, seed=1, entry="index.html"))
    try:
        await page.wait_ready(60)
        await page.go(0, FPS)
        await page.picture(image="png")
        await connection.send("Tracing.start", {"traceConfig": {"includedCategories": ["viz"]}})
        for frame in range(10, 15):
            await page.go(frame, FPS)
            await page.picture(image="png")
        await connection.send("Tracing.end")
        async with asyncio.timeout(60):
            await over.wait()
    finally:
        await page.close()
    return names.count("DirectRenderer::DrawFrame"), names.count("DirectRenderer::DrawRenderPass")


@pytest.mark.full
async def test_a_scaled_picture_of_a_canvas_and_what_is_over_it_takes_no_pass_more(
    films: Mapping[str, Bundle], browser: Browser
) -> None:
    """Drawn at the design's size first and then scaled, a frame of 640x360 costs half as much again."""
    as_designed = await passes_of(browser, films["ball"], 1920, 1080)
    assert as_designed[0] >= 5
    assert await passes_of(browser, films["ball"], 640, 360) == as_designed


@pytest.mark.full
async def test_what_is_pointed_at_looks_otherwise_and_all_around_it_as_before(browser: Browser, tmp_path: Path) -> None:
    """The caption, the ground and its light are the same pixels; the ball is red, or is not there."""
    said: dict[str, tuple[dict[str, object], ...]] = {
        "before": (),
        "red": ({"text": "red", "component": "Ball"},),
        "gone": ({"text": "remove this", "component": "Ball"},),
        "words": ({"text": "red", "element": "Hello there", "component": "Caption"},),
        "bare": ({"text": "remove this", "component": "Backdrop"},),
    }
    made = [write_project(tmp_path / name, files_pointed(CAPTIONED, *notes)) for name, notes in said.items()]
    builds = TemplateBuilds(made)
    try:
        bundles = builds.bundles()
    finally:
        builds.end()
    shown = {name: (await shoot(browser, bundles[name], [2.0]))[0].astype(int) for name in said}
    ball, caption = np.s_[20:290, 200:440], np.s_[300:345, 100:540]
    with_shadow = np.s_[20:345, 160:480]
    changed = {name: np.abs(picture - shown["before"]).max(axis=2) > 3 for name, picture in shown.items()}
    for name, place in (("red", ball), ("gone", with_shadow), ("words", caption)):
        assert changed[name][place].any(), name
        changed[name][place] = False
        assert not changed[name].any(), name
    patches = np.abs(shown["red"] - shown["before"]).max(axis=2) > 12
    r, g, b = (shown["red"][patches][:, i].mean() for i in range(3))
    assert r > g + 60 and r > b + 60
    edge = np.s_[:, :40]
    assert np.ptp(shown["bare"][edge], axis=(0, 1)).max() < 15 < 30 < np.ptp(shown["before"][edge], axis=(0, 1)).max()
    assert np.median(np.abs(shown["bare"] - shown["before"])[patches]) <= 3, "the ball went with its backdrop"


def first_red_then_blue(path: Path) -> None:
    """Make a film of two seconds."""
    colours = [f"color={colour}:s=320x180:d=1:r=25" for colour in ("red", "blue")]
    command = ["ffmpeg", "-v", "error", *(word for each in colours for word in ("-f", "lavfi", "-i", each))]
    command += ["-filter_complex", "[0][1]concat=n=2", "-c:v", "libx264", "-pix_fmt", "yuv420p", str(path)]
    subprocess.run(command, check=True, timeout=60)


@pytest.mark.full
async def test_an_uploaded_film_is_shown_at_its_own_time(browser: Browser, tmp_path: Path) -> None:
    asset = {"id": "ast_1", "name": "cat.mp4", "mediaType": "video/mp4", "path": "public/assets/ast_1.mp4"}
    plan = make_plan(parse_brief(SHOWN, assets=[asset])).model_dump(mode="json", by_alias=True)
    files = generate_files({"task": "create_component", "prompt": SHOWN, "plan": plan, "assets": [asset]})
    project = write_project(tmp_path / "film", files)
    (project / "public" / "assets").mkdir(parents=True, exist_ok=True)
    first_red_then_blue(project / asset["path"])
    builds = TemplateBuilds([project])
    try:
        (bundle,) = builds.bundles().values()
    finally:
        builds.end()
    pictures = await shoot(browser, bundle, [0.5, 1.5, 2.5, 3.5])  # it begins again where it is the shorter one
    red_or_blue = ["red" if int(p[180, 320, 0]) > int(p[180, 320, 2]) else "blue" for p in pictures]
    assert red_or_blue == ["red", "blue", "red", "blue"]


def blue_columns(picture: Picture) -> list[tuple[int, int]]:
    """(left, height) of each run of columns in which something strongly blue stands, in pixels."""
    r, g, b = (picture[..., i].astype(int) for i in range(3))
    blue = (b - r > 60) & (b > 150) & (b - g > 20)
    heights = blue.sum(axis=0)
    runs: list[tuple[int, int]] = []
    start = None
    for x, height in enumerate([*heights, 0]):
        if height > 3 and start is None:
            start = x
        elif height <= 3 and start is not None:
            if x - start > 8:
                runs.append((start, int(np.median(heights[start + 3 : x - 3]))))
            start = None
    return runs


@pytest.mark.full
async def test_bars_stand_in_the_proportion_of_their_figures(films: Mapping[str, Bundle], browser: Browser) -> None:
    first, grown = await shoot(browser, films["bars"], (0.0, 5.2), size=(1280, 720))
    runs = blue_columns(grown)
    assert len(runs) == 4
    unit = runs[3][1] / 70
    for (_, height), value in zip(runs, (12, 30, 45, 70), strict=True):
        assert height / unit == pytest.approx(value, rel=0.03)
    assert first.std() > 2, "the first picture is blank"


@pytest.mark.full
async def test_a_line_chart_says_the_figure_of_each_point_that_it_has_passed(
    films: Mapping[str, Bundle], browser: Browser
) -> None:
    """Above the middle point, which is the highest, nothing stands at first and its figure at last."""
    first, last = await shoot(browser, films["line"], (0.0, 5.5), size=(1280, 720))
    above = np.s_[180:205, 590:640]
    assert first[above].std(axis=(0, 1)).max() < 5
    assert last[above].std(axis=(0, 1)).max() > 20


@pytest.mark.full
async def test_a_count_of_5_to_1_is_legible_at_each_second(films: Mapping[str, Bundle], browser: Browser) -> None:
    """In the middle of second k stands the digit 5 - k, as the film's own font draws it: large, still and alone."""
    digits = await drawn_digits(browser, films["countdown"], files_of(ISSUE["countdown"])["src/theme.ts"])
    times = [k + 0.5 for k in range(5)]
    pictures = await shoot(browser, films["countdown"], [t + d for t in times for d in (0, 0.15)])
    read: list[int] = []
    for picture, after in zip(pictures[::2], pictures[1::2], strict=True):
        shape, same = standing(picture), standing(after)
        rows, columns = np.where(shape)
        assert np.ptp(rows) > 120, "the digit is small"
        assert abs(columns.mean() - 320) < 40
        assert overlap(shape, same) > 0.97, "the digit moves when it should be read"
        fits = [fit(shape, digit) for digit in digits]
        best = int(np.argmax(fits))
        assert fits[best] > 0.95, f"this is no digit: {fits}"
        assert fits[best] - max(fits[:best] + fits[best + 1 :]) > 0.1, f"this may be several digits: {fits}"
        read.append(best)
    assert read == [5, 4, 3, 2, 1]


@pytest.mark.full
async def test_a_count_is_never_an_empty_ring(films: Mapping[str, Bundle], browser: Browser) -> None:
    """Something with edges stands in the middle on each beat and at zero, and a frame to either side of them."""
    for name, numbers in (("countdown", 5), ("calm countdown", 3)):
        beats = [k / FPS + number for number in range(numbers + 1) for k in (-1, 0, 1) if number or k >= 0]
        for at, picture in zip(beats, await shoot(browser, films[name], beats), strict=True):
            middle = picture[90:270, 240:400].astype(int).mean(axis=2)
            assert np.abs(np.diff(middle, axis=1)).max() > 20, f"{name}: nothing stands there at {at:g} s"


async def drawn_digits(browser: Browser, film: Bundle, theme: str) -> list[np.ndarray]:
    """Draw 0 to 9 with a film's font and nothing else of it; return each as (height, width) bool, cut to its ink."""
    (name,) = re.findall(r"type: \{ family: FONT\.(\w+)", theme)
    (weight,) = re.findall(r"weight: (\d+)", theme)
    sheets = "".join(f"<link rel=stylesheet href='{path}'>" for path in film.files if path.endswith(".css"))
    family = {"display": "Sora Variable", "sans": "Inter Variable", "serif": "Playfair Display Variable"}[name]
    cell = 160
    spans = "".join(f"<b style='left:{cell * n + 20}px'>{n}</b>" for n in range(10))
    html = (
        f"<!doctype html>{sheets}<style>html,body{{margin:0;background:#fff}}"
        f"b{{position:absolute;top:0;color:#000;font:{weight} 180px/240px '{family}';"
        f"font-variant-numeric:lining-nums tabular-nums}}</style><body>{spans}"
    )
    page = Bundle({**film.files, "digits.html": html.encode()})
    (picture,) = await shoot(browser, page, [0], size=(cell * 10, 240), entry="digits.html")
    ink = picture.mean(axis=2) < 128
    return [cut(ink[:, cell * n : cell * (n + 1)]) for n in range(10)]


def standing(picture: Picture) -> np.ndarray:
    """Return where the number stands, inside the ring: pixels far from the ground's colour, (height, width) bool."""
    ground = np.median(picture[60:300, 225:255].reshape(-1, 3), axis=0)
    far = np.abs(picture.astype(int) - ground).sum(axis=2) > 150
    y, x = np.ogrid[:360, :640]
    return far & ((x - 320) ** 2 + (y - 180) ** 2 < 132**2)


def cut(ink: np.ndarray) -> np.ndarray:
    """Cut a shape to its ink."""
    rows, columns = np.where(ink)
    return ink[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Return what two shapes share, of what either covers."""
    return float((one & other).sum() / (one | other).sum())


def fit(shape: np.ndarray, digit: np.ndarray) -> float:
    """Return how well a digit, brought to the shape's height, covers the shape; 1 is wholly."""
    seen = cut(shape)
    height, width = seen.shape
    wide = round(digit.shape[1] * height / digit.shape[0])
    scaled = np.asarray(Image.fromarray(digit).resize((wide, height)))
    frame = max(width, wide) + 2
    placed = [np.zeros((height, frame), bool) for _ in range(2)]
    for canvas, drawn in zip(placed, (seen, scaled), strict=True):
        left = (frame - drawn.shape[1]) // 2
        canvas[:, left : left + drawn.shape[1]] = drawn
    return max(overlap(placed[0], np.roll(placed[1], shift, axis=1)) for shift in (-1, 0, 1))


@pytest.mark.full
async def test_the_same_prompt_gives_the_same_video(films: Mapping[str, Bundle], browser: Browser) -> None:
    """Two films of one prompt, written and built by other processes, are the same to the last pixel."""
    for name in TWICE:
        hashes = [
            [hashlib.sha256(picture.tobytes()).hexdigest() for picture in await shoot(browser, films[built], MOMENTS)]
            for built in (name, f"{name} again")
        ]
        assert hashes[0] == hashes[1], name
        assert len(set(hashes[0])) == len(MOMENTS), f"{name} does not move"


@pytest.mark.full
async def test_different_prompts_give_visibly_different_videos(films: Mapping[str, Bundle], browser: Browser) -> None:
    """Any two of the films differ at each moment: in a good part of the picture, and in what stands where."""
    shown = {name: await shoot(browser, films[name], MOMENTS, size=(320, 180)) for name in ISSUE}
    for one, other in itertools.combinations(shown, 2):
        changed: list[float] = []
        for time, a, b in zip(MOMENTS, shown[one], shown[other], strict=True):
            changed.append(float(np.mean(np.abs(a.astype(int) - b).max(axis=2) > 24)))
            assert changed[-1] > 0.08, f"{one} and {other} look alike at {time} s"
            alike = np.corrcoef(relief(a), relief(b))[0, 1]
            assert alike < 0.8, f"{one} and {other} show the same thing in other colours at {time} s"
        assert np.mean(changed) > 0.2, f"{one} and {other} look alike: {changed}"


def relief(picture: Picture) -> np.ndarray:
    """Return where a picture departs from its ground, whatever the colours: 36 x 64 values in a row."""
    flat = picture.astype(float)
    ground = np.median(flat.reshape(-1, 3), axis=0)
    far = np.abs(flat - ground).sum(axis=2)
    return far.reshape(36, 5, 64, 5).mean(axis=(1, 3)).ravel()


@pytest.mark.full
async def test_a_ball_turns_red_and_twice_as_fast(films: Mapping[str, Bundle], browser: Browser) -> None:
    """Two films of one prompt: the second after two change requests. The same moment half as late, in another hue."""
    slow_step, fast_step = 2 / FPS, 1 / FPS
    slow = await shoot(browser, films["blue ball"], [n * slow_step for n in range(24)], size=(320, 180))
    fast = await shoot(browser, films["changed ball"], [n * fast_step for n in range(24)], size=(320, 180))
    period_slow, period_fast = period(slow, "blue", slow_step), period(fast, "red", fast_step)
    assert period_fast == pytest.approx(period_slow / 2, rel=0.08)
    blue, red = hue_of(slow[0]), hue_of(fast[0])
    assert 190 < blue < 260
    assert red < 20 or red > 340


def hue_of(picture: Picture) -> float:
    """Hue in degrees of the picture's most saturated pixels."""
    flat = picture.reshape(-1, 3) / 255
    saturation = flat.max(axis=1) - flat.min(axis=1)
    return colorsys.rgb_to_hsv(*flat[saturation > 0.4].mean(axis=0))[0] * 360


def period(pictures: Sequence[Picture], colour: str, step_s: float) -> float:
    """Seconds between two moments at which the ball is lowest."""
    rows = []
    for picture in pictures:
        r, b = picture[..., 0].astype(int), picture[..., 2].astype(int)
        ball = (b - r > 60) if colour == "blue" else (r - b > 60)
        rows.append(float(np.where(ball.any(axis=1))[0].mean()))
    smooth = np.asarray(rows)
    lows = [n for n in range(1, len(smooth) - 1) if smooth[n] > smooth[n - 1] and smooth[n] >= smooth[n + 1]]
    lows = [n for n in lows if smooth[n] > smooth.max() - 0.25 * np.ptp(smooth)]
    refined = []
    for n in lows:
        # the ball turns on its heel: where the two slopes meet is between the samples
        fall, rise = smooth[n] - smooth[n - 1], smooth[n] - smooth[n + 1]
        refined.append(n + 0.5 * (fall - rise) / max(fall, rise, 1e-6))
    gaps = np.diff(refined)
    return float(np.median(gaps)) * step_s
