"""What units, grids and whole videos are called: hashes of all that decides their bytes, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from koda_ray.render.plan import EARLY_UNITS, run_of
from koda_ray.render.spec import KEPT_PICTURES, CaptureMode, RenderSpec, Unit

__all__ = ["film_hash", "grid_hash", "recipe_hash", "unit_hash"]


def unit_hash(spec: RenderSpec, unit: Unit, *, environment: str, mode: CaptureMode) -> str:
    """Return the name of a unit's bytes: equal inputs give equal bytes, on any machine of one environment.

    Args:
        spec: The video; only the fields that decide pixels or their encoding count.
        unit: The unit; its number of frames counts, because the last one is cut, and where its run begins.
        environment: Fingerprint of browser, graphics, encoder and fonts.
        mode: How the unit's first frame is reached.
    """
    # a page that is stepped through has other runs behind the early ones, whose beginnings are the same for all lengths
    where = {"run": run_of(spec, unit.index, stepped=False), "start": unit.start, "stop": unit.stop}
    return _digest({**_decides(spec), **where, "environment": environment, "mode": mode})


def grid_hash(spec: RenderSpec, *, environment: str, mode: CaptureMode) -> str:
    """Return the name of a frame grid: units of equal grids have equal names, whatever the videos' lengths."""
    runs = sorted({run_of(spec, index, stepped=False) for index in range(EARLY_UNITS)})
    return _digest({**_decides(spec), "runs": runs, "environment": environment, "mode": mode})


def recipe_hash(spec: RenderSpec, *, environment: str, mode: CaptureMode) -> str:
    """Return the name of what decides a frame grid apart from its bundle."""
    decides = {name: value for name, value in _decides(spec).items() if name != "bundle"}
    return _digest({**decides, "environment": environment, "mode": mode, "bundle": "any"})


def film_hash(spec: RenderSpec, *, environment: str) -> str:
    """Return the name of a whole video: equal inputs give an equal file."""
    sound = [asdict(track) for track in spec.audio]
    checks = {"moves": spec.moves, "strict": spec.strict}
    whole = {"container": spec.format, "frames": spec.frame_count, "audio": sound, "environment": environment}
    return _digest({**_decides(spec), **checks, **whole})


def _digest(decides: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(decides, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _decides(spec: RenderSpec) -> dict[str, object]:
    """Return what decides the pixels and the encoding of a video's units."""
    kept = spec.format in KEPT_PICTURES
    return {
        "bundle": spec.bundle,
        "width": spec.width,
        "height": spec.height,
        "scale": spec.scale,
        "fps": str(spec.fps),
        "format": KEPT_PICTURES if kept else spec.format,
        "alpha": spec.alpha,
        "crf": None if kept else spec.crf,
        "bitrate": spec.bitrate_kbps,
        "effort": None if kept else spec.effort,
        "seed": spec.seed,
        "entry": spec.entry,
        "props": spec.props,
    }
