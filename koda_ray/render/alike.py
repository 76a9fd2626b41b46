"""Which units of a changed page look as before: found by what its frames are drawn from, without drawing them.

A few pictures that are equal prove nothing of those between them, and pictures of low resolution nothing of a pixel.
So it is not pictures that are compared but all that they are made of. While a unit is captured, its page notes
(`clock/witness.js`) every call that changes a WebGL context or a canvas, with all data that it is given, and after
each frame the document: nodes, attributes, and every value that was written into an inline style. Beside that stand
the digests of the files that the page had asked for (`inputs`), except what it asked for as scripts and pages: those
act through what is noted, and through nothing else. All of it is one digest of 128 bits that runs from the page's
beginning to the unit's last frame, since what a browser draws depends on what it drew before.

A page of a new bundle is then run through the same frames "dry": what WebGL would draw is noted and left undone, and
nothing is painted. That is most of a frame's cost, and no script can tell the difference that reads no pixels back.
Where the digests are equal, the same browser (the environment's fingerprint is part of a unit's key) was given the
same to draw, in the same order, from the same files: so it draws the same, by what all units rely on.

What a picture may depend on beside that is not followed but refused: where a page does it, in the old bundle or in
the new one, there is no digest, and the unit is captured. Those are text, and colours that a style decides, on a 2D
canvas in the document, canvases that are drawn elsewhere, film, animations and transitions of the browser's, shadow
roots (closed ones in a page's text too, which no script can see), frames in the page, workers, WebGPU, pixels that are
read back, rules that a script writes, scrolling, focus, pictures that are no file of the bundle, elements that are not
listed, changes of the page between a frame's end and its picture, and what is true still when nobody sees it any more:
bases of addresses, policies, titles of sheets, what was written in a document without a doctype, and sizes and places
that a browser remembers. Files of style are compared as they are: where one differs, no unit is taken over. So an error
can only be one of these lists', and the lists are of what may be, not of what may not, wherever there is a choice.

So that an error of these lists is found where it happens, one frame of each run that is to be taken over, by the run's
key, is drawn all the same, on a page of its own: where its picture is not the stored one, the run is captured, and so
is all that this task has left.

What a unit shows depends on its run's beginning (`plan`). So a run is taken over as a whole, or captured as a whole:
no page ever begins where another's unit ends.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from koda_ray.render.problems import storable_text
from koda_ray.render.protocol import UnitResult
from koda_ray.render.spec import Unit

__all__ = [
    "MISSES",
    "Witnessed",
    "are_alike",
    "counterparts",
    "evidence",
    "is_worth_a_look",
    "look_ready_s",
    "spot",
]

MISSES = 2
"""After how many runs that differ a task looks no further: a change is mostly one piece of a film, so that it is looked
for from the task's beginning up to the first, and from its end back to the last."""
_LOOK_SHARE, _LOOK_TIMES = 0.2, 3
_ACTS = (".js", ".mjs", ".cjs", ".js.map", ".mjs.map", ".cjs.map", ".html", ".htm")
"""What scripts are called, and pages, which are noted as the document that is there."""
_TRUE = "True"
_DIGEST = re.compile("[0-9a-f]{32}")
_MAX_REASON_CHARS = 300


@dataclass(frozen=True)
class Witnessed:
    """A digest of what frames are drawn from; None where something of it is not followed, and ``why``."""

    digest: str | None
    why: str

    @classmethod
    def of(cls, said: object) -> Witnessed:
        """Read what a page says it has noted; a page may say anything."""
        found = cast("dict[str, object]", said) if isinstance(said, dict) else {}
        digest = found.get("digest")
        if isinstance(digest, str) and _DIGEST.fullmatch(digest):
            return cls(digest, "")
        return cls(None, storable_text(str(found.get("why", "nothing was noted"))[:_MAX_REASON_CHARS]))


def evidence(digest: str | None, inputs: Mapping[str, str] | None, shown: Collection[str] = frozenset()) -> str | None:
    """Return what a unit's frames are made of as one name; None where it is not known, or not all of it.

    Args:
        digest: What the page noted, from its beginning to the unit's last frame.
        inputs: What it had asked for of its bundle by then, by hash, and the bundle's traits (`Bundle.traits`).
        shown: What of it was asked for as something else than a script or a page, whatever it is called: a picture's
            name may end like a script's.
    """
    if digest is None or inputs is None:
        return None
    traits = {name: its for name, its in inputs.items() if name.startswith("//")}
    if traits.get("//moves") == _TRUE or traits.get("//draws") == _TRUE:  # pictures that move by themselves
        return None
    files = {name: its for name, its in inputs.items() if name in shown or not name.lower().endswith(_ACTS)}
    return hashlib.sha256(json.dumps([digest, sorted(files.items())]).encode()).hexdigest()


def are_alike(before: UnitResult, seen: str | None) -> bool:
    """Whether a unit shows what a page was seen to show: both are known, whole and equal."""
    return seen is not None and before.evidence is not None and before.evidence == seen


def is_worth_a_look(run: Sequence[UnitResult]) -> bool:
    """Whether capturing a run took longer than opening its page twice more does, which is what a look costs.

    Args:
        run: Its units as they were captured before; those of an empty one are not worth it.
    """
    captured_ms = sum(unit.timings_ms.get("capture", 0.0) for unit in run)
    return captured_ms > 2 * max((unit.timings_ms.get("ready", 0.0) for unit in run), default=0.0)


def look_ready_s(run: Sequence[UnitResult], ready_timeout_s: float) -> float:
    """Return how long a look waits for its page to become ready, in seconds.

    A page that never does is waited for again when it is captured, since it may be so only where nothing is drawn: so a
    look waits for a fifth of that, but for three times as long as the page took before.

    Args:
        run: Its units as they were captured before.
        ready_timeout_s: How long the page may take where it is captured.
    """
    took_s = max((unit.timings_ms.get("ready", 0.0) for unit in run), default=0.0) / 1000
    return min(ready_timeout_s, max(ready_timeout_s * _LOOK_SHARE, _LOOK_TIMES * took_s))


def spot(run: Sequence[Unit], key: str) -> tuple[Unit, int]:
    """Return the frame of a run that is drawn before it is taken over, and its unit: by chance, but ever the same.

    Args:
        run: Units in order.
        key: Of its first unit.
    """
    chance = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
    frames = [(unit, frame) for unit in run for frame in range(unit.start, unit.stop)]
    return frames[chance % len(frames)]


def counterparts(before: Mapping[int, UnitResult], run: Sequence[int]) -> tuple[UnitResult, ...]:
    """Return another bundle's units for all of a run, in order; none where one of them is missing or says nothing."""
    found = tuple(before[index] for index in run if index in before and before[index].evidence is not None)
    return found if len(found) == len(run) else ()
