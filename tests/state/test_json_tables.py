"""Changes, undone and done again: memory is what the log says, whatever was tried in between."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.types import now

START = now()
IDS = st.sampled_from("abc")
ROWS = {
    "sessions": st.builds(lambda i, n: {"id": i, "epoch": n}, IDS, st.integers(0, 3)),
    "messages": st.builds(lambda s, i, n: {"session_id": s, "id": i, "n": n}, IDS, IDS, st.integers(0, 3)),
    "events": st.builds(
        lambda s, n, kind: {"stream_id": s, "seq": n, "type": kind, "at": at(n).isoformat(timespec="microseconds")},
        IDS, st.integers(1, 5), st.sampled_from(["code_chunk", "message"]),
    ),
}  # fmt: skip
CHANGES = st.one_of(
    *(st.tuples(st.just("put"), st.just(table), rows) for table, rows in ROWS.items()),
    st.tuples(st.just("set"), IDS, st.integers(4, 9)),
    st.tuples(st.just("remove"), IDS),
    st.tuples(st.just("drop"), st.sampled_from(["messages", "events"]), IDS),
    st.tuples(st.just("prune"), st.integers(0, 6)),
)


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def do(change: Transaction, what: tuple[object, ...]) -> None:
    match what:
        case ("put", str(table), dict(row)):
            change.put(table, row)
        case ("set", str(key), epoch) if change.tables.get("sessions", key) is not None:
            change.set("sessions", key, {"epoch": epoch})  # type: ignore[dict-item]
        case ("remove", str(key)):
            change.remove("sessions", key)
        case ("drop", str(table), str(owner)):
            change.drop(table, owner)
        case ("prune", int(seconds)):
            change.prune(at(seconds))
        case _:
            pass


def everything(tables: Tables) -> dict[tuple[str, str | None], list[TableRow]]:
    """All rows of each owner, in their order."""
    owners = {"sessions": [None], "messages": [*"abc"], "events": [*"abc"]}
    return {
        (table, owner): [dict(row) for row in tables.of(table, owner)] for table in owners for owner in owners[table]
    }


@given(st.lists(st.tuples(st.lists(CHANGES, max_size=6), st.booleans()), max_size=8))
def test_what_is_undone_was_never_there(transactions: list[tuple[list[tuple[object, ...]], bool]]) -> None:
    tables, log = Tables(), list[str]()
    for changes, kept in transactions:
        before = everything(tables)
        change = Transaction(tables)
        for what in changes:
            do(change, what)
        if not kept:
            change.undo()
            assert everything(tables) == before
        elif change.text is not None:
            log.append(change.text)
    again = Tables()
    for text in log:
        for change in json.loads(text):
            again.apply(change)
    assert everything(again) == everything(tables)
    snapshot = Tables()
    for line in tables.lines():
        part = json.loads(line)
        for row in part["rows"]:
            snapshot.apply(["put", part["table"], row])
    assert everything(snapshot) == everything(tables)


@given(st.lists(st.lists(CHANGES, max_size=6), max_size=5))
def test_a_group_is_undone_from_its_last_transaction_to_its_first(group: list[list[tuple[object, ...]]]) -> None:
    tables = Tables()
    first = Transaction(tables)
    for name in "abc":
        first.put("sessions", {"id": name, "epoch": 0})
        first.put("messages", {"session_id": name, "id": "a", "n": 0})
    before = everything(tables)
    done = [Transaction(tables) for _ in group]
    for change, changes in zip(done, group, strict=True):
        for what in changes:
            do(change, what)
    for change in reversed(done):
        change.undo()
    assert everything(tables) == before
