"""What of a long history a model is shown, and where the present state goes.

The last messages are whole. Of older ones every word of the person stays, what was done stays as one line each, and
of each file the newest content that was read or written; other tool inputs and results go. What is left of old turns
comes in parts that are never written anew: a part covers so many messages, and the next one is put after it. So the
prompt's beginning stays the same for a whole session and is read from the provider's cache.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pydantic import JsonValue

from koda_ray.agent.messages import tool_results, tool_uses
from koda_ray.agent.own_words import count_as_a_persons
from koda_ray.llm.base import Message, TextBlock, ToolResultBlock, ToolUseBlock

__all__ = [
    "KEEP_LAST",
    "PRUNE_STEP",
    "FilesOf",
    "LineLengths",
    "Pruning",
    "Shown",
    "files_in",
    "prune",
    "story",
    "with_state",
    "words_in",
]

KEEP_LAST = 10
"""Messages at the end that stay whole."""

PRUNE_STEP = 20
"""Messages that a part of what is left of old turns covers."""

FilesOf = Callable[[ToolUseBlock, str], Mapping[str, str | None]]
"""Reads from a call that succeeded, and its result, which files it showed or wrote, whole; None for one that it
changed without saying to what."""

_SAID_CHARS = 400
_TOLD_CHARS = 1_200
_ERROR_CHARS = 200
_ARGUMENT_CHARS = 60
_FULL_PARTS = 10
"""Parts by which the border moves before which parts tell no actions."""

_HEAD = (
    "What happened before, shortened: the person's words are complete, of what else you were told only the beginning, "
    "of your own actions only what they were. Of a file that is shown here more than once the last one counts; it may "
    "have changed since."
)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A history as a model is shown it: the first ``settled`` blocks are what is left of old turns."""

    messages: tuple[Message, ...]
    settled: int = 0


def prune(
    messages: Sequence[Message],
    *,
    keep_last: int = KEEP_LAST,
    step: int = PRUNE_STEP,
    verbatim: frozenset[str] = frozenset(),
    files_of: FilesOf | None = None,
    before: Sequence[TextBlock] = (),
) -> Shown:
    """Shorten the older part of a repaired history to blocks at its beginning.

    A call and its result are never separated, and the person's words are never shortened.

    Args:
        messages: A repaired history (roles alternate, results follow their calls).
        keep_last: Messages at the end that stay whole, at least.
        step: Messages that one block stands for.
        verbatim: Names of tools whose results are a person's words.
        files_of: Which files a call showed or wrote.
        before: What is put before all of it, such as a summary of what came earlier still.
    """
    return Pruning(keep_last=keep_last, step=step, verbatim=verbatim, files_of=files_of).shown(tuple(messages), before)


class Pruning:
    """Shortens a history that grows, as `prune` does; a part that was cut off once is written once.

    Args:
        keep_last: See `prune`, as for the others.
        step: Messages of a part.
        verbatim: Names of tools.
        files_of: Which files a call showed or wrote.
    """

    def __init__(
        self,
        *,
        keep_last: int = KEEP_LAST,
        step: int = PRUNE_STEP,
        verbatim: frozenset[str] = frozenset(),
        files_of: FilesOf | None = None,
    ) -> None:
        self._keep_last = keep_last
        self._step = step
        self._verbatim = verbatim
        self._files_of = files_of
        self._parts: list[_Part] = []
        self._current: dict[int, dict[str, str]] = {}

    def shown(self, messages: tuple[Message, ...], before: Sequence[TextBlock] = ()) -> Shown:
        """Shorten the history as it is now."""
        cuts = [0]
        for wanted in range(self._step, len(messages) - self._keep_last + 1, self._step):
            cut = wanted
            while cut > 0 and tool_results(messages[cut]):
                cut -= 1
            if cut >= max(2, cuts[-1] + 1):
                cuts.append(cut)
        self._cut_off([messages[start:stop] for start, stop in pairwise(cuts)])
        bare = max(0, len(self._parts) - _FULL_PARTS) // _FULL_PARTS * _FULL_PARTS
        blocks: list[TextBlock] = list(before)
        for place in range(len(self._parts)):
            blocks.append({"type": "text", "text": self._text(place, bare)})
        kept = messages[cuts[-1] :]
        if not blocks:
            return Shown(messages=kept)
        if kept and kept[0].role == "user":
            first = Message(role="user", content=(*blocks, *kept[0].content))
            return Shown(messages=(first, *kept[1:]), settled=len(blocks))
        return Shown(messages=(Message(role="user", content=tuple(blocks)), *kept), settled=len(blocks))

    def _cut_off(self, parts: Sequence[tuple[Message, ...]]) -> None:
        """Take parts over as they are now, with what was written of those that are as they were."""
        same = 0
        while same < min(len(parts), len(self._parts)) and parts[same] == self._parts[same].messages:
            same += 1
        if same < len(self._parts):  # the history was put back: what was current in more parts than that is unknown
            self._current = {bare: files for bare, files in self._current.items() if bare <= same}
            for part in self._parts:
                part.texts = {bare: text for bare, text in part.texts.items() if bare <= same}
        self._parts[same:] = [_Part(part, files_in(part, self._files_of)) for part in parts[same:]]

    def _text(self, place: int, bare: int) -> str:
        """Write a part; of the first ``bare`` ones no actions, and only files that none of them changed since."""
        part, bare = self._parts[place], bare if place < bare else 0
        if bare not in part.texts:
            files = part.files
            if bare:
                if bare not in self._current:
                    before = [message for each in self._parts[:bare] for message in each.messages]
                    self._current = {bare: files_in(before, self._files_of)}
                current = self._current[bare]
                files = {path: text for path, text in files.items() if current.get(path) == text}
            lines = _lines(part.messages, self._verbatim, LineLengths(), actions=not bare)
            lines += [{"file": path, "content": text} for path, text in files.items()]
            part.texts = {bare: _earlier(lines, first=place == 0)}
        return part.texts[bare]


@dataclass
class _Part:
    """Messages that are shown shortened, files in them, and what was written of them when so many parts were bare."""

    messages: tuple[Message, ...]
    files: dict[str, str]
    texts: dict[int, str] = field(default_factory=dict[int, str])


def with_state(messages: Sequence[Message], state: str) -> tuple[Message, ...]:
    """Append the present state to the last message, the user's; an empty state changes nothing."""
    if not state or not messages or messages[-1].role != "user":
        return tuple(messages)
    block: TextBlock = {"type": "text", "text": state}
    return (*messages[:-1], Message(role="user", content=(*messages[-1].content, block)))


def files_in(messages: Sequence[Message], files_of: FilesOf | None) -> dict[str, str]:
    """Find the newest content of each file that calls showed or wrote, in the order of its last change."""
    found: dict[str, str] = {}
    if files_of is None:
        return found
    results = _results(messages)
    for message in messages:
        for call in tool_uses(message):
            result = results.get(call["id"])
            if result is None or result["is_error"]:
                continue
            for path, text in files_of(call, result["content"]).items():
                if found.get(path) == text:
                    continue
                found.pop(path, None)
                if text is not None:
                    found[path] = text
    return found


def words_in(messages: Sequence[Message], verbatim: frozenset[str]) -> list[str]:
    """List what people said, in order, answers to tools that ask among it; not what was said in their place."""
    results = _results(messages)
    said: list[str] = []
    for message in messages:
        for block in message.content:
            if block["type"] == "text" and message.role == "user" and count_as_a_persons(block["text"]):
                said.append(block["text"])
            elif block["type"] == "tool_use" and block["name"] in verbatim and block["id"] in results:
                said.append(results[block["id"]]["content"])
    return said


@dataclass(frozen=True, kw_only=True)
class LineLengths:
    """How many characters are left of each result, of what the agent said, was told, and a person said (None: all)."""

    result: int = 0
    said: int = _SAID_CHARS
    told: int = _TOLD_CHARS
    person: int | None = None


def story(messages: Sequence[Message], verbatim: frozenset[str], lengths: LineLengths) -> str:
    """Write a history down for whoever sums it up, a line for each thing."""
    lines = _lines(messages, verbatim, lengths, actions=True)
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)


def _results(messages: Sequence[Message]) -> dict[str, ToolResultBlock]:
    return {block["tool_use_id"]: block for message in messages for block in tool_results(message)}


def _earlier(lines: Sequence[Mapping[str, JsonValue]], *, first: bool) -> str:
    told = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    return f"<earlier>\n{_HEAD}\n{told}\n</earlier>" if first else f"<earlier>\n{told}\n</earlier>"


def _lines(
    messages: Sequence[Message],
    verbatim: frozenset[str],
    lengths: LineLengths,
    *,
    actions: bool,
) -> list[dict[str, JsonValue]]:
    """Write messages as lines: what people said, what others told the agent, what it said, what it did."""
    results = _results(messages)
    lines: list[dict[str, JsonValue]] = []
    for message in messages:
        for block in message.content:
            if block["type"] != "text":
                continue
            who = "you" if message.role != "user" else "person" if count_as_a_persons(block["text"]) else "told"
            longest = lengths.told if who == "told" else lengths.said
            chars = lengths.person if who == "person" else longest if actions else 0
            if chars != 0:
                lines.append({who: block["text"] if chars is None else _cut(block["text"], chars)})
        for call in tool_uses(message):
            if actions or call["name"] in verbatim:
                _add_action(lines, _action(call, results.get(call["id"]), verbatim, lengths.result))
    return lines


def _action(
    call: ToolUseBlock, result: ToolResultBlock | None, verbatim: frozenset[str], result_chars: int
) -> dict[str, JsonValue]:
    entry: dict[str, JsonValue] = {"did": call["name"]}
    longest = max(_ARGUMENT_CHARS, result_chars)
    short: dict[str, JsonValue] = {
        key: _cut(value, longest) if isinstance(value, str) else value
        for key, value in call["input"].items()
        if isinstance(value, bool | int | float) or (isinstance(value, str) and (result_chars or len(value) <= longest))
    }
    if short:
        entry["with"] = short
    if result is None:
        return entry
    if result["is_error"]:
        entry["failed"] = _cut(result["content"], max(_ERROR_CHARS, result_chars))
    elif call["name"] in verbatim:
        entry["answer"] = result["content"]
    elif result_chars:
        entry["result"] = _cut(result["content"], result_chars)
    return entry


def _add_action(entries: list[dict[str, JsonValue]], action: dict[str, JsonValue]) -> None:
    """Add an action, or count it when it equals the one before."""
    last = entries[-1] if entries else {}
    if {key: value for key, value in last.items() if key != "times"} == action:
        times = last.get("times", 1)
        last["times"] = (times if isinstance(times, int) else 1) + 1
    else:
        entries.append(action)


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[:chars] + " [...]"
