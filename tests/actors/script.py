"""A scripted model that goes through the whole workflow, decided from the state block as a good model would.

What the code generator answers is the test's choice: a function from its request to files.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from koda_ray.phases import scene_bounds
from tests.llm.server import Answer, Call, Json, Say, reply

__all__ = ["APP", "GOOD_FILES", "files_answer", "good_code", "plan_of", "scripted_model", "state_of", "wanted_of"]

Coder = Callable[[Json], dict[str, str]]

PROJECT = """import {{ getProject }} from '@theatre/core';
import state from './state.json';
export const SEQUENCE_TIMINGS = {{ duration: {duration}, fps: 60, width: 1280, height: 720 }};
export const project = getProject('koda', {{ state }});
export const sheet = project.sheet('Main');
export const sequence = sheet.sequence;
"""
APP = """import { useCurrentTime } from './hooks/useCurrentTime';
import { Layer, Stage } from './koda/Stage';

export default function App() {
  const time = useCurrentTime();
  return (
    <Stage background="#10131f">
      <Layer>
        <div style={{ position: 'absolute', left: 100 + time * 300, top: 300, width: 120, height: 120,
          borderRadius: 60, background: '#3B82F6' }} />
      </Layer>
    </Stage>
  );
}
"""
GOOD_FILES = {"src/theatre/project.ts": PROJECT.format(duration=2), "src/App.tsx": APP}


def good_code(request: Json) -> dict[str, str]:
    """Write a moving dot; feedback that names red turns it red."""
    if request["task"] == "initial_setup":
        duration = request["plan"]["totalDuration"]
        return {**GOOD_FILES, "src/theatre/project.ts": PROJECT.format(duration=f"{duration:g}")}
    if any("red" in words for words in request["feedback"]):
        return {"src/App.tsx": APP.replace("#3B82F6", "#EF4444")}
    return {"src/components/Note.tsx": f"export const note = {json.dumps(request.get('description') or '')};\n"}


def wanted_of(request: Json) -> Json:
    """Read the code generator's request, which comes in pieces."""
    return json.loads("\n".join(block["text"] for block in request["messages"][0]["content"]))


def state_of(request: Json) -> Json:
    """Read the session and state blocks of an orchestrator's request."""
    session, state = request["system"][-1]["text"], request["messages"][-1]["content"][-1]["text"]
    read = json.loads(session.removeprefix("<session>").removesuffix("</session>"))
    newer = json.loads(state.removeprefix("<state>").removesuffix("</state>"))
    return {**read, **newer, "feedback": [*read["feedback"], *newer["feedback"]]}


def plan_of(duration: float = 2.0) -> Json:
    """Make a plan with the fewest scenes that its length may have."""
    count = scene_bounds(duration)[0]
    scenes = [
        {"number": n, "title": f"Dot {n}", "duration": duration / count, "description": "A dot crosses"}
        for n in range(1, count + 1)
    ]
    return {"scenes": scenes, "totalDuration": duration, "style": "smooth", "fps": 60, "width": 1280, "height": 720}


def files_answer(files: dict[str, str], summary: str = "written") -> str:
    """Make the code generator's answer."""
    return json.dumps({"files": [{"path": p, "content": c} for p, c in files.items()], "summary": summary})


def scripted_model(
    code: Coder = good_code, *, asks: bool = False, pause_s: float = 0.0, scenes: int = 1, duration: float = 2.0
) -> Callable[[Json], Answer]:
    """Make the script.

    Args:
        code: What the code generator writes.
        asks: Whether the style question comes first.
        pause_s: Wait before each streamed delta, to have time to break things.
        scenes: Todos between set-up and preview.
        duration: Of the plan, in seconds.
    """

    def respond(request: Json) -> Answer:
        if not request.get("tools"):
            wanted = wanted_of(request)
            return reply(files_answer(code(wanted)), delta_chars=80, pause_s=pause_s)
        answer = _orchestrate(request, asks=asks, scenes=scenes, duration=duration)
        return reply(*(answer if isinstance(answer, list) else [answer]), delta_chars=400, pause_s=pause_s)

    return respond


def _orchestrate(request: Json, *, asks: bool, scenes: int, duration: float) -> Call | Say | list[Call | Say]:
    state = state_of(request)
    if not state["planAccepted"]:
        if asks and not state["answers"]:
            options = [{"id": "playful", "label": "Playful"}, {"id": "smooth", "label": "Smooth"}]
            return Call("request_approval", {"type": "question", "content": "Which style?", "options": options})
        return Call("request_approval", {"type": "plan", "content": "The plan", "plan": plan_of(duration)})
    tail = _since_words(request)
    if state["hasPreview"] and state["feedback"]:
        if not any(name == "generate_code" for name, _ in tail):
            change = state["feedback"][-1]
            return Call("generate_code", {"task": "modify_existing", "files": ["src/App.tsx"], "change": change})
        if not any(name == "render_preview" for name, _ in tail):
            return Call("render_preview")
        return Say("Changed as you asked.")
    if not state["todos"]:
        middle = [{"id": f"scene-{n}", "label": f"Scene {n}"} for n in range(1, scenes + 1)]
        todos = [{"id": "setup", "label": "Set up"}, *middle, {"id": "preview", "label": "Render preview"}]
        return Call("set_todos", {"todos": todos})
    todo = next((todo for todo in state["todos"] if todo["status"] != "done"), None)
    if todo is None or state["phase"] == "preview":
        return Say("Here is your preview.")
    if todo["id"] == "preview":
        if any(name == "render_preview" and not failed for name, failed in tail):
            return Say("Here is your preview.")
        return Call("render_preview")
    if todo["status"] == "pending":
        return [
            Call("update_todo", {"todo_id": todo["id"], "status": "active"}),
            Call("set_thinking", {"message": todo["label"]}),
        ]
    if tail and tail[-1] == ("generate_code", False):
        return Call("update_todo", {"todo_id": todo["id"], "status": "done"})
    if todo["id"] == "setup":
        return Call("generate_code", {"task": "initial_setup"})
    return Call("generate_code", {"task": "create_scene", "scene": 1, "description": todo["label"]})


def _since_words(request: Json) -> list[tuple[str, bool]]:
    """List the results since the person's last words: tool name, and whether it failed."""
    calls: dict[str, str] = {}
    found: list[tuple[str, bool]] = []
    for message in request["messages"]:
        for block in message["content"]:
            if block["type"] == "tool_use":
                calls[block["id"]] = block["name"]
            elif block["type"] == "tool_result":
                found.append((calls[block["tool_use_id"]], bool(block.get("is_error"))))
            elif message["role"] == "user" and block["type"] == "text" and not block["text"].startswith("<state>"):
                found.clear()
    return found
