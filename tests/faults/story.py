"""Whether the story of a session that was disturbed is whole: each thing once, nothing missing, and all of it paid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from koda_ray.agent.breakpoints import derive
from koda_ray.agent.ledger import recorded_result
from koda_ray.agent.memory import is_summary
from koda_ray.agent.messages import from_records, repair
from koda_ray.budgets import Amounts
from koda_ray.state import checkpoint
from koda_ray.state.records import MessageRecord, ToolCallRecord
from koda_ray.state.storage import Storage
from koda_ray.state.store import Store
from tests.actors.script import APP
from tests.agent.histories import pairs_hold

__all__ = ["nothing_twice_nothing_lost", "outcomes_of", "unbalanced", "unpaid", "unsound"]


async def nothing_twice_nothing_lost(store: Store, storage: Storage, session_id: str) -> None:
    """Hold a session's story and its files against what may happen once, and must not go."""
    events = await store.events(session_id, limit=10_000)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    done = Counter(str(e.data["todoId"]) for e in events if e.type == "todo_update" and e.data["status"] == "done")
    assert done and set(done.values()) == {1}, done
    settled = Counter(str(e.data["callId"]) for e in events if e.type == "tool_end")
    assert set(settled.values()) == {1}, settled
    under_way = await store.tool_calls(session_id, status=("started", "waiting"))
    assert under_way == [], under_way
    state = (await store.get_session(session_id)).state
    pointer = await store.latest_checkpoint(session_id)
    assert pointer is not None and state.execution is not None
    manifest = await checkpoint.load(storage, pointer.manifest_key)
    sizes = {str(e.data["path"]): e.data["size"] for e in events if e.type == "file_written"}
    assert set(state.execution.files) <= set(sizes), set(state.execution.files) - set(sizes)
    kept = {path: manifest.files[path].size for path in sizes}
    assert kept == sizes, f"{kept} kept, and {sizes} told"
    app = await checkpoint.read_file(storage, manifest, "src/App.tsx")
    assert app == APP.encode(), app
    for charge in await store.charges(session_id):
        if charge.kind == "render":
            made_ms = sum(unit.wall_ms for unit in await store.chunks(charge.id))
            spent = charge.status, Amounts.of(charge.spent).render_ms
            assert spent[0] == "settled" and 0 < spent[1] <= made_ms, f"{spent} for units of {made_ms} ms"


def unsound(messages: Sequence[MessageRecord], ledger: Mapping[str, ToolCallRecord]) -> list[str]:
    """Say what is wrong with what agents said and were told: calls without their one result, places taken twice.

    Args:
        messages: All of a session's.
        ledger: Its calls, by their ids.
    """
    history = [message for message in messages if not is_summary(message)]
    wrong: list[str] = []
    answered = [
        str(block["tool_use_id"])
        for message in history
        for block in message.content
        if isinstance(block, dict) and block["type"] == "tool_result"
    ]
    outcomes = outcomes_of(ledger)
    if sorted(answered) != sorted(outcomes):
        wrong.append(f"results {sorted(answered)}, outcomes {sorted(outcomes)}")
    for agent in {message.agent for message in history}:
        said = [message for message in history if message.agent == agent]
        positions = [message.position for message in said]
        if positions != sorted(set(positions)):
            wrong.append(f"positions {positions}")
        try:
            pairs_hold(repair(from_records(said), ledger))
            derive(said, ledger)
        except AssertionError as error:
            wrong.append(f"history of {agent}: {error}")
    return wrong


def outcomes_of(ledger: Mapping[str, ToolCallRecord]) -> dict[str, str]:
    """Return what was recorded of calls that have ended, by their ids."""
    return {row.id: f"{row.status} {row.result}" for row in ledger.values() if recorded_result(row) is not None}


async def unbalanced(store: Store, session_id: str, *, user_id: str = "local") -> list[str]:
    """Say where a session's account is not the sum of its charges."""
    charges = await store.charges(session_id)
    wrong: list[str] = []
    for account in await store.accounts(user_id, [session_id]):
        for name, kept, parts in (
            ("held", account.held, [charge.held for charge in charges]),
            ("spent", account.spent, [charge.spent for charge in charges]),
        ):
            if Amounts.of(kept) != sum(map(Amounts.of, parts), Amounts()):
                wrong.append(f"{name} is {kept}, the charges are {parts}")
    return wrong


async def unpaid(store: Store, session_id: str) -> list[str]:
    """Say which recorded answers are not paid for, and whether something is held for one that never came."""
    charges = {charge.id: charge.status for charge in await store.charges(session_id)}
    wrong = [
        f"the answer {message.id} is {charges.get(message.id, 'not paid for')}"
        for message in await store.messages(session_id)
        if message.role == "assistant" and charges.get(message.id) != "settled"
    ]
    return [*wrong, *([f"held for nobody: {charges}"] if "reserved" in charges.values() else [])]
