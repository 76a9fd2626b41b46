"""Whether two videos show the same: a final beside the preview that a person has agreed to.

They differ in size, rate and quality, so both are made small and some moments are compared: the brightness of all, and
how far the pictures are from each other. Neither is reason to refuse a video; both are in its report.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from koda_ray.errors import QualityRejected
from koda_ray.render.decode import look
from koda_ray.render.facts import probe_video
from koda_ray.render.ffmpeg import QUIETLY, run
from koda_ray.render.sheet import sheet_frames
from koda_ray.render.spec import RenderSpec, plan_units

__all__ = ["Comparison", "compare_videos", "psnr"]

_LONG_SIDE_PX = 320
_TIMEOUT_S = 600.0
_FEW, _MANY = 3, 12
_SAME_DB = 100.0
_FAR_DB = 20.0
_OTHER_LIGHT = 12.0


@dataclass(frozen=True)
class Comparison:
    """What was seen of two videos at the same moments.

    Args:
        times_s: The moments.
        psnr_db: Peak signal to noise ratio of the luminance at each, 100 where it is the same.
        luminance: Mean level of the first video, 0 to 255.
        reference_luminance: The other's.
    """

    times_s: tuple[float, ...]
    psnr_db: tuple[float, ...]
    luminance: float
    reference_luminance: float

    @property
    def mean_db(self) -> float:
        """The mean over the moments."""
        return sum(self.psnr_db) / len(self.psnr_db)

    @property
    def warnings(self) -> list[str]:
        """What a person should look at."""
        found: list[str] = []
        worst = min(range(len(self.psnr_db)), key=self.psnr_db.__getitem__)
        if self.psnr_db[worst] < _FAR_DB:
            found.append(
                f"at {self.times_s[worst]:.2f} s the picture is not the preview's ({self.psnr_db[worst]:.1f} dB apart)"
            )
        if abs(self.luminance - self.reference_luminance) > _OTHER_LIGHT:
            found.append(
                f"the video's mean level of light is {self.luminance:.0f} of 255, and the preview's "
                f"{self.reference_luminance:.0f}"
            )
        return found


async def compare_videos(spec: RenderSpec, video: Path, reference: Path) -> Comparison:
    """Compare a finished video with another of the same film.

    Args:
        spec: What the first is; not a picture sequence.
        video: The first.
        reference: The other, a video of any size and constant rate.

    Raises:
        EncodeFailed: One of them cannot be decoded.
        QualityRejected: The reference has no pictures, or so few that there is no moment to compare.
    """
    facts = await probe_video(reference)
    last = len(facts.times_s) - 1
    starts = [unit.start for unit in plan_units(spec)]
    # first frames of units are decoded without the others; a long video's sheet shows nothing else
    moments = starts if _FEW < len(starts) <= _MANY else sheet_frames(spec)
    chosen = [frame for frame in moments if spec.seconds(frame) <= facts.times_s[-1]]
    if not chosen:
        raise QualityRejected(f"{reference.name} ends before the first moment that is compared")
    # webm says its rate with two places, and a frame's time to the millisecond
    rate = last / (facts.times_s[-1] - facts.times_s[0]) if last else float(spec.fps)
    others = [min(last, round(spec.seconds(frame) * rate)) for frame in chosen]
    width, height = spec.picture
    # what the smaller one cannot show is not missing in the other
    shrink = min(_LONG_SIDE_PX, max(facts.width, facts.height), max(width, height)) / max(width, height)
    size = max(1, round(width * shrink)), max(1, round(height * shrink))
    ours = await _grey(spec, video, chosen, size)
    select = "+".join(f"eq(n,{frame})" for frame in dict.fromkeys(others))
    filters = f"select='{select}',{_small(size)}"
    line = [*QUIETLY, "-i", str(reference), "-map", "0:v:0", "-vf", filters, "-fps_mode", "passthrough"]
    theirs = _pictures(await run("ffmpeg", [*line, "-f", "rawvideo", "pipe:"], timeout_s=_TIMEOUT_S), size)
    shown = dict(zip(dict.fromkeys(others), theirs, strict=True))
    pairs = [(one, shown[frame]) for one, frame in zip(ours, others, strict=True)]
    return Comparison(
        times_s=tuple(spec.seconds(frame) for frame in chosen),
        psnr_db=tuple(psnr(one, other) for one, other in pairs),
        luminance=_mean([one for one, _ in pairs]),
        reference_luminance=_mean([other for _, other in pairs]),
    )


async def _grey(spec: RenderSpec, video: Path, frames: list[int], size: tuple[int, int]) -> list[bytes]:
    """Return frames as small grey pictures."""
    return _pictures(await look(spec, video, frames, _small(size), ["-f", "rawvideo", "pipe:"]), size)


def _small(size: tuple[int, int]) -> str:
    return f"scale={size[0]}:{size[1]}:flags=area:out_range=pc,format=gray"


def _pictures(data: bytes, size: tuple[int, int]) -> list[bytes]:
    step = size[0] * size[1]
    return [data[start : start + step] for start in range(0, len(data), step)]


def psnr(one: bytes, other: bytes) -> float:
    """Return the peak signal to noise ratio of two pictures' levels, in dB; 100 where they are the same.

    Args:
        one: Levels, 0 to 255.
        other: As many.
    """
    total = sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
    return min(_SAME_DB, 10 * math.log10(255**2 * len(one) / total)) if total else _SAME_DB


def _mean(pictures: list[bytes]) -> float:
    return sum(map(sum, pictures)) / sum(map(len, pictures))
