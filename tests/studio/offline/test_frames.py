"""Films measured in their pixels: built by Vite, shown by the renderer's own browser, without a network."""

from __future__ import annotations

import colorsys
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.page import RenderPage
from koda_ray.studio.offline import generate_files, make_plan, parse_brief
from tests.studio.offline.projects import build

pytestmark = [pytest.mark.browser, pytest.mark.needs("node"), pytest.mark.slow]

FPS = 20.0
Picture = np.ndarray
"""(height, width, 3) uint8 RGB."""


def film(folder: Path, prompt: str, *feedback: str) -> Bundle:
    plan = make_plan(parse_brief(prompt)).model_dump(mode="json", by_alias=True)
    request = {"task": "create_component", "prompt": prompt, "plan": plan, "feedback": list(feedback)}
    return build(folder, generate_files(request))


async def shoot(
    browser: Browser, bundle: Bundle, times: Sequence[float], *, size: tuple[int, int] = (640, 360)
) -> list[Picture]:
    """Show a film and take its picture at each time, in seconds."""
    page = await RenderPage.open(browser, bundle, width=size[0], height=size[1], seed=1)
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


async def test_bars_stand_in_the_proportion_of_their_figures(tmp_path: Path) -> None:
    bundle = film(tmp_path / "bars", "bar chart of 12, 30, 45, 70 growing, blue, 8s")
    async with await Browser.launch() as browser:
        first, grown = await shoot(browser, bundle, (0.0, 5.2), size=(1280, 720))
    runs = blue_columns(grown)
    assert len(runs) == 4
    unit = runs[3][1] / 70
    for (_, height), value in zip(runs, (12, 30, 45, 70), strict=True):
        assert height / unit == pytest.approx(value, rel=0.03)
    assert first.std() > 2, "the first picture is blank"


async def test_each_number_of_a_count_down_is_legible_in_the_middle_of_its_second(tmp_path: Path) -> None:
    """The five digits differ from each other, each stands still around its half second, large and in the middle."""
    bundle = film(tmp_path / "count", "count down from 5")
    times = [k + 0.5 for k in range(5)]
    async with await Browser.launch() as browser:
        middles = await shoot(browser, bundle, times)
        later = await shoot(browser, bundle, [t + 0.15 for t in times])
    shapes = []
    for picture, after in zip(middles, later, strict=True):
        shape, same = digit(picture), digit(after)
        rows, columns = np.where(shape)
        assert np.ptp(rows) > 120, "the digit is small"
        assert abs(columns.mean() - 320) < 40
        overlap = (shape & same).sum() / (shape | same).sum()
        assert overlap > 0.97, "the digit moves when it should be read"
        shapes.append(shape)
    for i, shape in enumerate(shapes):
        for other in shapes[i + 1 :]:
            assert (shape & other).sum() / (shape | other).sum() < 0.8


def digit(picture: Picture) -> np.ndarray:
    """Return where the number stands, inside the ring: pixels far from the ground's colour, (height, width) bool."""
    ground = np.median(picture[60:300, 225:255].reshape(-1, 3), axis=0)
    far = np.abs(picture.astype(int) - ground).sum(axis=2) > 150
    y, x = np.ogrid[:360, :640]
    return far & ((x - 320) ** 2 + (y - 180) ** 2 < 132**2)


async def test_a_ball_turns_red_and_twice_as_fast(tmp_path: Path) -> None:
    """Two films of one prompt: the second after two change requests. The same moment half as late, in another hue."""
    prompt = "bouncing ball, smooth, no shadow, blue, on white, 6 seconds"
    plain = film(tmp_path / "plain", prompt)
    changed = film(tmp_path / "changed", prompt, "make the ball red", "twice as fast")
    times = [n / FPS for n in range(46)]
    async with await Browser.launch() as browser:
        slow = await shoot(browser, plain, times, size=(320, 180))
        fast = await shoot(browser, changed, times[:30], size=(320, 180))
        again = await shoot(browser, plain, [0.5], size=(320, 180))
    assert np.array_equal(again[0], slow[10]), "the same film gives other pixels"
    period_slow, period_fast = period(slow, "blue"), period(fast, "red")
    assert period_fast == pytest.approx(period_slow / 2, rel=0.08)
    blue, red = hue_of(slow[0]), hue_of(fast[0])
    assert 190 < blue < 260
    assert red < 20 or red > 340


def hue_of(picture: Picture) -> float:
    """Hue in degrees of the picture's most saturated pixels."""
    flat = picture.reshape(-1, 3) / 255
    saturation = flat.max(axis=1) - flat.min(axis=1)
    return colorsys.rgb_to_hsv(*flat[saturation > 0.4].mean(axis=0))[0] * 360


def period(pictures: Sequence[Picture], colour: str) -> float:
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
    return float(np.median(gaps)) / FPS
