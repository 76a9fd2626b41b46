"""The pages of the reference set as bundles: what is committed here, and what is made or copied when it is needed.

A page is ``pages/NAME.html``; ``pages/NAME.other.ext`` goes beside it as ``other.ext``. A line that says ``@gone``
makes one small thing of the picture: without it the picture has to be refused. Fonts and libraries are the template's.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from koda_ray.config import Settings
from koda_ray.render.bundle import Bundle

__all__ = ["PAGES", "SCENES", "ReferenceScene", "template_file"]

PAGES = Path(__file__).parent / "pages"
GONE = "@gone"
FPS = 10


@dataclass(frozen=True)
class ReferenceScene:
    """A page and the frames of it that have a reference.

    Args:
        name: Its file's.
        frames: Indices at 10 frames a second, in order.
        size: The viewport in CSS pixels.
        scale: Device pixels for each of them.
        alpha: Whether the picture is transparent.
        props: JSON for ``window.__kodaProps``.
    """

    name: str
    frames: tuple[int, ...]
    size: tuple[int, int] = (320, 180)
    scale: float = 1.0
    alpha: bool = False
    props: str = "{}"

    def bundle(self, *, gone: bool = False) -> Bundle:
        """Return the page with all that it asks for.

        Args:
            gone: Leave out the lines marked so.
        """
        files = {"index.html": _text(PAGES / f"{self.name}.html", gone)}
        for path in sorted(PAGES.glob(f"{self.name}.*.*")):
            files[path.name.removeprefix(f"{self.name}.")] = _text(path, gone)
        if source := files.pop("app.jsx", None):
            files["app.js"] = _bundled(source)
        text = b"\n".join(files.values()).decode()
        for name, make in _MADE.items():
            if name in text:
                files[name] = make()
        for package in re.findall(r"([\w-]+)\.css\b", text):
            files |= _fonts(package, text)
        return Bundle(files)


def _text(path: Path, gone: bool) -> bytes:
    lines = path.read_text("utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not (gone and GONE in line)).encode()


# ---- fonts and libraries ---------------------------------------------------------------------------------------------


def _modules() -> Path:
    return Settings().node_modules_path.resolve()


def template_file(name: str) -> bytes:
    """Return a file of the template's packages, by the name that pages know it by."""
    return (_modules() / _FILES[name]).read_bytes()


_FILES = {
    "three.module.js": "three/build/three.module.js",
    "jetbrains-mono.woff2": "@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2",
}


@cache
def _bundled(source: bytes) -> bytes:
    """Return a script of React with what it imports, as the template's own bundler makes it."""
    with tempfile.TemporaryDirectory(prefix="reference-") as folder:
        Path(folder, "node_modules").symlink_to(_modules())
        Path(folder, "page.jsx").write_bytes(source)
        line = ["node", str(_modules() / "rolldown" / "bin" / "cli.mjs"), "page.jsx", "--file=page.js", "--minify"]
        line += ["--transform.define", "process.env.NODE_ENV:'production',import.meta.env:{}", "--logLevel=silent"]
        subprocess.run(line, stdout=subprocess.DEVNULL, cwd=folder, check=True)
        return Path(folder, "page.js").read_bytes()


def _fonts(package: str, text: str) -> dict[str, bytes]:
    """Return a font's style sheet and its files, those alone that have letters of the text."""
    folder = _modules() / "@fontsource-variable" / package
    if not folder.is_dir():
        folder = _modules() / "@fontsource" / package
    files: dict[str, bytes] = {}
    kept: list[str] = []
    for face in re.findall(r"@font-face \{.*?\}", (folder / "index.css").read_text("utf-8"), re.DOTALL):
        ranges = re.findall(r"U\+(\w+)(?:-(\w+))?", face)
        if ranges and not any(int(a, 16) <= ord(letter) <= int(b or a, 16) for letter in set(text) for a, b in ranges):
            continue
        name = re.findall(r"url\(\./files/([^)]+\.woff2)\)", face)[0]
        files[f"files/{name}"] = (folder / "files" / name).read_bytes()
        kept.append(face.replace(" Variable'", "'"))
    return files | {f"{package}.css": "\n".join(kept).encode()}


# ---- pictures and film -----------------------------------------------------------------------------------------------


def _photo(shift: int = 0, side: int = 64) -> Image.Image:
    """Something round on something soft, which every format can hold."""
    y, x = np.mgrid[0:side, 0:side] / side
    picture = np.stack([x * 255, y * 255, 255 - (x + y) * 127], axis=-1)
    away = np.hypot(x - 0.2 - shift * 0.06, y - 0.5)
    picture[away < 0.18] = (255, 240, 40)
    picture[away < 0.08] = (20, 20, 60)
    return Image.fromarray(picture.astype(np.uint8))


def _still(kind: str, **options: object) -> bytes:
    data = io.BytesIO()
    _photo().save(data, kind, **options)
    return data.getvalue()


def _moving(kind: str, **options: object) -> bytes:
    data = io.BytesIO()
    first, *others = [_photo(shift, 32) for shift in range(10)]
    first.save(data, kind, save_all=True, append_images=others, duration=100, loop=0, **options)
    return data.getvalue()


@cache
def _film() -> bytes:
    """Two seconds at 10 pictures a second."""
    pictures = b"".join(np.asarray(_photo(n % 12, 96)).tobytes() for n in range(20))
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "96x96", "-r", "10", "-i", "pipe:"]
    with tempfile.TemporaryDirectory(prefix="reference-") as folder:
        path = Path(folder, "film.webm")
        line = ["ffmpeg", "-v", "error", *source, "-c:v", "libvpx", "-b:v", "4M", "-qmin", "0", "-g", "8", str(path)]
        subprocess.run(line, input=pictures, check=True)
        return path.read_bytes()


_MADE: dict[str, Callable[[], bytes]] = {
    "three.module.js": lambda: template_file("three.module.js"),
    "jetbrains-mono.woff2": lambda: template_file("jetbrains-mono.woff2"),
    "film.webm": _film,
    "moving.gif": lambda: _moving("GIF"),
    "moving.png": lambda: _moving("PNG"),
    "moving.webp": lambda: _moving("WEBP", lossless=True),
    "still.png": lambda: _still("PNG"),
    "still.jpg": lambda: _still("JPEG", quality=92),
    "still.webp": lambda: _still("WEBP", quality=92),
    "still.avif": lambda: _still("AVIF", quality=90),
}

_PROPS = json.dumps(
    {"title": "Ürün 2025", "colour": "#5a189a", "rows": [["north", 1200], ["south", 34567], ["æther", 8]]}
)

SCENES = (
    ReferenceScene("css-animation", (3, 9)),
    ReferenceScene("css-property", (6, 15)),
    ReferenceScene("transitions", (3, 7)),
    ReferenceScene("filters", (2, 9)),
    ReferenceScene("blend", (0, 7)),
    ReferenceScene("gradients", (2, 7)),
    ReferenceScene("cube", (4, 13)),
    ReferenceScene("smil", (4, 12)),
    ReferenceScene("svg-paint", (3, 15)),
    ReferenceScene("dash", (4, 11)),
    ReferenceScene("chart", (3, 14)),
    ReferenceScene("keyframes", (4, 17)),
    ReferenceScene("timeline", (4, 13)),
    ReferenceScene("canvas2d", (2, 14)),
    ReferenceScene("offscreen", (3, 9)),
    ReferenceScene("webgl1", (3, 14)),
    ReferenceScene("webgl2", (3, 14)),
    ReferenceScene("three", (3, 12)),
    ReferenceScene("alpha", (2, 8), alpha=True),
    ReferenceScene("sharp", (0, 8), size=(200, 120), scale=2),
    ReferenceScene("waapi", (2, 7)),
    ReferenceScene("raf-delta", (4, 15)),
    ReferenceScene("interval", (3, 14)),
    ReferenceScene("random", (5, 18)),
    ReferenceScene("date", (3, 12)),
    ReferenceScene("film", (2, 9)),
    ReferenceScene("moving-pictures", (3, 8)),
    ReferenceScene("frames", (3, 9)),
    ReferenceScene("shadow-dom", (2, 8)),
    ReferenceScene("scroll", (4, 14)),
    ReferenceScene("observers", (3, 12)),
    ReferenceScene("formats", (0, 6)),
    ReferenceScene("props", (2, 5), props=_PROPS),
    ReferenceScene("contract", (3, 16)),
    ReferenceScene("fonts", (4, 12)),
    ReferenceScene("clip-path", (4, 13)),
    ReferenceScene("offset-path", (4, 14)),
    ReferenceScene("layout", (3, 14)),
    ReferenceScene("view-transition", (5, 9)),
    ReferenceScene("react", (3, 11)),
)
