"""A session without a sandbox: it keeps the state as the real one does and answers the director's tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from koda_ray.llm.base import Completed, Message, ModelRequest, TextDelta, ToolInputDelta
from koda_ray.studio.offline import OfflineDirector

Answer = Callable[[dict[str, Any]], dict[str, Any]]


async def ask(agent: str, messages: tuple[Message, ...]) -> tuple[Message, Completed]:
    """Send a request through the provider's protocol and check the stream against its end."""
    text, inputs = "", dict[str, str]()
    async for event in OfflineDirector().stream(
        ModelRequest(agent=agent, model="offline", system=("",), messages=messages)  # type: ignore[arg-type]
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
    """A session's state and conversation. ``answers`` gives the results of request_approval, in order."""

    prompt: str
    answers: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    failing: dict[str, int] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    log: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.messages.append(_user({"type": "text", "text": f"Create an animation: {self.prompt}"}))
        self.state = {
            "phase": "idle", "prompt": self.prompt, "style": None, "answer": None, "question": None, "plan": None,
            "planAccepted": False, "todos": [], "files": [], "feedback": [], "assets": [], "hasPreview": False,
            "options": self.options,
        }  # fmt: skip

    async def turn(self) -> bool:
        """Let the director speak once and run what it asks for; False when it had nothing left to do."""
        last = self.messages[-1]
        block = {"type": "text", "text": f"<state>{json.dumps(self.state, ensure_ascii=False)}</state>"}
        request = (*self.messages[:-1], Message(role="user", content=(*last.content, block)))  # type: ignore[arg-type]
        message, _ = await ask("orchestrator", request)
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

    def change(self, words: str) -> None:
        """Ask for a change."""
        self.state["feedback"].append(words)
        self.messages.append(_user({"type": "text", "text": words}))

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
                done = {t["id"] for t in self.state["todos"] if t["status"] == "done"}
                self.state["todos"] = [
                    {**t, "status": "done" if t["id"] in done else "pending"} for t in given["todos"]
                ]
            case "update_todo":
                todo = next(t for t in self.state["todos"] if t["id"] == given["todo_id"])
                assert (todo["status"], given["status"]) in {("pending", "active"), ("active", "done")}
                todo["status"] = given["status"]
            case "generate_code":
                return await self._generate(given), False
            case "render_preview":
                self.state["hasPreview"] = True
                return json.dumps({"status": "ready", "duration": 5.0}), False
            case _:
                pass
        return '{"success": true}', False

    def _approve(self, given: dict[str, Any]) -> dict[str, Any]:
        result = self.answers.pop(0) if self.answers else {"status": "accepted"}
        if given["type"] == "plan":
            self.state["plan"] = given["plan"]
            self.state["planAccepted"] = result["status"] == "accepted"
            if result.get("feedback") and result["status"] == "changes":
                self.state["feedback"].append(result["feedback"])
        else:
            assert len(given["options"]) >= 2
            words = result.get("text")
            self.state["answer"] = words or result.get("optionId")
            if given["reason"] in ("style", "rejected"):
                self.state["style"] = words or result.get("optionId")
        return result

    async def _generate(self, given: dict[str, Any]) -> str:
        context = {k: self.state[k] for k in ("prompt", "style", "answer", "plan", "feedback", "options", "assets")}
        request = json.dumps({**context, **given, "files": self.files}, ensure_ascii=False)
        message, _ = await ask("code_generator", (_user({"type": "text", "text": request}),))
        answer = json.loads("".join(b["text"] for b in message.content if b["type"] == "text"))
        for file in answer["files"]:
            self.files[file["path"]] = file["content"]
        self.state["files"] = sorted(self.files)
        sizes = [{"path": f["path"], "bytes": len(f["content"].encode())} for f in answer["files"]]
        return json.dumps({"files": sizes, "summary": answer["summary"]})


def _user(*blocks: Any) -> Message:
    return Message(role="user", content=tuple(blocks))
