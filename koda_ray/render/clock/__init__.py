"""The scripts that give a page, the frames in it and its workers a clock that only the renderer moves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

__all__ = ["Moved", "Witness", "clock_text", "page_clock", "unscripted_clock", "worker_clock"]

_WITNESS = ("digest.js", "witness.js")
_AHEAD = ("ahead.js",)
_MOVING = (
    *("core.js", "media.js", "canvas.js", "offscreen.js", "fonts.js", "films.js", "pictures.js", "scroll.js"),
    *("stops.js", "late.js"),
)
_WORKER = ("core.js", "canvas.js", "offscreen.js", "worker.js")
# a page may put something else in their places, which would then wait for the clock that waits for it
_KEPT = (
    "const { Promise, Map, WeakMap, WeakRef, WeakSet, Set, Number, String, Object, Reflect, Math, URL, Blob, "
    "Uint8Array, Uint32Array, Float32Array, Event, ErrorEvent, DOMException, AbortController, MessageChannel, Image, "
    "DOMParser, XMLSerializer } "
    "= globalThis;\n"
)


Witness = Literal["drawn", "dry"]
"""Whether what is noted is drawn as well."""


@dataclass(frozen=True)
class Moved:
    """What moves by itself in pictures, and is moved by the script because the browser does so by a time of its own."""

    drawings: bool = False
    pictures: bool = False


def page_clock(
    seed: int, props: str, moved: Moved | None = None, *, witness: Witness | None = None, ahead: bool = False
) -> str:
    """Return the script that runs in a page, and in each frame of it, before any other.

    Args:
        seed: Of its random numbers.
        props: JSON that the page finds as ``window.__kodaProps``.
        moved: Which pictures it moves.
        witness: How it is noted what frames are drawn from (`koda_ray.render.alike`); it is not where this is None.
        ahead: Whether it may be asked for the next frame while one is painted.
    """
    return _page(seed, moved, alone=False, witness=witness, ahead=ahead).replace("__PROPS__", props)


def unscripted_clock(seed: int, moved: Moved | None = None) -> str:
    """Return the script that moves frames whose own scripts are off, from an isolated world of each; others it leaves.

    Args:
        seed: Of its random numbers.
        moved: Which pictures it moves.
    """
    return _page(seed, moved, alone=True).replace("__PROPS__", "{}")


def worker_clock(seed: int) -> str:
    """Return the script that runs in a dedicated worker before its own.

    Args:
        seed: Of its random numbers.
    """
    return _source(_WORKER).replace("__SEED__", str(seed))


def clock_text() -> str:
    """Return all of the scripts' text: pictures may change where it does."""
    return _source(_page_scripts(witnessed=True, ahead=True)) + _source(_WORKER)


def _page(seed: int, moved: Moved | None, *, alone: bool, witness: Witness | None = None, ahead: bool = False) -> str:
    source = _source(_page_scripts(witnessed=witness is not None, ahead=ahead)).replace("__SEED__", str(seed))
    drawings, pictures = (moved.drawings, moved.pictures) if moved else (False, False)
    said = {"__ALONE__": alone, "__DRAWINGS__": drawings, "__PICTURES__": pictures, "__DRY__": witness == "dry"}
    for name, value in said.items():
        source = source.replace(name, str(value).lower())
    return source


def _page_scripts(*, witnessed: bool, ahead: bool) -> tuple[str, ...]:
    """Name a page's scripts in their order; it loads faster without what it does not need."""
    watching, going = _WITNESS if witnessed else (), _AHEAD if ahead else ()
    return ("world.js", "unwitnessed.js", *watching, *_MOVING, "in_turn.js", *going, "page.js")


@cache
def _source(names: tuple[str, ...]) -> str:
    folder = files("koda_ray.render.clock")
    text = "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
    return f"(() => {{\n{_KEPT}{text}}})();\n"
