"""Processes that try and render a page, started before there is one: whoever has built it waits for none.

They end where nobody needs them for a while, so they are started when a preview is near. How near it is, the code
generator's pace says: a quick one has its preview as soon as its first files are there, a model that thinks for half a
minute about each step only after its last.
"""

from __future__ import annotations

from koda_ray.types import NodeState

__all__ = ["NEAR_S", "is_preview_near"]

NEAR_S = 10.0
"""How soon, in seconds, a preview has to be expected: half of how long Ray keeps a process that does nothing."""


def is_preview_near(state: NodeState, *, answer_s: float | None) -> bool:
    """Whether a preview may be expected soon after files were written.

    Args:
        state: The session's; the last of its todos is the preview.
        answer_s: How long the code generator took for these files, in seconds; None where nobody measured it.
    """
    todos = state.execution.todos if state.execution is not None else ()
    left = sum(todo.status != "done" for todo in todos)
    to_write = max(0, left - 2)  # nothing is written any more for the one whose files these are, and for the preview
    return to_write == 0 or (answer_s is not None and to_write * answer_s <= NEAR_S)
