"""What a video shall be, and how its frames are cut into units: pure functions, no I/O.

Frame ``k`` shows the page at ``k / fps`` seconds. Frames lie on a fixed grid of units of two seconds that does not
depend on workers, machines or the video's length, so a unit made once is found again by its key, by whoever asks.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Literal, Self, cast

from pydantic import JsonValue

from koda_ray.errors import InvalidInput

__all__ = [
    "MAX_DURATION_S",
    "MAX_FPS",
    "MAX_SIDE_PX",
    "PRESETS",
    "UNIT_S",
    "CaptureMode",
    "Preset",
    "RenderSpec",
    "Unit",
    "VideoFormat",
    "fit_size",
    "plan_units",
    "unit_hash",
]

Preset = Literal["preview", "final", "720p", "1080p", "4k"]
VideoFormat = Literal["mp4", "webm"]
CaptureMode = Literal["seek", "replay"]
"""How a unit's first frame is reached: by one seek, or by every frame before it without painting."""

UNIT_S = 2
MAX_DURATION_S = 600.0
MAX_FPS = 120
MAX_SIDE_PX = 7680
MIN_SIDE_PX = 16


@dataclass(frozen=True)
class _PresetFields:
    short_side_px: int
    long_side_px: int
    fps: int
    crf: int


PRESETS: dict[Preset, _PresetFields] = {
    "preview": _PresetFields(360, 640, 15, 28),
    "final": _PresetFields(1080, 1920, 60, 18),
    "720p": _PresetFields(720, 1280, 30, 18),
    "1080p": _PresetFields(1080, 1920, 30, 18),
    "4k": _PresetFields(2160, 3840, 30, 18),
}
"""Sizes are for landscape 16:9; `fit_size` turns them for other aspects."""


@dataclass(frozen=True, kw_only=True)
class RenderSpec:
    """Everything that decides a video.

    Args:
        bundle: Content hash of the stored bundle.
        duration_s: Length in seconds; the video has ``round(duration_s * fps)`` frames, at least one.
        width: Picture width in pixels, even; also the page's viewport.
        height: Picture height in pixels, even.
        fps: Frames per second, constant.
        format: Container and codec: H.264 in mp4, VP9 in webm.
        crf: Constant rate factor of H.264 (0 to 51, lower is better); VP9 uses an equivalent of it.
        seed: Seed of the page's random numbers.
        entry: The bundle's page.
        moves: Whether the picture is meant to move; a frozen video is then refused.
        strict: Whether an uncaught error of the page ends the render.
        ready_timeout_s: How long the page may take to become ready.
        preset: The preset this came from, for reports; decides nothing.

    Raises:
        InvalidInput: A value is out of range; the message names it, the value and what is allowed.
    """

    bundle: str
    duration_s: float
    width: int
    height: int
    fps: int
    format: VideoFormat = "mp4"
    crf: int = 18
    seed: int = 1
    entry: str = "index.html"
    moves: bool = True
    strict: bool = True
    ready_timeout_s: float = 30.0
    preset: Preset | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.duration_s) or not 0 < self.duration_s <= MAX_DURATION_S:
            raise InvalidInput(f"duration {self.duration_s} s: give more than 0 and at most {MAX_DURATION_S:g} seconds")
        if not 1 <= self.fps <= MAX_FPS:
            raise InvalidInput(f"fps {self.fps}: give a whole number from 1 to {MAX_FPS}")
        for name, side in (("width", self.width), ("height", self.height)):
            if not MIN_SIDE_PX <= side <= MAX_SIDE_PX:
                raise InvalidInput(f"{name} {side} px: give {MIN_SIDE_PX} to {MAX_SIDE_PX}")
            if side % 2:
                raise InvalidInput(
                    f"{name} {side} px is odd, and colours are stored for pairs of pixels: "
                    f"give {side - 1} or {side + 1}"
                )
        if not 0 <= self.crf <= 51:
            raise InvalidInput(f"crf {self.crf}: give 0 (lossless) to 51")
        if self.format not in ("mp4", "webm"):
            raise InvalidInput(f"format {self.format!r}: give 'mp4' or 'webm'")

    @classmethod
    def from_preset(
        cls,
        preset: Preset,
        *,
        bundle: str,
        duration_s: float,
        size: tuple[int, int] = (1920, 1080),
        fps: int | None = None,
        format: VideoFormat = "mp4",
        moves: bool = True,
    ) -> Self:
        """Make a spec from a preset, in the project's aspect.

        Args:
            preset: The preset's name.
            bundle: Content hash of the bundle.
            duration_s: Length in seconds.
            size: The project's own (width, height); only its aspect counts.
            fps: Frames per second instead of the preset's.
            format: Container and codec.
            moves: Whether the picture is meant to move.

        Raises:
            InvalidInput: Unknown preset or a value out of range.
        """
        fields = PRESETS.get(preset)
        if fields is None:
            raise InvalidInput(f"preset {preset!r} is not one of {', '.join(PRESETS)}")
        width, height = fit_size(size, short_side_px=fields.short_side_px, long_side_px=fields.long_side_px)
        return cls(
            bundle=bundle,
            duration_s=duration_s,
            width=width,
            height=height,
            fps=fps or fields.fps,
            format=format,
            crf=fields.crf,
            moves=moves,
            preset=preset,
        )

    @property
    def frame_count(self) -> int:
        """How many frames the video has."""
        return max(1, round(self.duration_s * self.fps))

    def at_lower_quality(self) -> RenderSpec:
        """Return the spec to try when this one could not be rendered: two thirds of the size, at most 30 fps."""
        width, height = (max(MIN_SIDE_PX, round(side * 2 / 3 / 2) * 2) for side in (self.width, self.height))
        return replace(self, width=width, height=height, fps=min(self.fps, 30), preset=None)

    def to_json(self) -> dict[str, JsonValue]:
        """Return plain JSON that `from_json` reads."""
        return cast("dict[str, JsonValue]", asdict(self))

    @classmethod
    def from_json(cls, data: dict[str, JsonValue]) -> Self:
        """Read what `to_json` wrote; unknown fields are refused by the constructor."""
        return cls(**data)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Unit:
    """Frames ``[start, stop)`` of the grid."""

    index: int
    start: int
    stop: int

    @property
    def frame_count(self) -> int:
        """How many frames the unit has."""
        return self.stop - self.start


def fit_size(size: tuple[int, int], *, short_side_px: int, long_side_px: int) -> tuple[int, int]:
    """Return the largest even (width, height) of ``size``'s aspect inside a box that is turned to its orientation.

    A square takes the short side for both, so that "1080p" is 1080 pixels high in every aspect up to 16:9.

    Raises:
        InvalidInput: A side of ``size`` is not positive, or the aspect is beyond 10:1.
    """
    width, height = size
    if width <= 0 or height <= 0 or not 0.1 <= width / height <= 10:
        raise InvalidInput(f"size {width}x{height}: give two positive sides with an aspect from 1:10 to 10:1")
    box = (long_side_px, short_side_px) if width >= height else (short_side_px, long_side_px)
    ratio = min(box[0] / width, box[1] / height)
    return max(MIN_SIDE_PX, round(width * ratio / 2) * 2), max(MIN_SIDE_PX, round(height * ratio / 2) * 2)


def plan_units(spec: RenderSpec) -> tuple[Unit, ...]:
    """Cut a video into its units; the last one may be shorter."""
    step = UNIT_S * spec.fps
    total = spec.frame_count
    return tuple(Unit(index, start, min(start + step, total)) for index, start in enumerate(range(0, total, step)))


def unit_hash(spec: RenderSpec, unit: Unit, *, environment: str, mode: CaptureMode) -> str:
    """Return the name of a unit's bytes: equal inputs give equal bytes, on any machine of one environment.

    Args:
        spec: The video; only the fields that decide pixels or their encoding count.
        unit: The unit; its number of frames counts, because the last one is cut.
        environment: Fingerprint of browser, graphics, encoder and fonts.
        mode: How the unit's first frame is reached.
    """
    decides = {
        "bundle": spec.bundle,
        "width": spec.width,
        "height": spec.height,
        "fps": spec.fps,
        "format": spec.format,
        "crf": spec.crf,
        "seed": spec.seed,
        "entry": spec.entry,
        "start": unit.start,
        "stop": unit.stop,
        "environment": environment,
        "mode": mode,
    }
    return hashlib.sha256(json.dumps(decides, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
