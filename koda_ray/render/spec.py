"""What a video shall be, and how its frames are cut into units: pure functions, no I/O.

Frame ``k`` shows the page at ``k / fps`` seconds. Frames lie on a fixed grid of units of one second that does not
depend on workers, machines or the video's length, so a unit made once is found again by its name, by whoever asks.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Literal, Self, cast, get_args

from pydantic import JsonValue

from koda_ray.errors import InvalidInput
from koda_ray.video_formats import VideoFormat, one_of, why_not

__all__ = [
    "AUDIO_FORMATS",
    "KEPT_PICTURES",
    "MAX_DURATION_S",
    "MAX_FPS",
    "MAX_SIDE_PX",
    "PRESETS",
    "UNIT_S",
    "AudioTrack",
    "CaptureMode",
    "Effort",
    "Preset",
    "RenderSpec",
    "Unit",
    "fit_size",
    "frame_rate",
    "plan_units",
    "unit_frames",
]

Preset = Literal["preview", "final", "720p", "1080p", "4k"]
Effort = Literal["draft", "fast", "small"]
"""What the encoder saves: ``fast`` time, at a larger file, ``small`` bytes, and the picture is as good with both;
``draft`` more time, at some of the picture's quality."""
CaptureMode = Literal["seek", "replay"]
"""How a unit's first frame is reached: by one seek, or by every frame before it without painting."""

UNIT_S = 1
"""Short enough that two workers share five seconds evenly; a key frame a second is also what players seek well."""
MAX_DURATION_S = 600.0
MAX_FPS = 120
MAX_SIDE_PX = 7680
MIN_SIDE_PX = 16
MAX_SCALE = 8.0
MAX_PROPS_BYTES = 1_000_000
MAX_AUDIO_TRACKS = 32
MAX_VOLUME = 10.0
AUDIO_FORMATS: tuple[VideoFormat, ...] = ("mp4", "webm", "mov")
KEPT_PICTURES: tuple[VideoFormat, ...] = ("gif", "png")
"""Formats whose units are the captured pictures, so that the one's serve the other."""
_HALVED_COLOURS: tuple[VideoFormat, ...] = ("mp4", "webm")
_NTSC = {Fraction(n * 1000, 1001) for n in (24, 30, 48, 60, 120)}


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


def _wrong(field: str, why: str) -> InvalidInput:
    return InvalidInput(why, context={"field": field})


def frame_rate(value: object) -> Fraction:
    """Return frames per second exactly: 23.976, 29.97, 59.94 and 119.88 are broadcast's n * 1000 / 1001.

    Args:
        value: A number, or text such as ``"30000/1001"``.

    Raises:
        InvalidInput: Not a number from 1 to 120.
    """
    wrong = _wrong("fps", f"fps {value!r}: give a number from 1 to {MAX_FPS}, such as 30, 29.97 or 30000/1001")
    try:
        rate = Fraction(cast("str", value)) if isinstance(value, str | int | float | Fraction) else None
    except (ValueError, OverflowError, ZeroDivisionError):
        rate = None
    if rate is None or isinstance(value, bool):
        raise wrong
    rate = next((exact for exact in _NTSC if abs(exact - rate) < Fraction(1, 200)), rate).limit_denominator(1001)
    if not 1 <= rate <= MAX_FPS:
        raise wrong
    return rate


@dataclass(frozen=True, kw_only=True)
class AudioTrack:
    """A sound file of the bundle, and where it is heard.

    Args:
        path: In the bundle.
        start_s: When it begins in the video, in seconds.
        trim_start_s: How much of the file's beginning is left out, in seconds.
        duration_s: How much is heard, in seconds; to the file's or the video's end when None.
        volume: Times the file's own; 1 leaves it alone.
        fade_in_s: Seconds.
        fade_out_s: Seconds, before its end.

    Raises:
        InvalidInput: A value is out of range.
    """

    path: str
    start_s: float = 0.0
    trim_start_s: float = 0.0
    duration_s: float | None = None
    volume: float = 1.0
    fade_in_s: float = 0.0
    fade_out_s: float = 0.0

    def __post_init__(self) -> None:
        times = {"start": self.start_s, "trim start": self.trim_start_s}
        times |= {"fade in": self.fade_in_s, "fade out": self.fade_out_s}
        for name, seconds in times.items():
            if not math.isfinite(seconds) or not 0 <= seconds <= MAX_DURATION_S:
                raise _wrong("audio", f"audio {self.path}: {name} {seconds} s: give 0 to {MAX_DURATION_S:g} seconds")
        if self.duration_s is not None and not (math.isfinite(self.duration_s) and self.duration_s > 0):
            raise _wrong("audio", f"audio {self.path}: duration {self.duration_s} s: give more than 0 seconds")
        if not math.isfinite(self.volume) or not 0 <= self.volume <= MAX_VOLUME:
            raise _wrong("audio", f"audio {self.path}: volume {self.volume}: give 0 to {MAX_VOLUME:g}")


@dataclass(frozen=True, kw_only=True)
class RenderSpec:
    """Everything that decides a video.

    Args:
        bundle: Content hash of the stored bundle.
        duration_s: Length in seconds; the video has ``round(duration_s * fps)`` frames, at least one.
        width: The page's viewport in CSS pixels; times ``scale`` it is the picture's width.
        height: The same.
        fps: Frames per second, constant and exact; numbers and text are taken as by `frame_rate`.
        scale: Device pixels per CSS pixel: 2 makes a 4K picture of a page of 1920x1080.
        format: Container and codec.
        alpha: Whether what the page leaves transparent stays so (webm, mov, gif, png).
        crf: Constant rate factor of H.264 (0 to 51, lower is better); VP9 uses an equivalent of it.
        bitrate_kbps: Aim at this many kilobits per second instead (mp4, webm).
        effort: Whether the encoder saves time or bytes; ``draft`` saves more time, at some of the picture's quality.
        seed: Seed of the page's random numbers.
        entry: The bundle's page.
        props: JSON text that the page finds as ``window.__kodaProps``.
        audio: Sound (mp4, webm, mov).
        moves: Whether the picture is meant to move; a frozen video is then refused.
        strict: Whether an uncaught error of the page ends the render.
        ready_timeout_s: How long the page may take to become ready.
        preset: The preset this came from, for reports; decides nothing.

    Raises:
        InvalidInput: A value is out of range; the message names it, the value and what is allowed, and so does
            ``field`` in the context, without its unit.
    """

    bundle: str
    duration_s: float
    width: int
    height: int
    fps: Fraction
    scale: float = 1.0
    format: VideoFormat = "mp4"
    alpha: bool = False
    crf: int = 18
    bitrate_kbps: int | None = None
    effort: Effort = "fast"
    seed: int = 1
    entry: str = "index.html"
    props: str = "{}"
    audio: tuple[AudioTrack, ...] = ()
    moves: bool = True
    strict: bool = True
    ready_timeout_s: float = 30.0
    preset: str | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.duration_s) or not 0 < self.duration_s <= MAX_DURATION_S:
            raise _wrong(
                "duration", f"duration {self.duration_s} s: give more than 0 and at most {MAX_DURATION_S:g} seconds"
            )
        object.__setattr__(self, "fps", frame_rate(self.fps))
        if self.format not in get_args(VideoFormat):
            raise _wrong("format", f"format {self.format!r}: give {one_of(get_args(VideoFormat))}")
        if not math.isfinite(self.scale) or not 0 < self.scale <= MAX_SCALE:
            raise _wrong("scale", f"scale {self.scale}: give more than 0 and at most {MAX_SCALE:g}")
        for name, css, side in (("width", self.width, self.picture[0]), ("height", self.height, self.picture[1])):
            shown = f"{name} {css} px" + (f" times {self.scale:g}" if self.scale != 1 else "")
            if not css >= MIN_SIDE_PX or not MIN_SIDE_PX <= side <= MAX_SIDE_PX:
                raise _wrong(name, f"{shown}: give {MIN_SIDE_PX} to {MAX_SIDE_PX}")
            if abs(css * self.scale - side) > 1e-6:
                raise _wrong(name, f"{shown} is {css * self.scale:g}, and a picture has whole pixels")
            if side % 2 and self.format in _HALVED_COLOURS:
                raise _wrong(
                    name,
                    f"{shown} is odd, and {self.format} stores colours for pairs of pixels: "
                    f"give {side - 1} or {side + 1}",
                )
        if not 0 <= self.crf <= 51:
            raise _wrong("crf", f"crf {self.crf}: give 0 (lossless) to 51")
        if self.bitrate_kbps is not None and not 50 <= self.bitrate_kbps <= 500_000:
            raise _wrong("bitrate_kbps", f"bitrate {self.bitrate_kbps} kbit/s: give 50 to 500000")
        if self.bitrate_kbps is not None and self.format not in _HALVED_COLOURS:
            raise _wrong(
                "bitrate_kbps", f"a bitrate does not apply to {self.format}: leave it out, or choose mp4 or webm"
            )
        if self.effort not in get_args(Effort):
            raise _wrong("effort", f"effort {self.effort!r}: give {one_of(get_args(Effort))}")
        if (why := why_not(self.format, fps=self.rate, alpha=False)) is not None:
            raise _wrong("fps", why)
        if (why := why_not(self.format, fps=self.rate, alpha=self.alpha)) is not None:
            raise _wrong("format", why)
        if self.audio and self.format not in AUDIO_FORMATS:
            raise _wrong(
                "format", f"{self.format} has no sound: choose {one_of(AUDIO_FORMATS)}, or leave the audio out"
            )
        if len(self.audio) > MAX_AUDIO_TRACKS:
            raise _wrong("audio", f"{len(self.audio)} audio tracks: give at most {MAX_AUDIO_TRACKS}")
        _check_props(self.props)

    @classmethod
    def from_preset(
        cls,
        preset: Preset,
        *,
        bundle: str,
        duration_s: float,
        size: tuple[int, int] = (1920, 1080),
        fps: float | Fraction | None = None,
        format: VideoFormat = "mp4",
    ) -> Self:
        """Make a spec from a preset, in the project's aspect.

        Args:
            preset: The preset's name.
            bundle: Content hash of the bundle.
            duration_s: Length in seconds.
            size: The project's own (width, height); only its aspect counts.
            fps: Frames per second instead of the preset's.
            format: Container and codec.

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
            fps=frame_rate(fields.fps if fps is None else fps),
            format=format,
            crf=fields.crf,
            preset=preset,
        )

    @property
    def frame_count(self) -> int:
        """How many frames the video has."""
        return max(1, round(self.duration_s * self.fps))

    @property
    def picture(self) -> tuple[int, int]:
        """Width and height of the picture in pixels."""
        return round(self.width * self.scale), round(self.height * self.scale)

    @property
    def rate(self) -> float:
        """Frames per second as a number: whole where it is whole."""
        return self.fps.numerator if self.fps.denominator == 1 else round(float(self.fps), 5)

    @property
    def lossless(self) -> bool:
        """Whether pictures leave the browser without loss: where they stay so, or where they have transparency."""
        return self.alpha or self.format in ("mov", "gif", "png") or (self.crf == 0 and self.bitrate_kbps is None)

    def seconds(self, frames: int) -> float:
        """How long so many frames last, in seconds."""
        return float(frames / self.fps)

    def at_lower_quality(self) -> RenderSpec:
        """Return the spec to try when this one could not be rendered: two thirds of the size, at most 30 fps."""
        width, height = (max(MIN_SIDE_PX, round(side * 2 / 3 / 2) * 2) for side in self.picture)
        return replace(self, width=width, height=height, scale=1.0, fps=min(self.fps, Fraction(30)), preset=None)

    def to_json(self) -> dict[str, JsonValue]:
        """Return plain JSON that `from_json` reads."""
        fps: JsonValue = self.fps.numerator if self.fps.denominator == 1 else str(self.fps)
        return cast("dict[str, JsonValue]", {**asdict(self), "fps": fps, "audio": [asdict(t) for t in self.audio]})

    @classmethod
    def from_json(cls, data: dict[str, JsonValue]) -> Self:
        """Read what `to_json` wrote; unknown fields are refused by the constructor."""
        tracks = cast("list[dict[str, object]]", data.get("audio") or [])
        audio = tuple(AudioTrack(**track) for track in tracks)  # type: ignore[arg-type]
        return cls(**{**data, "audio": audio})  # type: ignore[arg-type]


def _check_props(props: str) -> None:
    if len(props.encode()) > MAX_PROPS_BYTES:
        raise _wrong("props", f"props of {len(props.encode())} bytes: give at most {MAX_PROPS_BYTES}")
    try:
        json.loads(props)
    except ValueError as error:
        raise _wrong("props", f"props are not JSON ({error}): {props[:80]!r}") from None


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
        raise _wrong("width", f"size {width}x{height}: give two positive sides with an aspect from 1:10 to 10:1")
    box = (long_side_px, short_side_px) if width >= height else (short_side_px, long_side_px)
    ratio = min(box[0] / width, box[1] / height)
    return max(MIN_SIDE_PX, round(width * ratio / 2) * 2), max(MIN_SIDE_PX, round(height * ratio / 2) * 2)


def unit_frames(spec: RenderSpec) -> int:
    """Return how many frames each unit of a video has; the last one may have fewer."""
    return max(1, round(UNIT_S * spec.fps))


def plan_units(spec: RenderSpec) -> tuple[Unit, ...]:
    """Cut a video into its units; the last one may be shorter."""
    step = unit_frames(spec)
    total = spec.frame_count
    return tuple(Unit(index, start, min(start + step, total)) for index, start in enumerate(range(0, total, step)))
