"""What all the transitions of the phase machine are made of."""

from __future__ import annotations

from typing import cast

from pydantic import JsonValue

from koda_ray.commands import Effect, Emit
from koda_ray.errors import InvalidInput, InvalidTransition
from koda_ray.pointing import in_words
from koda_ray.types import MAX_PROMPT_CHARS, NodeState, Note, Pointed

__all__ = ["Transition", "announce", "asked", "binding", "person_said", "refuse", "was_spoken_to", "words_of"]


Transition = tuple[NodeState, tuple[Effect, ...]]
"""A new state, and what its owner must do."""


def announce(state: NodeState) -> Emit:
    """Tell of a new state."""
    dumped = cast("JsonValue", state.model_dump(mode="json", by_alias=True))
    return Emit("state_change", (("phase", state.phase), ("owes", state.owes), ("state", dumped)))


def person_said(text: str, *, asked: str | None = None) -> Emit:
    """Tell what a person said, and the question that it answers."""
    question = () if asked is None else (("asked", asked),)
    return Emit("message", (("role", "user"), ("content", text), *question))


def asked(
    state: NodeState, words: str, notes: tuple[Note, ...], what: str, *, field: str | None = None
) -> tuple[str, dict[str, object]]:
    """Return what was asked for in words, notes and all, and what a state has of it then.

    Args:
        state: The state before.
        words: What was said; it may be empty where something was pointed at.
        notes: What was pointed at.
        what: What is empty or too long, for who said it.
        field: What a request calls it, where that is something else.
    """
    told = words_of(in_words(words, notes, state.plan), what, field=field)
    update: dict[str, object] = {"feedback": (*state.feedback, told)}
    if notes:
        pointed = Pointed(change=len(state.feedback) + 1, words=words.strip(), notes=notes)
        update["pointed"] = (*state.pointed, pointed)
    return told, update


def was_spoken_to(state: NodeState) -> bool:
    """Whether something was said that the agents have not answered yet: it comes before what they would show."""
    return bool(state.unread) or state.feedback_seen < len(state.feedback)


def binding(state: NodeState) -> NodeState:
    """Have the agents go on because of what they have not begun to heed, which can't be taken back then."""
    unread = tuple(each.model_copy(update={"binding": True}) for each in state.unread)
    return state.model_copy(update={"unread": unread}) if unread else state


def refuse(state: NodeState, what: str, instead: str) -> InvalidTransition:
    """Say why a command is not taken, and what is."""
    under_way = f" while {state.owes} is under way" if state.owes else ""
    return InvalidTransition(
        f"cannot {what} in phase {state.phase}{under_way}; {instead}",
        context={"phase": state.phase, "owes": state.owes},
    )


def words_of(value: str | None, what: str, *, field: str | None = None) -> str:
    """Return what was said; raises InvalidInput, naming ``field`` or ``what``, where it is empty or too long."""
    text = (value or "").strip()
    if not text:
        raise InvalidInput(f"{what} is empty; say it in a few words", context={"field": field or what})
    if len(text) > MAX_PROMPT_CHARS:
        raise InvalidInput(
            f"{what} has {len(text)} characters; at most {MAX_PROMPT_CHARS} are taken, so shorten it",
            context={"field": field or what, "length": len(text)},
        )
    return text
