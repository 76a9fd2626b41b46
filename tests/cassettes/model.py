"""The model of a cassette: it answers what is written down, and only if it is asked for that.

It remembers its side of the conversation. A request has to hold everything that was said before, word for word and in
order, then the results of exactly the calls of its last answer by their ids, then what the person said, then the state:
nothing more, nothing twice, nothing of a time that the session was put back from.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from koda_ray.roles.orchestrator import instructions
from tests.actors.script import files_answer, wanted_of
from tests.cassettes.cassette import HERE, CassetteTurn, differences
from tests.llm.server import Answer, Call, Json, Say, reply

__all__ = ["OFFERED", "CassetteModel", "ModelTranscript"]

ModelTranscript = tuple[Json, ...]

OFFERED = (
    "set_thinking", "send_message", "request_approval", "set_todos", "update_todo", "generate_code",
    "sandbox_read_file", "sandbox_list_files", "sandbox_run_command", "render_preview", "sandbox_start_preview",
    "sandbox_screenshot", "subagent_spawn", "subagent_status", "subagent_result", "subagent_cancel",
)  # fmt: skip
"""What the orchestrator can do, in the order that its prompt's cache depends on."""
_EARLIER = "<earlier>"
_LEAST_WHOLE = 9
_DELTA_CHARS = 400
_PAUSE_S = 0.03  # what was written is told after 50 ms


class CassetteModel:
    """Answers both agents of one session at a time.

    ``transcript`` is what the orchestrator's next request has to begin with; put back when the session is.
    """

    def __init__(self, transcript: ModelTranscript = ()) -> None:
        self.transcript = transcript
        self.answered = 0
        self._turns: deque[CassetteTurn] = deque()
        self._lock = threading.Lock()

    def expect(self, turns: Iterable[CassetteTurn]) -> None:
        """Say what will be asked next."""
        with self._lock:
            self._turns.extend(turns)

    @property
    def left(self) -> int:
        """How many turns nobody has asked for yet."""
        return len(self._turns)

    def respond(self, request: Json) -> Answer:
        """Answer as it is written down."""
        with self._lock:
            by = "orchestrator" if request.get("tools") else "code_generator"
            assert self._turns, f"nothing was to be asked, but the {by} asks: {_newest(request)}"
            turn = self._turns.popleft()
            where = f"the turn before {len(self._turns)} others"
            assert turn.by == by, f"{where}: {turn.by} was to ask, but the {by} does: {_newest(request)}"
            answer = self._lead(turn, request) if by == "orchestrator" else _code(turn, request)
            self.answered += 1  # one that hangs is stopped by the person, and paid for as far as it came
            if turn.hangs:
                return reply(*answer, delta_chars=40, pause_s=_PAUSE_S, break_after=8, hang=True)
            return reply(*answer, delta_chars=_DELTA_CHARS)

    def _lead(self, turn: CassetteTurn, request: Json) -> list[Say | Call]:
        wrong: list[str] = []
        names = tuple(tool["name"] for tool in request["tools"])
        if names != OFFERED:
            wrong.append(f"tools: {names}")
        prompt, session = (part["text"] for part in request["system"])
        if (prompt,) != instructions("orchestrator"):
            wrong.append("the instructions are not those of the product")
        wrong += differences(turn.session, _block(session, "session"), "session")
        *before, newest = _plain(request["messages"])
        *said, state = newest["content"]
        wrong += differences(turn.state, _block(state["text"], "state"), "state")
        self.transcript = _named(self.transcript, before)
        wrong += _remembers(self.transcript, before)
        wrong += self._heard(turn, newest["role"], said)
        assert not wrong, "the orchestrator's request: " + "\n".join(wrong)
        answer = self._answer(turn)
        self.transcript = (*self.transcript, {"role": "user", "content": said}, _as_sent(answer))
        return answer

    def _heard(self, turn: CassetteTurn, role: str, said: list[Json]) -> Iterable[str]:
        """Compare the newest message: results by id in the calls' order, then words."""
        if role != "user":
            yield f"the newest message is the {role}'s"
        asked = self.transcript[-1]["content"] if self.transcript else []
        calls = [block for block in asked if block["type"] == "tool_use"]
        results = [block for block in said if block["type"] == "tool_result"]
        if [call["id"] for call in calls] != [result["tool_use_id"] for result in results]:
            yield f"results of {[r['tool_use_id'] for r in results]} for the calls {[c['id'] for c in calls]}"
            return
        wanted = turn.results if turn.results is not None else [{} for _ in calls]
        if len(wanted) != len(calls):
            yield f"{len(wanted)} results are written down for {len(calls)} calls"
            return
        for call, result, want in zip(calls, results, wanted, strict=True):
            where, failed = f"result of {call['name']}", bool(result.get("is_error"))
            is_error = isinstance(want, dict) and set(want) == {"error"}
            if failed != is_error:
                yield f"{where}: {'failed' if failed else 'did not fail'}: {result['content']}"
            elif want != {}:
                yield from differences(want["error"] if is_error else want, result["content"], where)
        words = [block.get("text") for block in said[len(results) :]]
        yield from differences(turn.hears, words, "words")

    def _answer(self, turn: CassetteTurn) -> list[Say | Call]:
        answer: list[Say | Call] = [Say(turn.says)] if turn.says else []
        for call in turn.calls:
            ((name, given),) = call.items()
            answer.append(Call(name, {}, raw=given) if isinstance(given, str) else Call(name, given))
        return answer


def _as_sent(answer: list[Say | Call]) -> Json:
    """Write an answer as it has to come back; the input of a call that was no JSON may come back as anything."""
    content: list[Json] = []
    for block in answer:
        if isinstance(block, Say):
            content.append({"type": "text", "text": block.text})
        else:
            given = None if block.raw is not None else block.input
            content.append({"type": "tool_use", "id": None, "name": block.name, "input": given})
    return {"role": "assistant", "content": content}


def _named(transcript: ModelTranscript, before: list[Json]) -> ModelTranscript:
    """Take over the ids that the product has given to the calls of the last answer; from then on they stay."""
    if not transcript or not before or len(before[-1]["content"]) != len(transcript[-1]["content"]):
        return transcript
    *known, last = transcript
    pairs = zip(last["content"], before[-1]["content"], strict=True)
    content = [{**mine, "id": theirs.get("id")} if mine.get("id", 0) is None else mine for mine, theirs in pairs]
    return (*known, {**last, "content": content})


def _remembers(transcript: ModelTranscript, before: list[Json]) -> Iterable[str]:
    """Compare what was said before; of a long talk the oldest part may be told in short, the person's words whole."""
    first = before[0]["content"] if before else []
    told = [block["text"] for block in first if block.get("text", "").startswith(_EARLIER)]
    if told:
        rest = [block for block in first if block.get("text") not in told]
        before = [*([{"role": "user", "content": rest}] if rest else []), *before[1:]]
        if len(before) < _LEAST_WHOLE:
            yield f"only {len(before)} messages came whole"
        gone = transcript[: -len(before)]
        words = [b["text"] for m in gone if m["role"] == "user" for b in m["content"] if b["type"] == "text"]
        yield from (f"nobody tells any more: {w!r}" for w in words if json.dumps(w, ensure_ascii=False) not in told[0])
    known = transcript[-len(before) :] if before else ()
    if not told and len(before) != len(transcript):
        yield f"{len(before)} messages before the newest, {len(transcript)} were said"
    for place, (mine, theirs) in enumerate(zip(known, before, strict=False)):
        if not _same(mine, theirs):
            yield f"message {place}: was {mine}, is {theirs}"


def _same(mine: Json, theirs: Json) -> bool:
    if mine["role"] != theirs["role"] or len(mine["content"]) != len(theirs["content"]):
        return False
    return all(
        one == {**other, "input": None} if one.get("input", 0) is None else one == other
        for one, other in zip(mine["content"], theirs["content"], strict=True)
    )


def _plain(messages: list[Json]) -> list[Json]:
    return [
        {
            "role": message["role"],
            "content": [{k: v for k, v in block.items() if k != "cache_control"} for block in message["content"]],
        }
        for message in messages
    ]


def _block(text: str, name: str) -> Any:
    assert text.startswith(f"<{name}>") and text.endswith(f"</{name}>"), f"no {name} block: {text[:200]}"
    return json.loads(text.removeprefix(f"<{name}>").removesuffix(f"</{name}>"))


def _code(turn: CassetteTurn, request: Json) -> list[Say | Call]:
    (prompt,) = (part["text"] for part in request["system"])
    assert (prompt,) == instructions("code_generator"), "the instructions are not those of the product"
    (message,) = request["messages"]
    assert message["role"] == "user"
    wanted = wanted_of(request)
    wrong = [*differences(turn.request, wanted, "request")]
    if turn.files is not None and sorted(wanted["files"]) != sorted(turn.files):
        wrong.append(f"files shown: {sorted(wanted['files'])}")
    files = {path: (HERE / "code" / name).read_text() for path, name in turn.writes.items()}
    for path, changes in turn.edits.items():
        text: str = files.get(path) or wanted["files"].get(path) or ""
        for old, new in changes.items():
            if text.count(old) != 1:
                wrong.append(f"{path} has {old!r} {text.count(old)} times: {text[:1500]}")
            text = text.replace(old, new)
        files[path] = text
    assert not wrong, "the code generator's request: " + "\n".join(wrong)
    return [Say(files_answer(files, f"wrote {', '.join(Path(path).name for path in files)}"))]


def _newest(request: Json) -> str:
    return json.dumps(request["messages"][-1])[:2000]
