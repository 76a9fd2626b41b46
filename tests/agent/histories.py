"""Histories for property tests: valid ones, and what crashes, imports and providers can make of them."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import strategies as st

from koda_ray.llm.base import Block, Message

__all__ = ["broken", "pairs_hold", "valid", "words_of"]

WORDS = st.text(alphabet="ab ü\n", min_size=1, max_size=8).filter(lambda text: bool(text.strip()))
LONG = st.text(alphabet="xyz", min_size=61, max_size=90)
INPUTS = st.dictionaries(
    st.sampled_from(["path", "n"]), st.one_of(st.integers(), st.text(max_size=60), LONG), max_size=2
)


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


@st.composite
def valid(draw: st.DrawFn, *, max_turns: int = 6) -> tuple[Message, ...]:
    """A history as the loop makes it when nothing goes wrong; it ends with the user."""
    out: list[Message] = []
    number = 0
    for turn in range(draw(st.integers(1, max_turns))):
        out.append(Message(role="user", content=(_text(f"[{turn}] {draw(WORDS)}"),)))
        for _ in range(draw(st.integers(0, 3))):
            ids = [f"c{number + n}" for n in range(draw(st.integers(1, 3)))]
            number += len(ids)
            calls: list[Block] = [
                {"type": "tool_use", "id": i, "name": draw(st.sampled_from(["ask", "do"])), "input": draw(INPUTS)}
                for i in ids
            ]
            results: list[Block] = [
                {"type": "tool_result", "tool_use_id": i, "content": f"result {i}", "is_error": draw(st.booleans())}
                for i in ids
            ]
            out.append(Message(role="assistant", content=(_text("working"), *calls)))
            out.append(Message(role="user", content=tuple(results)))
        out.append(Message(role="assistant", content=(_text("said"),)))
    out.append(Message(role="user", content=(_text("[last]"),)))
    return tuple(out)


@st.composite
def broken(draw: st.DrawFn) -> tuple[Message, ...]:
    """Rows in any order of any kind: results early, late, twice, for nobody; empty words; ids twice."""
    ids = st.sampled_from(["c1", "c2", "c3", "c4", "c5"])
    block = st.one_of(
        st.builds(_text, st.one_of(WORDS, st.sampled_from(["", " ", "\n"]))),
        st.builds(
            lambda i, given: cast("Block", {"type": "tool_use", "id": i, "name": "do", "input": given}), ids, INPUTS
        ),
        st.builds(
            lambda i, text, bad: cast(
                "Block", {"type": "tool_result", "tool_use_id": i, "content": text, "is_error": bad}
            ),
            ids,
            WORDS,
            st.booleans(),
        ),
        st.just(cast("Block", {"type": "thinking", "provider": "anthropic", "data": {}})),
    )
    message = st.builds(
        lambda role, content: Message(role=role, content=tuple(content)),
        st.sampled_from(["user", "assistant"]),
        st.lists(block, max_size=4),
    )
    return tuple(draw(st.lists(message, max_size=10)))


def words_of(messages: tuple[Message, ...]) -> list[str]:
    """The user's words, in order."""
    return [
        block["text"]
        for message in messages
        if message.role == "user"
        for block in message.content
        if block["type"] == "text" and block["text"].strip()
    ]


def pairs_hold(messages: tuple[Message, ...]) -> None:
    """What every provider demands of a history."""
    seen: set[str] = set()
    open_: list[str] = []
    for index, message in enumerate(messages):
        assert message.content, "an empty message"
        assert message.role == ("user" if index % 2 == 0 else "assistant"), "roles do not alternate from the user"
        blocks = cast("list[dict[str, Any]]", list(message.content))
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert results == open_, f"calls {open_}, results {results}"
        assert all(block["type"] == "tool_result" for block in blocks[: len(results)]), "words before results"
        assert not [block for block in blocks if block["type"] == "text" and not block["text"].strip()]
        open_ = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert not seen.intersection(open_) and len(open_) == len(set(open_)), "an id twice"
        assert not open_ or message.role == "assistant"
        seen.update(open_)
    assert not open_, "calls without results at the end"
