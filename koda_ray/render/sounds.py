"""Sound as a person names it, on one line: ``music.mp3@2.5,volume=0.4,fade-out=1``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from koda_ray.errors import InvalidInput, NotFound
from koda_ray.render.spec import AudioTrack

__all__ = ["read_sounds"]

_FOLDER = "koda-audio"
_LINE = re.compile(r"(?P<file>.+?)(?:@(?P<start>[\d.:]+))?(?P<rest>(?:,[a-z-]+=[^,]*)*)", re.DOTALL)
_FIELDS = {
    "start": "start_s",
    "trim": "trim_start_s",
    "length": "duration_s",
    "volume": "volume",
    "fade-in": "fade_in_s",
    "fade-out": "fade_out_s",
}


def read_sounds(lines: Sequence[str], files: Mapping[str, bytes]) -> tuple[tuple[AudioTrack, ...], dict[str, bytes]]:
    """Read sound files, each named by a file of this machine or of the page's own.

    Args:
        lines: ``FILE[@START][,volume=N][,fade-in=S][,fade-out=S][,trim=S][,length=S]``; times in seconds, START also as
            minutes:seconds.
        files: The page's own files.

    Returns:
        The tracks, and the files that have to be put into the bundle for them.

    Raises:
        NotFound: A file is neither here nor in the page.
        InvalidInput: A value is out of range or not known.
    """
    tracks: list[AudioTrack] = []
    added: dict[str, bytes] = {}
    for line in lines:
        name, values = _read(line)
        path = Path(name)
        if path.is_file():
            data = path.read_bytes()
            name = f"{_FOLDER}/{hashlib.sha256(data).hexdigest()[:16]}{path.suffix.lower()}"
            added[name] = data
        elif name not in files:
            raise NotFound(f"audio {name!r} is neither a file here nor one of the page's own")
        tracks.append(AudioTrack(path=name, **values))  # type: ignore[arg-type]
    return tuple(tracks), added


def _read(line: str) -> tuple[str, dict[str, float]]:
    if Path(line).is_file():  # a name may hold anything
        return line, {}
    found = _LINE.fullmatch(line)
    if found is None:
        raise InvalidInput("audio names no file: give FILE, or FILE@START")
    values = {"start_s": _seconds(line, found["start"])} if found["start"] else {}
    for part in found["rest"].split(",")[1:]:
        name, _, value = part.partition("=")
        if name not in _FIELDS:
            raise InvalidInput(f"audio {line!r}: {name!r} is none of {', '.join(_FIELDS)}")
        values[_FIELDS[name]] = _seconds(line, value)
    return found["file"], values


def _seconds(line: str, text: str) -> float:
    try:
        total = 0.0
        for part in text.split(":"):
            total = total * 60 + float(part)
        return total
    except ValueError:
        raise InvalidInput(f"audio {line!r}: {text!r} is not a number of seconds") from None
