"""What somebody wants of a video, with everything left open that they did not say, and how the rest is filled in.

The same for the command line, Python and HTTP: what was given wins over the preset, the preset over what the page says
of itself, and that over 30 frames a second at 1920x1080. Pure functions, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

from pydantic import JsonValue

from koda_ray.errors import InvalidInput
from koda_ray.render.presets import check_preset, shape_of, within_limit
from koda_ray.render.spec import AudioTrack, Effort, RenderSpec, frame_rate
from koda_ray.video_formats import VideoFormat

__all__ = ["JobOptions", "PageContract", "check_options", "make_spec", "needs_page"]

_SIZE = (1920, 1080)
_FPS = 30


@dataclass(frozen=True, kw_only=True)
class PageContract:
    """What a page says of itself by its contract; None where it says nothing."""

    duration_s: float | None = None
    fps: float | None = None
    size: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """A video as it was asked for; None leaves a value to preset, page and defaults.

    Args:
        duration_s: Length in seconds.
        size: The page's viewport in CSS pixels, width and height.
        fps: Frames per second: a number, or text such as ``"30000/1001"``.
        scale: Device pixels per CSS pixel.
        preset: One of `koda_ray.render.presets.PRESET_NAMES`.
        format: Container and codec.
        alpha: Keep what the page leaves transparent.
        crf: Constant rate factor.
        bitrate_kbps: Kilobits per second instead of a rate factor.
        effort: Whether the encoder saves time or bytes; ``draft`` saves more time, at some of the picture's quality.
        seed: Seed of the page's random numbers.
        props: JSON text that the page finds as ``window.__kodaProps``.
        audio: Sound files of the bundle.
        trim: Cut what is longer than the platform takes.
        strict: Whether an uncaught error of the page ends the render.
        moves: Whether a picture that stands still throughout is an error.
        ready_timeout_s: How long the page may take to become ready.

    Raises:
        InvalidInput: Unknown preset.
    """

    duration_s: float | None = None
    size: tuple[int, int] | None = None
    fps: Fraction | float | str | None = None
    scale: float | None = None
    preset: str | None = None
    format: VideoFormat = "mp4"
    alpha: bool = False
    crf: int | None = None
    bitrate_kbps: int | None = None
    effort: Effort = "fast"
    seed: int = 1
    props: str = "{}"
    audio: tuple[AudioTrack, ...] = ()
    trim: bool = False
    strict: bool = True
    moves: bool = False
    ready_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        if self.preset is not None:
            check_preset(self.preset)
        if self.fps is not None:
            frame_rate(self.fps)
        if self.crf is not None and self.bitrate_kbps is not None:
            raise InvalidInput(
                f"crf {self.crf} and a bitrate of {self.bitrate_kbps} kbit/s: give one of them, quality or size",
                context={"field": "crf"},
            )
        if self.duration_s is not None:
            # told before the page is opened, not after
            within_limit(self.preset, self.duration_s, trim=self.trim)

    def to_json(self) -> dict[str, JsonValue]:
        """Return plain JSON that `from_json` reads: what differs from the defaults."""
        said: dict[str, JsonValue] = {}
        for name, value in vars(self).items():
            if value == getattr(type(self), name):
                continue
            if name == "audio":
                said[name] = [dict(vars(track)) for track in self.audio]
            else:
                said[name] = list(self.size) if name == "size" and self.size else _plain(value)
        return said

    @classmethod
    def from_json(cls, data: dict[str, JsonValue]) -> JobOptions:
        """Read what `to_json` wrote."""
        fields = cast("dict[str, object]", dict(data))
        if "size" in fields:
            fields["size"] = tuple(cast("list[int]", fields["size"]))
        if "audio" in fields:
            tracks = cast("list[dict[str, object]]", fields["audio"])
            fields["audio"] = tuple(AudioTrack(**track) for track in tracks)  # type: ignore[arg-type]
        return cls(**fields)  # type: ignore[arg-type]


def _plain(value: object) -> JsonValue:
    return str(value) if isinstance(value, Fraction) else cast("JsonValue", value)


def needs_page(options: JobOptions) -> bool:
    """Whether the page has to be asked before its video can be planned."""
    return options.duration_s is None or options.size is None or (options.fps is None and options.preset is None)


def check_options(options: JobOptions, *, bundle: str, entry: str = "index.html") -> None:
    """Refuse what no page could make right, before one is opened.

    Raises:
        InvalidInput: A value is out of range.
    """
    # a scale is only too large or too small for a size, which the page may still say
    known = options if options.size is not None else replace(options, scale=None)
    page = PageContract(duration_s=1.0 if options.duration_s is None else options.duration_s)
    make_spec(known, bundle=bundle, entry=entry, page=page)


def make_spec(options: JobOptions, *, bundle: str, entry: str = "index.html", page: PageContract) -> RenderSpec:
    """Fill in what was left open.

    Args:
        options: What was asked for.
        bundle: Content hash of the stored bundle.
        entry: The page in it.
        page: What the page says of itself.

    Raises:
        InvalidInput: A value is out of range, nobody says how long the video is, or it is longer than the preset's
            platform takes.
    """
    duration_s = options.duration_s or page.duration_s
    if options.duration_s is not None:
        duration_s = options.duration_s  # also 0, which is refused with its name
    if duration_s is None:
        raise InvalidInput(
            "nobody says how long the video is: give a duration in seconds, or have the page say it "
            "(window.__koda.duration)"
        )
    size, scale = options.size or page.size or _SIZE, options.scale
    fps, crf = options.fps or page.fps or _FPS, options.crf
    if options.preset is not None:
        shape = shape_of(options.preset, options.size or page.size)
        fps = options.fps or shape.fps
        crf = shape.crf if crf is None else crf
        if options.size is None:
            size = (shape.width, shape.height)
            scale = shape.scale if scale is None else scale
    return RenderSpec(
        bundle=bundle,
        entry=entry,
        duration_s=within_limit(options.preset, duration_s, trim=options.trim),
        width=size[0],
        height=size[1],
        scale=1.0 if scale is None else scale,
        fps=frame_rate(fps),
        format=options.format,
        alpha=options.alpha,
        crf=18 if crf is None else crf,
        bitrate_kbps=options.bitrate_kbps,
        effort=options.effort,
        seed=options.seed,
        props=options.props,
        audio=options.audio,
        moves=options.moves,
        strict=options.strict,
        ready_timeout_s=options.ready_timeout_s,
        preset=options.preset,
    )
