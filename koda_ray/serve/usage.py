"""What work has used, from the ledger's rows to what people read."""

from __future__ import annotations

from koda_ray.agent.purse import month as this_month
from koda_ray.budgets import Amounts
from koda_ray.config import Settings
from koda_ray.serve.quotas import session_quota
from koda_ray.state.census import MONTH
from koda_ray.state.charges import AccountRecord
from koda_ray.state.records import SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import Budget
from koda_ray.wire import SessionUsage, Usage, UsagePart, UserUsage

__all__ = ["session_usage", "usage_of", "user_usage"]


async def session_usage(store: Store, row: SessionRecord, settings: Settings) -> SessionUsage:
    """Show what a session has used."""
    accounts = await store.accounts(row.user_id, [row.id])
    parts = await store.charged(row.id)
    return SessionUsage(
        session_id=row.id,
        spent=_spent(accounts),
        held=_held(accounts),
        budget=(row.state.budget or Budget()).over(settings.budget),
        parts=tuple(
            UsagePart(
                kind=part.kind,
                agent=part.agent or None,
                model=part.model or None,
                count=part.count,
                spent=usage_of(part.spent),
            )
            for part in parts
        ),
    )


async def user_usage(store: Store, user_id: str, settings: Settings, *, month: str | None = None) -> UserUsage:
    """Show what all of a user's work has used in a month; the present one when None."""
    account = this_month() if month is None else f"{MONTH}{month}"
    accounts = await store.accounts(user_id, [account])
    quota, taken = session_quota(settings), await store.quota_used(user_id)
    return UserUsage(
        month=account.removeprefix(MONTH),
        spent=_spent(accounts),
        held=_held(accounts),
        budget=settings.user_budget,
        awake=taken.awake or 0,
        most_awake=settings.user_sessions,
        sessions=taken.sessions or 0,
        most_sessions=quota.sessions,
        stored_bytes=taken.stored_bytes or 0,
        most_stored_bytes=settings.user_stored_mb << 20,
    )


def _spent(accounts: list[AccountRecord]) -> Usage:
    return usage_of(Amounts.of(accounts[0].spent) if accounts else Amounts())


def _held(accounts: list[AccountRecord]) -> Usage:
    return usage_of(Amounts.of(accounts[0].held) if accounts else Amounts())


def usage_of(amounts: Amounts) -> Usage:
    """Show amounts as people read them."""
    return Usage(
        tokens=amounts.tokens,
        cost_usd=amounts.cost_microusd / 1_000_000,
        sandbox_minutes=round(amounts.sandbox_ms / 60_000, 4),
        render_minutes=round(amounts.render_ms / 60_000, 4),
        unpriced_tokens=amounts.unpriced_tokens,
    )
