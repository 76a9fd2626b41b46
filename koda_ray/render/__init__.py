"""Any web page to a video: `render` and `render_sync` are here, and loaded when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koda_ray.render.api import render, render_rows, render_sync

__all__ = ["render", "render_rows", "render_sync"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from koda_ray.render import api

    return getattr(api, name)
