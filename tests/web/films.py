"""Films that browsers play, in the place of the bytes that a session's videos are here."""

from __future__ import annotations

import io
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

from tests.serve.scripted import VIDEO

__all__ = ["film_of", "have_films"]


def have_films(frame: bytes | None = None) -> None:
    """Have sessions' videos be films that browsers play, which stand still, and not only bytes.

    Args:
        frame: What they show, as a JPEG; a plain colour when None.
    """
    if frame is None:
        Image.new("RGB", (640, 360), "teal").save(made := io.BytesIO(), "JPEG")
        frame = made.getvalue()
    film = film_of(frame)
    VIDEO.update(preview=film, final=film, thumbnail=frame)


def film_of(frame: bytes) -> bytes:
    """Return a film of five seconds that stands still."""
    with tempfile.TemporaryDirectory(prefix="koda-pictures-") as folder:
        target = Path(folder) / "film.webm"
        held = "loop=loop=-1:size=1,fps=30,scale=640:360"
        codec = ["-t", "5", "-c:v", "libvpx", "-deadline", "realtime", "-b:v", "1M", str(target)]
        command = ["ffmpeg", "-loglevel", "error", "-f", "image2pipe", "-i", "-", "-vf", held, *codec]
        subprocess.run(command, input=frame, check=True)
        return target.read_bytes()
