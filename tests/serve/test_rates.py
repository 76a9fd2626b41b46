"""How often a user may change something: a bucket for each, full at first, that fills again with time."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.errors import LimitReached
from koda_ray.serve.preview_quota import MAX_CHANGES_PER_MIN
from koda_ray.serve.rates import Rates

from .test_preview_quota import shown
from .test_quotas import KEYS, head, is_refused
from .test_sessions import PROMPT
from .world import world


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


def taken(rates: Rates, user: str, most: int = 1_000) -> int:
    """Take until there is nothing left; return how many there were."""
    for count in range(most):
        try:
            rates.take(user)
        except LimitReached:
            return count
    return most


def test_a_bucket_is_full_at_first_and_fills_with_time() -> None:
    rates = Rates(60, way_out="wait", clock=(clock := Hand()))
    assert taken(rates, "ada") == 60
    with pytest.raises(
        LimitReached, match="60 changes of yours came within a minute, as many as may be: wait"
    ) as found:
        rates.take("ada")
    assert 0 < float(str(found.value.context["retryAfterS"])) <= 1.0
    assert taken(rates, "bob") == 60, "others have their own"
    clock.at += 10
    assert taken(rates, "ada") == 10
    clock.at += 10_000
    assert taken(rates, "ada") == 60, "and never more than it holds"
    assert taken(Rates(0, way_out="", clock=clock), "ada") == 1_000


def test_of_many_users_no_more_is_remembered_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koda_ray.serve.rates._MOST_USERS", 3)
    rates = Rates(2, way_out="wait", clock=Hand())
    for user in ("ada", "bob", "cleo", "dan"):
        assert taken(rates, user) == 2
    assert [taken(rates, user) for user in ("dan", "cleo", "bob", "ada")] == [0, 0, 0, 2]


async def test_commands_and_files_have_a_rate(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_API_KEYS=KEYS, KODA_USER_CHANGES_PER_MIN=6) as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
        KodaClient(koda.url, key="b" * 32) as bob,
    ):
        made = await http.post("/v1/sessions", json={"prompt": PROMPT}, headers=head("ada"))
        session = f"/v1/sessions/{made.json()['sessionId']}"
        statuses = [
            (await http.post(f"{session}/cancel", headers=head("ada"))).status_code,
            (await http.patch(session, json={"title": "x"}, headers=head("ada"))).status_code,
            (await http.put("/v1/sandboxes/sbx_none/files/a", content=b"x", headers=head("ada"))).status_code,
            (await http.delete("/v1/sandboxes/sbx_none/files/a", headers=head("ada"))).status_code,
            (await http.post(f"{session}/cancel", json={"no": "body"}, headers=head("ada"))).status_code,
        ]
        assert 429 not in statuses, statuses
        assert is_refused(await http.post(f"{session}/cancel", headers=head("ada")))
        assert is_refused(await http.put("/v1/sandboxes/sbx_none/files/a", content=b"x", headers=head("ada")))
        assert "KODA_USER_CHANGES_PER_MIN" in (await http.delete(session, headers=head("ada"))).json()["detail"]
        assert (await http.get(session, headers=head("ada"))).status_code == 200, "whoever reads is not kept out"
        await bob.create(PROMPT)


async def test_edits_of_a_preview_have_a_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_CHANGES_PER_MIN > 600
    monkeypatch.setattr("koda_ray.serve.preview_quota.MAX_CHANGES_PER_MIN", 3)
    async with shown(tmp_path) as address, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        answers = [await http.post(f"{address}__koda/theatre-state", json={}) for _ in range(4)]
        assert [answer.status_code == 429 for answer in answers] == [False, False, False, True]
        assert int(answers[-1].headers["Retry-After"]) > 0
        assert (await http.get(address)).text == "a page", "whoever looks is not kept out"
