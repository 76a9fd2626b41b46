"""Motion as Theatre keeps it: keyframes with bezier handles, written as the project's on-disk state.

A recipe says "be at this value by then, along that curve"; a `Score` turns it into the tracks that Theatre's editor
shows and edits. Gravity is exact: a parabola is a cubic bezier, so a thrown thing needs no sampling.

Source: Theatre.js 0.7 on-disk state, definition version 0.4.0; handles are [in x, in y, out x, out y] in the unit
square of the segment between two keyframes. Curves: easings.net; parabola as a cubic by degree elevation.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from koda_ray.roles.offline.brief import Brief, Style

__all__ = ["EASINGS", "FEELS", "Feel", "Score", "elastic", "feel_of"]

Curve = tuple[float, float, float, float]

EASINGS: dict[str, Curve] = {
    "linear": (1 / 3, 1 / 3, 2 / 3, 2 / 3),
    "fall": (1 / 3, 0.0, 2 / 3, 1 / 3),
    "rise": (1 / 3, 2 / 3, 2 / 3, 1.0),
    "easeInOutSine": (0.37, 0.0, 0.63, 1.0),
    "easeOutSine": (0.61, 1.0, 0.88, 1.0),
    "easeInSine": (0.12, 0.0, 0.39, 0.0),
    "easeInOutCubic": (0.65, 0.0, 0.35, 1.0),
    "easeOutCubic": (0.33, 1.0, 0.68, 1.0),
    "easeInCubic": (0.32, 0.0, 0.67, 0.0),
    "easeOutQuint": (0.22, 1.0, 0.36, 1.0),
    "easeInOutQuart": (0.76, 0.0, 0.24, 1.0),
    "easeInQuart": (0.5, 0.0, 0.75, 0.0),
    "easeOutExpo": (0.16, 1.0, 0.3, 1.0),
    "easeOutBack": (0.34, 1.56, 0.64, 1.0),
    "easeInBack": (0.36, 0.0, 0.66, -0.56),
    "cinematicOut": (0.08, 0.82, 0.17, 1.0),
    "hold": (0.0, 0.0, 1.0, 0.0),
}
"""Curves by name, as the control points of a cubic bezier from (0, 0) to (1, 1)."""


@dataclass(frozen=True)
class Feel:
    """How things enter, move and leave in a style. ``enter_s`` and ``stagger_s`` in seconds."""

    enter: str
    move: str
    leave: str
    settle: str
    enter_s: float
    stagger_s: float


FEELS: dict[Style, Feel] = {
    "playful": Feel("easeOutBack", "easeInOutCubic", "easeInBack", "easeOutElastic", 0.6, 0.09),
    "smooth": Feel("easeOutQuint", "easeInOutCubic", "easeInOutCubic", "easeOutQuint", 1.1, 0.14),
    "cinematic": Feel("cinematicOut", "easeInOutQuart", "easeInOutQuart", "easeInOutQuart", 1.6, 0.2),
}
"""The style-to-parameter table. Source: the animation system's styles (easing, motion, timing)."""


def feel_of(brief: Brief) -> Feel:
    """Return the brief's feel, its times divided by the asked speed."""
    feel = FEELS[brief.easing or brief.style]
    pace = math.sqrt(brief.speed) if brief.speed < 1 else brief.speed
    return Feel(feel.enter, feel.move, feel.leave, feel.settle, feel.enter_s / pace, feel.stagger_s / pace)


@dataclass(frozen=True)
class _Key:
    t: float
    v: float
    ease: str


def elastic(
    start: float, stop: float, seconds: float, *, from_s: float, swings: int = 3, bounce: float = 1.0
) -> list[tuple[float, float, str]]:
    """Return keys of a spring from ``start`` to ``stop``: each extreme of a damped oscillation is a keyframe.

    Args:
        start: Value at ``from_s``.
        stop: Value where the spring rests.
        seconds: Time until it rests.
        from_s: When it is let go.
        swings: Extremes before rest.
        bounce: Size of the first overshoot relative to usual (about 18 % of the way).
    """
    keys: list[tuple[float, float, str]] = [(from_s, start, "linear")]
    way = stop - start
    first = 0.34
    for i in range(swings):
        t = first + (1 - first) * i / swings
        size = 0.18 * bounce * 0.38**i * (-1 if i % 2 else 1)
        keys.append((from_s + seconds * t, stop + way * size, "easeOutCubic" if i == 0 else "easeInOutSine"))
    keys.append((from_s + seconds, stop, "easeInOutSine"))
    return keys


@dataclass
class Score:
    """The tracks of a film, by object and property."""

    tracks: dict[str, dict[str, list[_Key]]] = field(default_factory=dict[str, dict[str, list[_Key]]])

    def add(self, target: str, prop: str, keys: Iterable[tuple[float, float] | tuple[float, float, str]]) -> None:
        """Add keys of a property: (seconds, value, curve that arrives there), in the order of time.

        A key that comes no later than the one before takes its place: where a film is too short for all of them, the
        last word counts.
        """
        track = self.tracks.setdefault(target, {}).setdefault(prop, [])
        for key in keys:
            ease = key[2] if len(key) == 3 else "easeInOutCubic"
            item = _Key(round(max(0.0, key[0]), 4), round(key[1], 4), ease)
            if track and item.t - track[-1].t < 0.001:
                track[-1] = _Key(track[-1].t, item.v, track[-1].ease)
            else:
                track.append(item)

    def state(self, *, length_s: float, until_s: float | None = None, bounce: float = 1.0) -> str:
        """Return the on-disk state as JSON text.

        Args:
            length_s: The sequence's length in seconds.
            until_s: Leave out keys later than this, except each track's first; everything when None.
            bounce: Scales the overshoot of the "Back" curves.
        """
        by_object: dict[str, object] = {}
        for target, props in self.tracks.items():
            data: dict[str, object] = {}
            paths: dict[str, str] = {}
            for prop, keys in props.items():
                kept = [k for i, k in enumerate(keys) if i == 0 or until_s is None or k.t <= until_s + 1e-6]
                track_id = _id(target, prop)
                paths[json.dumps([prop], separators=(",", ":"))] = track_id
                data[track_id] = {
                    "type": "BasicKeyframedTrack",
                    "__debugName": f'{target}:["{prop}"]',
                    "keyframes": _keyframes(kept, target, prop, bounce),
                }
            by_object[target] = {"trackData": data, "trackIdByPropPath": paths}
        state: dict[str, object] = {
            "sheetsById": {
                "Main": {
                    "staticOverrides": {"byObject": {}},
                    "sequence": {
                        "subUnitsPerUnit": 60,
                        "length": length_s,
                        "type": "PositionalSequence",
                        "tracksByObject": by_object,
                    },
                }
            },
            "definitionVersion": "0.4.0",
            "revisionHistory": [_id("revision", json.dumps(by_object, sort_keys=True))],
        }
        return json.dumps(state, indent=2, ensure_ascii=False) + "\n"

    def value(self, target: str, prop: str, t: float) -> float:
        """Return the value of a track at ``t`` seconds, as Theatre would."""
        keys = self.tracks[target][prop]
        if t <= keys[0].t:
            return keys[0].v
        for left, right in pairwise(keys):
            if t < right.t:
                if right.ease == "hold":
                    return left.v
                x = (t - left.t) / (right.t - left.t)
                return left.v + (right.v - left.v) * _solve(EASINGS[right.ease], x)
        return keys[-1].v


def _solve(curve: Curve, x: float) -> float:
    """Return y of a cubic bezier at ``x``, by bisection on its parameter."""
    x1, y1, x2, y2 = curve
    low, high = 0.0, 1.0
    for _ in range(40):
        s = (low + high) / 2
        if 3 * (1 - s) ** 2 * s * x1 + 3 * (1 - s) * s * s * x2 + s**3 < x:
            low = s
        else:
            high = s
    s = (low + high) / 2
    return 3 * (1 - s) ** 2 * s * y1 + 3 * (1 - s) * s * s * y2 + s**3


def _id(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]


def _curve(ease: str, bounce: float) -> Curve:
    x1, y1, x2, y2 = EASINGS[ease]
    if ease == "easeOutBack":
        y1 = 1 + (y1 - 1) * bounce
    elif ease == "easeInBack":
        y2 *= bounce
    return x1, y1, x2, y2


def _keyframes(keys: list[_Key], target: str, prop: str, bounce: float) -> list[dict[str, object]]:
    frames: list[dict[str, object]] = []
    for i, key in enumerate(keys):
        _, _, in_x, in_y = _curve(key.ease, bounce)
        out_ease = keys[i + 1].ease if i + 1 < len(keys) else "linear"
        out_x, out_y, _, _ = _curve(out_ease, bounce)
        frames.append(
            {
                "id": _id(target, prop, str(i)),
                "position": key.t,
                "connectedRight": True,
                "handles": [round(h, 4) for h in (in_x, in_y, out_x, out_y)],
                "type": "hold" if out_ease == "hold" else "bezier",
                "value": key.v,
            }
        )
    return frames
