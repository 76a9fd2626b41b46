"""How fast this machine draws: what can only be said after it was tried."""

from __future__ import annotations

import asyncio

from koda_ray.doctor.finding import Examination, Finding
from koda_ray.errors import Missing, RenderError

__all__ = ["rasterizers"]

_GROUP = "Drawing WebGL on the processor (1280x720, processor time of a frame)"


def rasterizers(examination: Examination) -> list[Finding]:
    """Have each rasterizer that draws here draw the same scene, and say which is fastest and how to have it."""
    from koda_ray.render.gpu import choose_graphics
    from koda_ray.render.programs import find_browser
    from koda_ray.render.rasterizers import Measured, fastest, measure_rasterizers

    try:
        binary = find_browser(examination.settings.chromium_path).path
        measured = asyncio.run(measure_rasterizers(binary))
    except (Missing, RenderError) as error:
        return [Finding(_GROUP, "measuring", "warning", error.message, "see above for what is missing")]
    best = fastest(measured)
    html_ms = next((each.html_ms for each in measured if not each.composited and each.html_ms is not None), None)

    def finding(each: Measured) -> Finding:
        name = f"{each.name}, page and all" if each.composited else each.name
        if each.cpu_ms is None or each.wall_ms is None:
            return Finding(_GROUP, name, "ok", f"not here: {each.why_not}")
        said = f"{each.cpu_ms:.0f} ms, {each.wall_ms:.0f} ms by the clock; {each.renderer}"
        if each.html_ms is not None:
            said += f"; a page of HTML {each.html_ms:.0f} ms"
        if each.composited:
            times = f", {each.html_ms / html_ms:.1f} times as long" if each.html_ms and html_ms else ""
            return Finding(_GROUP, name, "ok", f"{said}{times}; only to compare")
        return Finding(_GROUP, name, "ok", f"{said}{' <- the fastest' if each.name == best else ''}")

    found = [finding(each) for each in measured]
    asked = examination.settings.render_graphics
    if best is None:
        return [*found, Finding(_GROUP, "choice", "warning", "nothing draws WebGL here", "install libgl1-mesa-dri")]
    try:
        chosen = asyncio.run(choose_graphics(binary, asked))
    except Missing:  # the check of graphics says so
        chosen = None
    if asked == "gpu" or (chosen is not None and (chosen.kind == "gpu" or chosen.rasterizer == best)):
        return [*found, Finding(_GROUP, "choice", "ok", f"KODA_RENDER_GRAPHICS={asked} is right here")]
    remedy = f"set KODA_RENDER_GRAPHICS={best}, alike on all machines that render: it decides pixels"
    return [*found, Finding(_GROUP, "choice", "warning", f"{best} is faster here than {asked}", remedy)]
