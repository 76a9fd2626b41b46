"""What is wrong with a value is said in our own words, with the value and the way out."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from koda_ray.actors.command_parser import parse_command
from koda_ray.errors import InvalidInput
from koda_ray.wrong_values import in_our_words


class Shade(StrEnum):
    RED = "red"
    BLUE = "blue"


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    frames: int = 1
    seconds: float = Field(default=1.0, ge=0.5, le=1200, allow_inf_nan=False)
    above: float = Field(default=1, gt=0, lt=5)
    loop: bool = False
    text: str = Field(default="abc", min_length=1, max_length=3)
    name: str = Field(default="abc", min_length=2)
    rows: list[int] = Field(default=[1], min_length=1, max_length=2)
    within: dict[str, int] = {}
    format: Literal["mp4", "gif"] = "mp4"
    shade: Shade = Shade.RED
    code: str = Field(default="a", pattern="^a$")
    project: str = Field(default="a", pattern=r"^[A-Za-z0-9_-]+$")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"frames": "abc"}, "a whole number, not 'abc'"),
        ({"frames": 1.5}, "a whole number, not 1.5"),
        ({"frames": None}, "a whole number, not null"),
        ({"frames": [1]}, "a whole number, not a list"),
        ({"seconds": "soon"}, "a number, not 'soon'"),
        ({"seconds": -3}, "at least 0.5, not -3"),
        ({"seconds": 5000}, "at most 1,200, not 5000"),
        ({"seconds": float("nan")}, "a finite number, not nan"),
        ({"above": 0}, "more than 0, not 0"),
        ({"above": 5}, "less than 5, not 5"),
        ({"loop": "maybe"}, "true or false, not 'maybe'"),
        ({"text": 7}, "text, not 7"),
        ({"text": True}, "text, not true"),
        ({"text": ""}, "at least 1 character, not 0"),
        ({"name": "x"}, "at least 2 characters, not 1"),
        ({"text": "x" * 2000}, "at most 3 characters, not 2,000"),
        ({"rows": []}, "give at least 1, not 0"),
        ({"rows": [1, 2, 3]}, "give at most 2, not 3"),
        ({"rows": "Ada"}, "a list, not 'Ada'"),
        ({"within": "Ada"}, "an object, not 'Ada'"),
        ({"project": "my films"}, "only letters from A to Z, digits, - and _, not 'my films'"),
        ({"format": "avi"}, "'mp4' or 'gif', not 'avi'"),
        ({"format": "x" * 2000}, "'mp4' or 'gif'"),
        ({"shade": "green"}, "'red' or 'blue', not 'green'"),
        ({"colour": "red"}, "there is no such field"),
    ],
)
def test_a_value_is_named_with_what_it_has_to_be(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Asked.model_validate(given)
    (item,) = refused.value.errors()
    assert in_our_words(item) == said


def test_what_is_missing_is_required_and_a_kind_without_words_here_keeps_pydantics() -> None:
    class One(BaseModel):
        prompt: str

    with pytest.raises(ValidationError) as refused:
        One.model_validate({})
    assert in_our_words(refused.value.errors()[0]) == "it is required"
    with pytest.raises(ValidationError) as refused:
        Asked(code="b")
    assert in_our_words(refused.value.errors()[0]) is None


def test_a_command_is_refused_in_the_same_words() -> None:
    with pytest.raises(InvalidInput, match="reject: feedback: text, not 7"):
        parse_command("reject", {"feedback": 7})
