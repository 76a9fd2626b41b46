"""What there is to do, for a model that decides from its request alone.

First the job of `tests.agent.world`. An agent that may delegate then has a subagent charge c and waits for it; after
that a person has d charged, which the model calls D, puts the agent back to where the job was done, and has e charged,
for which the model proposes f. d stays charged: what was done outside is done. Before e, for which the person has many
words, the model sums up what there was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from koda_ray.llm.base import Block
from tests.agent.crew import is_subagent
from tests.agent.scripted import Given, calls, says
from tests.agent.world import job, outstanding
from tests.llm.server import results, texts

__all__ = ["AGAIN", "CHARGED", "CHARGED_WIDE", "DONE", "FIRST", "MORE", "SENT", "decide"]

FIRST, MORE = "Do the job.", "Charge d as well."
AGAIN = f"Charge e as well. {'There is no hurry. ' * 1_000}"
"""What the person says; `AGAIN` after going back."""
DONE = "Done."
CHARGED, CHARGED_WIDE = ("a", "b"), ("a", "b", "c", "d", "e")
SENT = {"d": "D", "e": "f"}
"""What the model asks for in place of what it is to charge: a hook, or a person, sees that it is the right thing."""
_WORKER = "Charge c."


def decide(request: Given) -> Sequence[Block]:
    """Do the next thing."""
    if not request.get("tools"):
        return [says("The job was done.")]  # it is summed up, and nothing of it is asked for again
    if is_subagent(request):
        return _charge("c", results(request))
    asked = [words for words in texts(request) if words in (MORE, AGAIN)]
    if asked:
        return _charge(asked[-1].split()[1], _since(request, asked[-1]))
    next_one = job(request)
    wide = any(tool["name"] == "subagent_spawn" for tool in request["tools"])
    return _delegate(request) if wide and next_one == [says(DONE)] else next_one


def _delegate(request: Given) -> Sequence[Block]:
    spawned = [json.loads(each["content"]) for each in results(request, "subagent_spawn") if not each["is_error"]]
    if not spawned:
        return [calls("subagent_spawn", {"name": "worker c", "task": _WORKER, "tools": ["charge", "look"]})]
    told = [json.loads(each["content"]) for each in results(request, "subagent_result") if not each["is_error"]]
    if any(each["status"] == "done" for each in told) or any(spawned[0]["subagent_id"] in w for w in texts(request)):
        return [says(DONE)]
    if told and told[-1]["status"] == "waiting":
        return [says("The person is asked first.")]  # and what it finds is told
    return [calls("subagent_result", {"subagent_id": spawned[0]["subagent_id"]})]


def _charge(item: str, done: list[Any]) -> Sequence[Block]:
    """Charge one thing, and look where nobody knows whether it was."""
    sent = SENT.get(item, item)
    if not any(each["name"] == "charge" for each in done):
        return [calls("charge", {"item": sent})]
    return outstanding(done, sent, charged=item) or [says(f"{item} is charged.")]


def _since(request: Given, words: str) -> list[Any]:
    """List the results of calls that were made after something was said."""
    said = [place for place, m in enumerate(request["messages"]) if any(b.get("text") == words for b in m["content"])]
    after = {b["id"] for m in request["messages"][said[-1] :] for b in m["content"] if b["type"] == "tool_use"}
    return [each for each in results(request) if each["tool_use_id"] in after]
