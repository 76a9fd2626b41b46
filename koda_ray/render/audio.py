"""Sound files of a bundle into a video's sound: each decoded once, then mixed while the video is joined.

All counting is in samples at 48 kHz: a track begins, fades and ends at the sample that its seconds name, and the mix
is as long as the video's frames. The files are untrusted, so FFmpeg reads them in isolation, and as plain sound files
or not at all. What they unpack to has an end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from koda_ray.errors import EncodeFailed, InvalidInput
from koda_ray.render.bundle import Bundle
from koda_ray.render.ffmpeg import QUIETLY
from koda_ray.render.foreign import SOURCE, run_on_foreign
from koda_ray.render.isolation import WorkFolder
from koda_ray.render.spec import AudioTrack, RenderSpec

__all__ = [
    "MAX_HEARD_S",
    "SAMPLE_RATE",
    "DecodedSound",
    "check_audio",
    "codec_options",
    "decode_audio",
    "input_options",
    "mix_filter",
    "total_samples",
]

SAMPLE_RATE = 48_000
MAX_HEARD_S = 3600.0
"""How long all tracks together may be heard: each second takes 384 kB of disk until the video is joined."""
_CHANNELS = 2
_SAMPLE_BYTES = 4 * _CHANNELS
_TIMEOUT_S = 300.0
_LIMIT = 0.98
"""A lossy codec overshoots what it is given."""
_CONTAINERS = "mp3,wav,w64,flac,ogg,aac,mov,mp4,m4a,matroska,webm,aiff,caf,ac3,eac3,amr,mpegts,au"
_ALONE = ("-format_whitelist", _CONTAINERS, *SOURCE)
_NAMED = 8


@dataclass(frozen=True)
class DecodedSound:
    """A track that is decoded: stereo, 48 kHz, floats, nothing before its first and after its last sample.

    Args:
        path: Of the raw samples.
        samples: How many there are.
        track: What it was made of.
    """

    path: Path
    samples: int
    track: AudioTrack


def total_samples(spec: RenderSpec) -> int:
    """Return how many samples the video's sound has."""
    return round(spec.frame_count * SAMPLE_RATE / spec.fps)


@dataclass(frozen=True)
class _SoundFile:
    """A sound file that was written out.

    Args:
        path: Where.
        channels: How many it says that it has.
        samples: How many it says that it has, at 48 kHz; None where it does not say.
    """

    path: Path
    channels: int
    samples: int | None


async def check_audio(spec: RenderSpec, bundle: Bundle) -> None:
    """Find out before anything is captured whether the sound files are there and can be read.

    Raises:
        InvalidInput: One is not in the bundle, or is not sound, or the tracks are heard too long; the message names it.
        Missing: FFmpeg is not installed, or cannot be isolated.
    """
    folder = WorkFolder("sound")
    try:
        files = await _files(spec, bundle, folder.path)
    finally:
        folder.close()
    left = round(MAX_HEARD_S * SAMPLE_RATE)
    for track in spec.audio:
        said = files[track.path].samples
        wanted = _wanted(spec, track)
        left -= wanted if said is None else min(wanted, max(0, said - _samples(track.trim_start_s)))
        if left < 0:
            raise _heard_too_long(track)


async def decode_audio(spec: RenderSpec, bundle: Bundle, folder: Path) -> tuple[DecodedSound, ...]:
    """Decode what is heard of each track.

    Args:
        spec: The video.
        bundle: Where its sound files are.
        folder: Where the samples go.

    Returns:
        The tracks that are heard; one that begins after the video's end is not.

    Raises:
        InvalidInput: A file is not in the bundle, is not sound, or ends before what was asked of it, or the tracks are
            heard too long.
        Missing: FFmpeg is not installed, or cannot be isolated.
    """
    files = await _files(spec, bundle, folder)
    left = round(MAX_HEARD_S * SAMPLE_RATE)
    sounds: list[DecodedSound] = []
    for index, track in enumerate(spec.audio):
        if (wanted := _wanted(spec, track)) == 0:
            continue
        # one sample more than there is room for says that there is not
        sound = await _decode(files[track.path], track, min(wanted, left + 1), folder / f"track-{index}.f32")
        left -= sound.samples
        if left < 0:
            raise _heard_too_long(track)
        sounds.append(sound)
    return tuple(sounds)


async def _decode(file: _SoundFile, track: AudioTrack, heard: int, target: Path) -> DecodedSound:
    """Decode so many samples of a track, or as many as it has."""
    first = _samples(track.trim_start_s)
    # swresample gives each side of a single channel 0.7 of it; a player gives it whole
    both = "pan=stereo|c0=c0|c1=c0," if file.channels == 1 else ""
    filters = (
        f"{both}aresample={SAMPLE_RATE},aformat=sample_fmts=flt:channel_layouts=stereo,"
        f"atrim=start_sample={first}:end_sample={first + heard}"
    )
    arguments = [*_without_xerror(QUIETLY), *_ALONE, "-map", "0:a:0", "-af", filters, "-f", "f32le", "pipe:1"]
    most_bytes = heard * _SAMPLE_BYTES
    try:
        await run_on_foreign(
            "ffmpeg", arguments, source=file.path, target=target, most_bytes=most_bytes, timeout_s=_TIMEOUT_S
        )
    except EncodeFailed as error:
        if error.code == "DISK_FULL" or error.retryable:
            raise
        raise _unreadable(track.path, error) from error
    samples = (await asyncio.to_thread(target.stat)).st_size // _SAMPLE_BYTES
    if samples == 0:
        raise InvalidInput(f"audio {track.path}: nothing of it is left after {track.trim_start_s:g} s; trim less")
    return DecodedSound(target, samples, track)


def _wanted(spec: RenderSpec, track: AudioTrack) -> int:
    """Return how many samples of a track are heard at most: none of one that begins after the end."""
    left = max(0, total_samples(spec) - _samples(track.start_s))
    return left if track.duration_s is None else min(left, max(1, _samples(track.duration_s)))


def _heard_too_long(track: AudioTrack) -> InvalidInput:
    return InvalidInput(
        f"audio {track.path}: with it the tracks are heard for more than the {MAX_HEARD_S:g} s that are taken: mix "
        "some of them into one file, or give them a length"
    )


def mix_filter(sounds: Sequence[DecodedSound], *, first_input: int, samples: int) -> str:
    """Return the filter graph that mixes decoded tracks, as loud as they are, into ``[mix]``.

    Args:
        sounds: The tracks, inputs of FFmpeg one after the other; silence when there are none.
        first_input: The first one's index among the inputs.
        samples: How long the mix is.
    """
    parts: list[str] = []
    for index, sound in enumerate(sounds):
        track, filters = sound.track, list[str]()
        if track.volume != 1:
            filters.append(f"volume={track.volume!r}:precision=float")
        if fade := min(_samples(track.fade_in_s), sound.samples):
            filters.append(f"afade=t=in:ss=0:ns={fade}")
        if fade := min(_samples(track.fade_out_s), sound.samples):
            filters.append(f"afade=t=out:ss={sound.samples - fade}:ns={fade}")
        if start := _samples(track.start_s):
            filters.append(f"adelay={start}S:all=1")
        filters.append(f"apad=whole_len={samples}")
        parts.append(f"[{first_input + index}:a]{','.join(filters)}[t{index}]")
    if sounds:
        inputs = "".join(f"[t{index}]" for index in range(len(sounds)))
        parts.append(f"{inputs}amix=inputs={len(sounds)}:duration=longest:normalize=0[sum]")
    else:
        parts.append(f"anullsrc=r={SAMPLE_RATE}:cl=stereo[sum]")
    limiter = f"alimiter=limit={_LIMIT}:level=0:latency=1"
    parts.append(f"[sum]{limiter},apad=whole_len={samples},atrim=end_sample={samples}[mix]")
    return ";".join(parts)


def input_options(sound: DecodedSound) -> list[str]:
    """Return FFmpeg's arguments that open a decoded track."""
    return ["-f", "f32le", "-ar", str(SAMPLE_RATE), "-ac", str(_CHANNELS), "-i", str(sound.path)]


def codec_options(spec: RenderSpec) -> list[str]:
    """Return FFmpeg's arguments that encode the sound of a format."""
    if spec.format == "webm":
        return ["-c:a", "libopus", "-b:a", "160k", "-flags:a", "+bitexact"]
    if spec.format == "mov":
        return ["-c:a", "pcm_s24le", "-flags:a", "+bitexact"]
    return ["-c:a", "aac", "-b:a", "192k", "-flags:a", "+bitexact"]


async def _files(spec: RenderSpec, bundle: Bundle, folder: Path) -> dict[str, _SoundFile]:
    """Write the sound files out; return what each says of itself by its path in the bundle."""
    found: dict[str, _SoundFile] = {}
    for name in dict.fromkeys(track.path for track in spec.audio):
        data = bundle.files.get(name)
        if data is None:
            close = [path for path in sorted(bundle.files) if Path(path).suffix.lower() == Path(name).suffix.lower()]
            has = f"it has {', '.join(close[:_NAMED])}" if close else f"it has no {Path(name).suffix or 'such'} files"
            raise InvalidInput(f"audio {name} is not in the bundle: {has}")
        path = folder / f"sound-{len(found)}"
        await asyncio.to_thread(path.write_bytes, data)
        entries = ["-select_streams", "a:0", "-show_entries", "stream=channels:format=duration", "-of", "json"]
        line = ["-v", "error", *_ALONE, *entries]
        try:
            probed = await run_on_foreign("ffprobe", line, source=path, timeout_s=_TIMEOUT_S)
        except EncodeFailed as error:
            raise _unreadable(name, error) from error
        said = cast("dict[str, Any]", json.loads(probed))
        streams = cast("list[dict[str, int]]", said.get("streams") or [])
        if not streams or not streams[0].get("channels"):
            raise InvalidInput(f"audio {name} has no sound in it: give an mp3, wav, m4a, ogg or flac file")
        samples: int | None = None
        with suppress(KeyError, ValueError, OverflowError):  # it does not say, or nonsense
            samples = _samples(float(said["format"]["duration"]))
        found[name] = _SoundFile(path, streams[0]["channels"], samples)
    return found


def _unreadable(name: str, error: EncodeFailed) -> InvalidInput:
    last = error.message.strip().rpartition("\n")[2].rpartition(": ")[2][:200]
    return InvalidInput(f"audio {name} cannot be read ({last}): give an mp3, wav, m4a, ogg or flac file")


def _without_xerror(arguments: Sequence[str]) -> list[str]:
    """Leave out what ends at the first damage: a sound file with a bad frame is one that players play."""
    return [argument for argument in arguments if argument != "-xerror"]


def _samples(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE)
