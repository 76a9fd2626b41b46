"""What an agent may do by itself, what a person is asked first, and what it may not do at all: pure decisions.

A rule looks at a call's tool, its paths and its arguments: both as they were sent and as the tool gets them, with its
defaults. `deny` wins over everything, then a mode in which nothing changes, then the first rule that fits, then mode
`ask`. The model's words never loosen anything here: every way to name a file of the project is the same path, and where
a call that changes something does not say which files it is about, a person is asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Literal, get_args

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError

from koda_ray.agent.paths import fits_path, paths_in
from koda_ray.agent.toolkit import BoundCall
from koda_ray.errors import InvalidInput

__all__ = ["Mode", "Permissions", "Rule", "Ruling", "Verdict"]

Ruling = Literal["allow", "ask", "deny"]
Mode = Literal["auto", "ask", "readonly", "plan"]
"""``auto``: what no rule forbids. ``ask``: a person is asked before anything changes. ``readonly``: nothing changes.
``plan``: nothing changes until a plan was agreed, and the model is told to make one."""

_REFUSALS: Mapping[str, str] = {
    "readonly": "nothing may be changed: only tools that look are allowed now",
    "plan": "nothing may be changed before the plan is agreed: say what you would do and why, and wait",
}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What is done with calls of one kind. In patterns ``*`` stands for any text, slashes too.

    Args:
        decision: ``allow``, ``ask`` or ``deny``.
        tool: Pattern of the tool's name.
        path: Pattern of a path, relative to the project's root or absolute; ``**/`` stands for no folder, one or
            several, and a folder for all that is below it. ``allow`` fits when all paths of the call do, ``ask`` and
            ``deny`` when one does; none fits a call without paths. Which parameters hold paths, the tool says
            (``Tool.paths``), or their names do.
        arguments: Patterns of arguments by name; what is no text is compared as JSON. ``allow`` fits when they are so
            both as they were sent and as the tool gets them, ``ask`` and ``deny`` when they are so in either way.

    Raises:
        InvalidInput: There is no such decision.
    """

    decision: Ruling
    tool: str = "*"
    path: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if self.decision not in get_args(Ruling):
            raise InvalidInput(f"decision {self.decision!r}: give allow, ask or deny")

    def __str__(self) -> str:
        said = {"tool": self.tool, "path": self.path} | {f"arguments.{k}": v for k, v in self.arguments.items()}
        shown = [f"{name}={pattern!r}" for name, pattern in said.items() if pattern not in (None, "*")]
        return " ".join([self.decision, *(shown or ["tool='*'"])])

    def fits(
        self,
        name: str,
        given: Mapping[str, JsonValue],
        *,
        effective: Mapping[str, JsonValue] | None = None,
        paths: Sequence[str] | None = None,
        root: str | None = None,
    ) -> bool:
        """Whether it says something about a call.

        Args:
            name: The tool's name.
            given: The call's input as it was sent.
            effective: The input as the tool gets it; ``given`` when None.
            paths: What the call is about, normalised; None finds it in ``given``.
            root: Absolute path that the call's paths are relative to; None compares them as they are written.
        """
        if not fnmatchcase(name, self.tool):
            return False
        enough = all if self.decision == "allow" else any
        if self.path is not None:
            found = [fits_path(self.path, path, root) for path in (paths_in(given) if paths is None else paths)]
            if not found or not enough(found):
                return False
        inputs = (given,) if effective is None else (given, effective)
        for argument, pattern in self.arguments.items():
            values = [each[argument] for each in inputs if argument in each]
            if not values or not enough(_fits(value, pattern) for value in values):
                return False
        return True

    def may_be_about(
        self, name: str, given: Mapping[str, JsonValue], effective: Mapping[str, JsonValue] | None = None
    ) -> bool:
        """Whether it would restrict a call that does not say which files it is about, if those are its own."""
        return (
            self.path is not None
            and self.decision != "allow"
            and replace(self, path=None).fits(name, given, effective=effective)
        )


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is done with a call, and why, for whoever asks."""

    decision: Ruling
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """An agent's mode and rules.

    Args:
        mode: What holds where no rule fits; ``readonly`` and ``plan`` also where one would allow a change or ask.
        rules: In order.
        root: Absolute path that paths are relative to, so that a rule sees a file however a call names it.

    Raises:
        InvalidInput: There is no such mode.
    """

    mode: Mode = "auto"
    rules: Sequence[Rule] = ()
    root: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise InvalidInput(f"mode {self.mode!r}: give one of {', '.join(get_args(Mode))}")

    def decide(self, bound: BoundCall, given: Mapping[str, JsonValue]) -> Verdict:
        """Decide about a call.

        Args:
            bound: What is called, with the input that it gets.
            given: That input as it was sent.
        """
        tool = bound.tool
        paths = [*paths_in(bound.input, tool.paths), *paths_in(given, tool.paths, keys=False)]
        try:
            effective = bound.effective
        except PydanticSerializationError:  # a type of the program's own, which is no JSON
            effective = None
        return self.judge(
            tool.name,
            given,
            effective=effective,
            paths=paths if paths or tool.paths is not None else None,
            changes=tool.effect != "pure" and tool.guarded and not tool.asks,
        )

    def judge(
        self,
        name: str,
        given: Mapping[str, JsonValue],
        *,
        changes: bool,
        effective: Mapping[str, JsonValue] | None = None,
        paths: Sequence[str] | None = None,
    ) -> Verdict:
        """Decide about what is done as a call would do it.

        Args:
            name: The name of the tool that does it otherwise.
            given: The input of such a call, as it was sent.
            changes: Whether it changes something; the mode has no say in what does not.
            effective: The input as the tool gets it; ``given`` when None.
            paths: What it is about, where that is known; None finds it in ``given``.
        """
        hidden = paths is None and changes and not paths_in(given)
        fitting: list[tuple[Rule, Ruling]] = []
        for rule in self.rules:
            if rule.fits(name, given, effective=effective, paths=paths, root=self.root):
                fitting.append((rule, rule.decision))
            elif hidden and rule.may_be_about(name, given, effective):
                fitting.append((rule, "ask"))
        if denies := next((rule for rule, decision in fitting if decision == "deny"), None):
            return Verdict(decision="deny", reason=f"a rule forbids it ({denies})")
        if changes and self.mode in _REFUSALS:
            return Verdict(decision="deny", reason=_REFUSALS[self.mode])
        if fitting:
            rule, decision = fitting[0]
            if rule.decision != decision:
                reason = f"a rule is about paths ({rule}), and {name} does not say which it works on"
            else:
                reason = f"a rule wants a person to agree ({rule})" if decision == "ask" else ""
            return Verdict(decision=decision, reason=reason)
        if changes and self.mode == "ask":
            return Verdict(decision="ask", reason="it changes something")
        return Verdict(decision="allow")


def _fits(value: JsonValue, pattern: str) -> bool:
    if isinstance(value, str):
        return fnmatchcase(value, pattern)
    whole = [str(int(value))] if isinstance(value, float) and value.is_integer() else []  # 5.0 is 5
    return any(fnmatchcase(text, pattern) for text in [json.dumps(value, ensure_ascii=False, sort_keys=True), *whole])
