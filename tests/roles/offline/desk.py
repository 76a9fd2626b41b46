"""A session without a sandbox: the phase machine keeps its state, and it answers the director's tools."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from koda_ray import commands, phases
from koda_ray.llm.base import Completed, Message, ModelRequest, TextDelta, ToolInputDelta
from koda_ray.pointing import in_words
from koda_ray.roles.offline import OfflineDirector
from koda_ray.roles.orchestrator import opening, request_context, session_block, state_block
from koda_ray.types import NodeState, Note, Option, Plan, Preview, Question, SessionOptions, Todo, now


async def ask(agent: str, messages: tuple[Message, ...], session: str = "") -> tuple[Message, Completed]:
    """Send a request through the provider's protocol and check the stream against its end."""
    text, inputs = "", dict[str, str]()
    async for event in OfflineDirector().stream(
        ModelRequest(agent=agent, model="offline", system=(session,), messages=messages)  # type: ignore[arg-type]
    ):
        match event:
            case TextDelta(text=delta):
                text += delta
            case ToolInputDelta(id=id_, partial_json=part):
                inputs[id_] = inputs.get(id_, "") + part
            case Completed():
                said = "".join(b["text"] for b in event.message.content if b["type"] == "text")
                calls = {b["id"]: b["input"] for b in event.message.content if b["type"] == "tool_use"}
                assert said == text
                assert {id_: json.loads(raw) for id_, raw in inputs.items()} == calls
                assert event.stop_reason == ("tool_use" if calls else "end_turn")
                return event.message, event
    raise AssertionError("the stream had no end")


@dataclass
class Desk:
    """A session's state, moved by the phase machine, and its conversation.

    ``answers`` are the results of request_approval, in order: what a person answered, accepted or rejected; ``shown``
    is what each version of the film was made of.
    """

    prompt: str
    answers: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    style: str | None = None
    failing: dict[str, int] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    log: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    shown: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def __post_init__(self) -> None:
        self.node = NodeState(
            node_id="nod_1", user_id="usr_1", project_id="prj_1", session_id="ses_1", prompt=self.prompt,
            style=self.style, options=SessionOptions.model_validate(self.options),
        )  # fmt: skip
        self.do(commands.Start())
        self.messages.append(_user({"type": "text", "text": opening(self.node)}))

    def do(self, command: commands.Command) -> None:
        """Move the state."""
        self.node, _ = phases.apply(self.node, command, now())

    @property
    def plan(self) -> Plan:
        assert self.node.plan is not None
        return self.node.plan

    @property
    def todos(self) -> dict[str, str]:
        """The todos' statuses by id."""
        return {todo.id: todo.status for todo in self.node.execution.todos} if self.node.execution else {}

    async def turn(self) -> bool:
        """Let the director speak once and run what it asks for; False when it had nothing left to do."""
        last = self.messages[-1]
        block = {"type": "text", "text": state_block(self.node)}
        request = (*self.messages[:-1], Message(role="user", content=(*last.content, block)))  # type: ignore[arg-type]
        message, _ = await ask("orchestrator", request, session_block(self.node, []))
        self.messages.append(message)
        self.said += [b["text"] for b in message.content if b["type"] == "text"]
        calls = [b for b in message.content if b["type"] == "tool_use"]
        if not calls:
            return False
        results = []
        for call in calls:
            self.log.append((call["name"], dict(call["input"])))
            content, failed = await self._run(call["name"], dict(call["input"]))
            results.append({"type": "tool_result", "tool_use_id": call["id"], "content": content, "is_error": failed})
        self.messages.append(_user(*results))
        return True

    async def run(self, *, turns: int = 120) -> None:
        """Go on until the director stops."""
        for _ in range(turns):
            if not await self.turn():
                return
        raise AssertionError(f"not done after {turns} turns: {self.log[-5:]}")

    def change(self, words: str, *notes: Note) -> None:
        """Ask for a change, in words or by pointing at something."""
        self.do(commands.Say(words, notes))
        for said in self.node.unread:  # as a session does, before its agents look at what was said
            self.do(commands.Heed(said.id))
        self.messages.append(_user({"type": "text", "text": in_words(words, notes, self.node.plan)}))

    def calls(self, name: str) -> list[dict[str, Any]]:
        return [given for called, given in self.log if called == name]

    async def _run(self, name: str, given: dict[str, Any]) -> tuple[str, bool]:
        key = given.get("task", name)
        if self.failing.get(key, 0) > 0:
            self.failing[key] -= 1
            return "SANDBOX: the disk is full", True
        match name:
            case "request_approval":
                return json.dumps(self._approve(given)), False
            case "set_todos":
                self.do(commands.SetTodos(tuple(Todo.model_validate(todo) for todo in given["todos"])))
            case "update_todo":
                assert (self.todos[given["todo_id"]], given["status"]) in {("pending", "active"), ("active", "done")}
                self.do(commands.SetTodoStatus(given["todo_id"], given["status"]))
            case "generate_code":
                return await self._generate(given), False
            case "render_preview":
                self.do(commands.Deliver(len(self.node.feedback)))
                return json.dumps(self._preview()), False
            case _:
                pass
        return '{"success": true}', False

    def _preview(self) -> dict[str, Any]:
        """Show what there is; where no file is another than in the preview before, that stays."""
        is_same = self.node.preview is not None and self.shown[-1:] == [self.files]
        if not is_same:
            self.shown.append(dict(self.files))
        shown = Preview(video_url="/v", job_id=f"job_{len(self.shown)}", bundle="b", duration=self.plan.total_duration)
        self.do(commands.Previewed(shown))
        return {"status": "unchanged" if is_same else "ready", "duration": shown.duration}

    def _approve(self, given: dict[str, Any]) -> dict[str, Any]:
        """Put a question or a plan to the person, who says what comes next."""
        if given["type"] == "plan":
            self.do(commands.Propose(Plan.model_validate(given["plan"])))
        else:
            assert len(given["options"]) >= 2
            options = tuple(Option.model_validate(option) for option in given["options"])
            self.do(commands.Ask(Question(text=given["content"], options=options, reason=given["reason"])))
        result = self.answers.pop(0) if self.answers else {"status": "accepted"}
        match result["status"]:
            case "answered":
                self.do(commands.Answer(result.get("optionId"), result.get("text")))
            case "rejected":
                self.do(commands.Reject(result.get("feedback", "")))
            case "changes":
                self.do(commands.RequestChanges(result["feedback"]))
            case _:
                self.do(commands.Accept())
        return result

    async def _generate(self, given: dict[str, Any]) -> str:
        request = json.dumps({**given, **request_context(self.node, []), "files": self.files}, ensure_ascii=False)
        message, _ = await ask("code_generator", (_user({"type": "text", "text": request}),))
        answer = json.loads("".join(b["text"] for b in message.content if b["type"] == "text"))
        sizes = {file["path"]: len(file["content"].encode()) for file in answer["files"]}
        self.files |= {file["path"]: file["content"] for file in answer["files"]}
        self.do(commands.Wrote(tuple(sizes.items())))
        listed = [{"path": path, "bytes": size} for path, size in sizes.items()]
        return json.dumps({"files": listed, "summary": answer["summary"]})


def heard(words: str) -> Message:
    """Return a person's message."""
    return _user({"type": "text", "text": words})


def _user(*blocks: Any) -> Message:
    return Message(role="user", content=tuple(blocks))
