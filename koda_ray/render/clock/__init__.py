"""The scripts that give a page, the frames in it and its workers a clock that only the renderer moves."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

__all__ = ["clock_text", "page_clock", "worker_clock"]

_PAGE = ("core.js", "media.js", "page.js")
_WORKER = ("core.js", "worker.js")
# a page may put something else in their places, which would then wait for the clock that waits for it
_KEPT = (
    "const { Promise, Map, WeakMap, WeakRef, Set, Number, String, Object, Reflect, Math, URL, Blob, Uint8Array, Event, "
    "ErrorEvent, DOMException, AbortController, MessageChannel } = globalThis;\n"
)


def page_clock(seed: int, props: str) -> str:
    """Return the script that runs in a page, and in each frame of it, before any other.

    Args:
        seed: Of its random numbers.
        props: JSON that the page finds as ``window.__kodaProps``.
    """
    return _source(_PAGE).replace("__SEED__", str(seed)).replace("__PROPS__", props)


def worker_clock(seed: int) -> str:
    """Return the script that runs in a dedicated worker before its own.

    Args:
        seed: Of its random numbers.
    """
    return _source(_WORKER).replace("__SEED__", str(seed))


def clock_text() -> str:
    """Return all of the scripts' text: pictures may change where it does."""
    return _source(_PAGE) + _source(_WORKER)


@cache
def _source(names: tuple[str, ...]) -> str:
    folder = files("koda_ray.render.clock")
    text = "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
    return f"(() => {{\n{_KEPT}{text}}})();\n"
