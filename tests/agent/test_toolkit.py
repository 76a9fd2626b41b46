from __future__ import annotations

import json

import pytest
from pydantic import BaseModel

from koda_ray.agent.toolkit import BoundCall, Tool, ToolCall, Toolkit, ToolOutcome
from koda_ray.agent.transcript import merged
from koda_ray.errors import InvalidInput
from koda_ray.events import NewEvent
from koda_ray.state.records import Batch
from koda_ray.types import Plan


class Input(BaseModel):
    plan: Plan
    count: int = 1


async def run(given: Input, call: ToolCall) -> ToolOutcome:
    return ToolOutcome(content="")


def tool(name: str = "make") -> Tool:
    return Tool(name=name, description="Make.", input_model=Input, effect="pure", run=run)


SCENE = {"number": 1, "title": "One", "duration": 2, "description": "A ball"}


def test_the_schema_is_that_of_the_input() -> None:
    (spec,) = Toolkit([tool()]).specs
    assert spec.input_schema["type"] == "object"
    assert set(spec.input_schema["properties"]) == {"plan", "count"}  # type: ignore[arg-type]
    assert spec.input_schema["required"] == ["plan"]


def test_an_input_that_fits_is_bound() -> None:
    plan = {"scenes": [SCENE], "totalDuration": 2, "style": "smooth"}
    bound = Toolkit([tool()]).bind("make", {"plan": plan})  # type: ignore[dict-item]
    assert isinstance(bound, BoundCall) and isinstance(bound.input, Input)
    assert bound.input.plan.scenes[0].title == "One"


def test_what_does_not_fit_is_named_by_its_path() -> None:
    plan = {"scenes": [{**SCENE, "duration": -1}], "totalDuration": 2, "style": "smooth"}
    bound = Toolkit([tool()]).bind("make", {"plan": plan, "count": "many"})  # type: ignore[dict-item]
    assert isinstance(bound, ToolOutcome) and bound.is_error
    issues = json.loads(bound.content)["error"]["issues"]
    assert [issue["path"] for issue in issues] == ["plan.scenes.0.duration", "count"]
    assert issues[0]["got"] == "-1"


def test_names_belong_to_one_tool() -> None:
    with pytest.raises(InvalidInput, match="make"):
        Toolkit([tool(), tool()])


def test_unknown_tools_change_nothing() -> None:
    kit = Toolkit([tool()])
    assert kit.effect("nothing") == "pure" and kit.get("nothing") is None


def test_batches_join() -> None:
    one = Batch(events=[NewEvent(type="usage")], touch=True)
    two = Batch(events=[NewEvent(type="error")], status="suspended")
    both = merged(one, two)
    assert [event.type for event in both.events] == ["usage", "error"]
    assert both.touch and both.status == "suspended"
    assert [event.type for event in one.events] == ["usage"]
    assert merged(one, None) is one
