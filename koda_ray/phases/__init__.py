"""The phase machine: ``(state, command) -> (state, effects)``, pure.

Seven phases: idle, question, plan, executing, preview, complete, error. A command comes from a person (start, answer,
accept, ...) or from the agents (ask, propose, previewed, ...). Whatever must still be done stands in ``state.owes``
and so in the session's row: a process that dies leaves nothing owed that the row does not show. Time and ids come in
with the command, so the same commands give the same states. While a tool call waits for a person's agreement
(``state.approval``) nothing is owed: what was owed stands there, and goes on once the person has decided.

    idle -> question | plan            question -> plan            plan -> executing | question | plan
    executing -> preview | error       preview -> complete | executing | preview
    idle, question, plan, executing -> question, where the agents are stuck, and back
    complete -> executing | preview    error -> whatever it failed in; any -> error
    any that owes work -> question, while a budget is asked about -> where it was
"""

from __future__ import annotations

from koda_ray.phases.checks import check
from koda_ray.phases.interruptions import NOTHING_OWED, STOP, at_rest, is_stuck, pending_calls
from koda_ray.phases.machine import apply
from koda_ray.phases.parts import Transition
from koda_ray.phases.plans import scene_bounds

__all__ = [
    "NOTHING_OWED",
    "STOP",
    "Transition",
    "apply",
    "at_rest",
    "check",
    "is_stuck",
    "pending_calls",
    "scene_bounds",
]
