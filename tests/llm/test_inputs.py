from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.llm.base import INVALID_INPUT
from koda_ray.llm.inputs import flaw, parsed_input


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"files": [{"path": "a"}, {"path": "b", "content": "c', "files.1.content"),
        ('{"a": {"b": [1, 2, }}', "a.b.2"),
        ('{"path": }', "path"),
        ('{"path": "a", oops}', "(input)"),
        ('{"a\\"b": tru', 'a"b'),
        ("[1]", "(input)"),
        ("null", "(input)"),
        ("", "(input)"),
        ('Malformed function call: default_api.read({"path": "a)', "path"),
    ],
)
def test_the_place_where_it_stops_being_json_is_named(text: str, path: str) -> None:
    assert flaw(text)[0] == path
    assert parsed_input(text) == {INVALID_INPUT: text}


_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text(max_size=4), _VALUES, max_size=4), data=st.data())
def test_any_object_is_read_and_any_cut_of_one_is_kept_and_placed(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    assert parsed_input(text) == value
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    assert parsed_input(cut) == {INVALID_INPUT: cut}
    path, problem = flaw(cut)
    assert path and problem
    # the place is one that the whole has: its first member is one of the keys, or none was begun
    assert path == "(input)" or any(path == key or path.startswith(f"{key}.") for key in value) or "" in value
