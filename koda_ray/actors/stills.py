"""The clock and the flags of a render, for pictures of a page that are taken inside its sandbox.

Renderer and sandboxes do not know each other, so whoever has a picture taken brings them.
"""

from __future__ import annotations

from koda_ray.render.browser import CHROMIUM_FLAGS
from koda_ray.render.clock import Moved, page_clock, unscripted_clock, worker_clock
from koda_ray.sandbox.screenshot import PageClock

__all__ = ["still_clock"]


def still_clock() -> PageClock:
    """Return what a picture needs to be the frame that a render shows."""
    return PageClock(
        page=page_clock(1, "{}", Moved(drawings=True)),
        unscripted=unscripted_clock(1),
        worker=worker_clock(1),
        flags=CHROMIUM_FLAGS,
    )
