"""What hostile code says, as it may be kept."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from koda_ray.events import NewEvent
from koda_ray.hearsay import plain, unbroken, whole

ANYTHING = st.text(st.characters(codec=None), max_size=60)


@given(ANYTHING, st.integers(0, 40))
def test_words_can_be_stored_shown_and_sent(said: str, most: int) -> None:
    words = plain(said, most)
    assert len(words) <= most and words.encode().decode() == words
    assert all(char in "\t\n" or char == "\ufffd" or ord(char) >= 32 for char in words)
    event = NewEvent(type="error", data={"message": words})
    assert json.loads(event.model_dump_json())["data"]["message"] == words


@given(ANYTHING)
def test_text_keeps_all_but_halves_of_characters(said: str) -> None:
    assert unbroken(said).encode("utf-16-le").decode("utf-16-le") == unbroken(said)
    whole_text = said.encode("utf-8", "ignore").decode()
    assert unbroken(whole_text) == whole_text


def test_a_line_has_a_number_that_a_file_may_have() -> None:
    assert whole("12") == 12
    assert [whole(said) for said in (None, "", "9" * 10, "9" * 100_000)] == [None] * 4
