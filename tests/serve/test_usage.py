"""What was used and what may be, over HTTP."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from koda_ray.agent.purse import Purse, month
from koda_ray.budgets import Amounts
from koda_ray.client import KodaClient
from koda_ray.commands import Pause
from koda_ray.errors import InvalidInput, NotFound
from koda_ray.phases import apply
from koda_ray.state.charges import Reserve, Settle
from koda_ray.state.records import Batch
from koda_ray.types import Budget, NodeState, Option, Question, new_id, now

from .world import World, world

PROMPT = "Create a bouncing ball animation"
SPENT = Amounts(tokens=1_200, cost_microusd=12_345, unpriced_tokens=200)


async def charge(koda: World, session_id: str) -> None:
    """Enter a call, a sandbox and a call that goes on."""
    row = await koda.store.activate(session_id, host="test", lease_until=now() + timedelta(seconds=1))
    bounds = Purse(session_id).bounds
    entries = [
        Settle(id=new_id("msg"), spent=SPENT, bounds=bounds, agent="orchestrator", model="m"),
        Settle(id="sbx_1", kind="sandbox", spent=Amounts(sandbox_ms=90_000), bounds=bounds),
        Reserve(id="c2", kind="model", agent="orchestrator", amounts=Amounts(tokens=50), bounds=bounds),
    ]
    await koda.store.commit(session_id, row.epoch, Batch(charges=entries))
    koda.directory.forget(session_id)  # whoever goes on activates it anew


async def test_what_a_session_and_its_user_have_used(koda: World, client: KodaClient) -> None:
    koda.directory.hold.add("analyze")
    made = await client.create(PROMPT, budget=Budget(cost_usd=2))
    before = await client.session_usage(made.session_id)
    assert before.spent.tokens == 0 and before.parts == () and before.budget == Budget(cost_usd=2)
    await charge(koda, made.session_id)
    found = await client.session_usage(made.session_id)
    assert (found.spent.tokens, found.spent.cost_usd, found.spent.unpriced_tokens) == (1_200, 0.012345, 200)
    assert (found.spent.sandbox_minutes, found.held.tokens) == (1.5, 50)
    assert [(part.kind, part.agent, part.model, part.count) for part in found.parts] == [
        ("model", "orchestrator", "m", 1),
        ("sandbox", None, None, 1),
    ]
    mine = await client.usage()
    assert (mine.awake, mine.most_awake) == (1, koda.settings.user_sessions)
    assert mine.month == month().removeprefix("month:") and mine.spent == found.spent
    assert (await client.usage(month="2025-01")).spent.tokens == 0
    with pytest.raises(NotFound):
        await client.session_usage("ses_none")
    with pytest.raises(InvalidInput, match="month"):
        await client.usage(month="2025-13")
    await client.delete(made.session_id)
    assert (await client.usage()).spent == found.spent, "what was used is used"


async def test_a_limit_that_is_raised_lets_a_session_go_on(koda: World, client: KodaClient) -> None:
    koda.directory.hold.add("analyze")
    session_id = new_id("ses")
    begun = NodeState(
        node_id=new_id("nod"), user_id="local", project_id="local", session_id=session_id, owes="analyze", prompt=PROMPT
    )
    question = Question(text="Go on?", options=(Option(id="more", label="More"),), reason="budget", custom_input=False)
    paused, _ = apply(begun, Pause(question, "cost", session_id, 1_000_000, 2_000_000), now())
    await koda.store.create_session(paused, key="k", body={})
    await client.budget(session_id, Budget(cost_usd=0.5))
    still = (await client.session(session_id)).state
    assert still.paused is not None and still.budget == Budget(cost_usd=0.5)
    accepted = await client.budget(session_id, Budget(cost_usd=3), key="k")
    assert accepted == await client.budget(session_id, Budget(cost_usd=3), key="k")
    state = (await client.session(session_id)).state
    assert state.paused is None and state.owes == "analyze" and state.budget == Budget(cost_usd=3)
    await client.budget(session_id, Budget(tokens=9, warn_at=0.5))
    await client.budget(session_id, Budget(cost_usd=None, warn_at=None))
    assert (await client.session(session_id)).state.budget == Budget(tokens=9), "what is null is taken away"
    with pytest.raises(InvalidInput, match="name a limit"):
        await client.budget(session_id, Budget())


async def test_bad_limits_say_what_is_wrong(http: httpx.AsyncClient) -> None:
    for budget, field in (({"costUsd": -1}, "costUsd"), ({"dollars": 1}, "dollars"), ({"warnAt": 2}, "warnAt")):
        response = await http.post("/v1/sessions", json={"prompt": PROMPT, "budget": budget})
        assert response.status_code == 422
        assert field in response.text


async def test_dollars_need_prices(tmp_path: Path) -> None:
    models = {"KODA_DIRECTOR": "openai", "OPENAI_API_KEY": "k", "KODA_ORCHESTRATOR_MODEL": "openai:mine"}
    async with world(tmp_path, **models) as koda, KodaClient(koda.url) as client:
        with pytest.raises(InvalidInput, match="'openai:mine' has no known price"):
            await client.create(PROMPT, budget=Budget(cost_usd=1))
        made = await client.create(PROMPT, budget=Budget(tokens=1))
        assert (await client.session(made.session_id)).state.budget == Budget(tokens=1)
