"""What calls of the orchestrator's tools touch, by name: calls of one message that touch different things run at once.

Every tool may run again under its call's id but one: a shell may do anything anywhere, so a command whose outcome is
not known is closed, and its sandbox filled anew from the last checkpoint. What runs again comes to the same:

- todos, thinking, messages and questions change nothing but rows, in the commit that stores the outcome;
- generated files are written by their paths, and stored by their hash, before the outcome is;
- a preview's job has an id made of the call's, so that what was rendered is found, and corrections that a person has
  seen are kept under the call's;
- a dev server that runs is not started again, and a picture's address is the hash of its bytes.

A tool without names touches everything: what the model calls after writing files, or after a preview, waits until that
has come to something, since a person may be asked first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

__all__ = ["Touched", "touches"]

Touched = Literal["messages", "project", "thinking", "todos"]


def touches(*names: Touched) -> Callable[[object], Collection[str]]:
    """Say what every call of a tool touches, as `koda_ray.agent.toolkit.Tool.keys`."""
    return lambda _: names
