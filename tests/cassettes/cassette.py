"""A scripted conversation as a file: what the person does, what the model is asked and answers, what must hold then.

    prompt: what is said first
    talk:
    - person: {accept: }          # a verb and what it is given; see `tests.cassettes.player`
      model:                      # what the model is asked until the session rests again, in this order
      - by: orchestrator          # who asks
        results: [!has "accepted"]  # of the calls of its last answer, in order
        calls:
        - set_todos: {todos: [{id: setup, label: Set up}]}
      - by: code_generator
        request: {task: initial_setup}
        writes: {src/App.tsx: ball/App.tsx}   # the file's text stands below ``code/``
      holds: {phase: preview}     # afterwards
      mark: first                 # a name for this moment, to come back to

What is written down is compared as far as it is written down: a mapping may have more keys, a list has as many items.
``!has TEXT`` is a text that holds another one (or each of several), ``!some ITEM`` a list that has such an item,
``!absent`` a key that is not there or null.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["CASSETTES", "Absent", "Cassette", "CassetteStep", "CassetteTurn", "Has", "Holds", "differences"]

HERE = Path(__file__).parent
CASSETTES = sorted(path.stem for path in HERE.glob("*.yaml"))


@dataclass(frozen=True)
class Has:
    """A text that holds each of these."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Some:
    """A list in which there is such an item."""

    item: Any


@dataclass(frozen=True)
class Absent:
    """Nothing."""


class _Loader(yaml.SafeLoader):
    """YAML with our tags; a key that is written twice is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        assert not twice, f"{twice} stands twice{node.start_mark}"
        return super().construct_mapping(node, deep)


def _has(loader: yaml.SafeLoader, node: yaml.Node) -> Has:
    if isinstance(node, yaml.SequenceNode):
        return Has(tuple(map(str, loader.construct_sequence(node))))
    return Has((str(loader.construct_scalar(node)),))  # type: ignore[arg-type]


def _some(loader: yaml.SafeLoader, node: yaml.Node) -> Some:
    if isinstance(node, yaml.MappingNode):
        return Some(loader.construct_mapping(node, deep=True))
    return Some(loader.construct_scalar(node))  # type: ignore[arg-type]


_Loader.add_constructor("!has", _has)
_Loader.add_constructor("!some", _some)
_Loader.add_constructor("!absent", lambda loader, node: Absent())


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, frozen=True)


class CassetteTurn(_Strict):
    """One request of an agent and its answer.

    Args:
        by: Who asks.
        hears: What the person's newest words are, each a text of its own; none where nothing is said.
        results: What the calls of the agent's last answer gave, in order; ``{error: ...}`` for one that failed. All
            were fine where this is left out.
        state: Of the state block.
        session: Of the session block.
        request: Of the code generator's request.
        files: Exactly the files that the code generator is shown.
        says: Words of the answer.
        calls: Its tool calls, each ``{name: input}``; an input that is a text is sent as it is, valid JSON or not.
        writes: Files of the code generator's answer, as they stand below ``code/``.
        edits: Files of its answer as the request shows them, with each text replaced by another.
        hangs: Whether the code generator's answer stops in the middle, until a person stops the work.
    """

    by: Literal["orchestrator", "code_generator"]
    hears: list[Any] = Field(default_factory=list)
    results: list[Any] | None = None
    state: dict[str, Any] = Field(default_factory=dict)
    session: dict[str, Any] = Field(default_factory=dict)
    request: dict[str, Any] = Field(default_factory=dict)
    files: list[str] | None = None
    says: str | None = None
    calls: list[dict[str, dict[str, Any] | str]] = Field(default_factory=list)
    writes: dict[str, str] = Field(default_factory=dict)
    edits: dict[str, dict[str, str]] = Field(default_factory=dict)
    hangs: bool = False

    @model_validator(mode="after")
    def _whole(self) -> CassetteTurn:
        code = self.by == "code_generator"
        assert bool(self.writes or self.edits) == code, f"{self.by} writes {[*self.writes, *self.edits]}"
        assert code or self.says or self.calls, "an answer says something or calls something"
        assert code or not self.hangs, "what the orchestrator did not finish is not part of its talk"
        assert all(len(call) == 1 for call in self.calls), "a call is one name and its input"
        return self


class Holds(_Strict):
    """What is to be seen at rest.

    Args:
        phase: Of the session.
        state: Of its state, by wire names.
        events: Types that came since the step began, in this order with others between them; ``{type: data}`` for more.
        never: Types that did not come since then.
        files: Of the project as stored; ``!absent`` for one that is gone.
        todos: Statuses by id, all of them.
        waits: Of the approval that waits.
        answered: Of the approval that was answered last.
        video: ``new`` where the preview shows a bundle that was never there before, or the mark whose bundle it shows.
        shows: The hue in whose range a good part of the preview's last picture lies.
        final: Of the finished render's job; its file is downloaded and probed.
        like: The mark whose messages, files, plan, todos and video are all there again.
        charged: How often each of these was paid for since the session was made, by agent or kind.
        limits: Of the session's budget, by wire names.
    """

    phase: str
    state: dict[str, Any] = Field(default_factory=dict)
    events: list[Any] = Field(default_factory=list)
    never: list[str] = Field(default_factory=list)
    files: dict[str, Any] = Field(default_factory=dict)
    todos: dict[str, str] | None = None
    waits: dict[str, Any] | None = None
    answered: dict[str, Any] | None = None
    video: str | None = None
    shows: Literal["red", "green", "blue"] | None = None
    final: dict[str, Any] | None = None
    like: str | None = None
    charged: dict[str, int] = Field(default_factory=dict)
    limits: dict[str, Any] = Field(default_factory=dict)


class CassetteStep(_Strict):
    """What the person does, and all that follows until the session rests.

    Args:
        person: A verb and what it is given.
        model: What the model is asked meanwhile.
        refused: The code with which the command is refused, and words of why; nothing follows then.
        until: The type of an event to wait for in place of rest.
        holds: What must be so afterwards; of a step that is refused or does not end in rest nothing can be said.
        mark: A name for the moment after it.
    """

    person: dict[str, Any] = Field(min_length=1, max_length=1)
    model: list[CassetteTurn] = Field(default_factory=list)
    refused: dict[str, Any] | None = None
    until: str | None = None
    holds: Holds | None = None
    mark: str | None = None

    @model_validator(mode="after")
    def _ends(self) -> CassetteStep:
        assert (self.holds is None) == (self.refused is not None or self.until is not None), "say what must hold"
        return self


class Cassette(_Strict):
    """A conversation.

    Args:
        title: What it is about.
        after: The opening that it goes on from, which was played before.
        settings: Of the server, by name.
        talk: The steps.
    """

    title: str
    after: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    talk: list[CassetteStep] = Field(min_length=1)

    @classmethod
    def read(cls, name: str) -> Cassette:
        """Read a cassette, ``openings/NAME`` for an opening."""
        with (HERE / f"{name}.yaml").open() as file:
            return cls.model_validate(yaml.load(file, _Loader))


def differences(wanted: Any, got: Any, where: str = "") -> Iterable[str]:
    """Say where something is not as it was written down."""
    match wanted:
        case Absent():
            if got is not None:
                yield f"{where}: there is {got!r}"
        case Has(parts):
            text = got if isinstance(got, str) else repr(got)
            yield from (f"{where}: no {part!r} in {text[:1500]!r}" for part in parts if part not in text)
        case Some(item):
            if not isinstance(got, list) or not any(not [*differences(item, each)] for each in got):
                yield f"{where}: nothing like {item!r} in {got!r}"
        case dict():
            if not isinstance(got, dict):
                yield f"{where}: {got!r} is no mapping"
                return
            for key, value in wanted.items():
                if key not in got and not isinstance(value, Absent):
                    yield f"{where}.{key}: missing among {sorted(got)}"
                else:
                    yield from differences(value, got.get(key), f"{where}.{key}")
        case list():
            if not isinstance(got, list | tuple) or len(got) != len(wanted):
                yield f"{where}: {got!r}, wanted {wanted!r}"
                return
            for place, (one, other) in enumerate(zip(wanted, got, strict=True)):
                yield from differences(one, other, f"{where}[{place}]")
        case _:
            if wanted != got or isinstance(wanted, bool) != isinstance(got, bool):
                yield f"{where}: {got!r}, wanted {wanted!r}"
