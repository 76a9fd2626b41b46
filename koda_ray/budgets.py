"""What work uses (tokens, money, sandbox time, render time) in whole numbers that add up, and how people read them.

Money is kept in millionths of a dollar and time in milliseconds, so that sums are exact whatever is added first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from koda_ray.errors import BudgetExceeded
from koda_ray.types import Budget, Resource

__all__ = [
    "RESOURCES",
    "STORED",
    "WARN_AT",
    "Amounts",
    "Exceeded",
    "left_of",
    "limit_name",
    "limits_of",
    "shown",
    "with_limit",
]

RESOURCES: tuple[Resource, ...] = ("tokens", "cost", "sandbox", "render")
"""What work uses up, and budgets limit; what is stored is there until it is deleted."""
WARN_AT = 0.8
"""From which share of a limit on people are warned, where nothing else is said."""
STORED = "stored"
"""The account of all that a user has stored."""
_MICRO = 1_000_000
_MS = 60_000


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """How much of everything; ``unpriced_tokens`` are those of ``tokens`` whose price is not known."""

    tokens: int = 0
    cost_microusd: int = 0
    sandbox_ms: int = 0
    render_ms: int = 0
    unpriced_tokens: int = 0

    @classmethod
    def of(cls, stored: Mapping[str, int]) -> Amounts:
        """Read what `stored` wrote."""
        return cls(**{name: stored.get(name, 0) for name in _NAMES})

    def stored(self) -> dict[str, int]:
        """Write what is not nothing."""
        return {name: value for name in _NAMES if (value := getattr(self, name))}

    def get(self, resource: Resource) -> int:
        """Return how much of one resource."""
        return getattr(self, _FIELDS[resource])

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(**{name: getattr(self, name) + getattr(other, name) for name in _NAMES})

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(**{name: getattr(self, name) - getattr(other, name) for name in _NAMES})

    def at_least(self, other: Amounts) -> Amounts:
        """Return the larger of each."""
        return Amounts(**{name: max(getattr(self, name), getattr(other, name)) for name in _NAMES})

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in _NAMES)


_NAMES = tuple(field.name for field in fields(Amounts))
_FIELDS: dict[Resource, str] = {
    "tokens": "tokens",
    "cost": "cost_microusd",
    "sandbox": "sandbox_ms",
    "render": "render_ms",
}
_BUDGET: dict[Resource, tuple[str, int]] = {
    "tokens": ("tokens", 1),
    "cost": ("cost_usd", _MICRO),
    "sandbox": ("sandbox_minutes", _MS),
    "render": ("render_minutes", _MS),
}

_BOUNDLESS = 2**62
"""More than anybody uses, and a number that every part of the ledger holds: what a limit beyond it counts as."""


@dataclass(frozen=True, kw_only=True)
class Exceeded:
    """What did not fit: of which account, and how much was there of what.

    ``account`` is a session's id, ``month:2026-11`` for all that a user does in that month, or `STORED`.
    """

    account: str
    resource: Resource
    limit: int
    spent: int
    held: int
    wanted: int

    @property
    def left(self) -> int:
        """How much more could be held."""
        return max(0, self.limit - self.spent - self.held)

    @property
    def is_monthly(self) -> bool:
        """Whether it is the user's limit, which a session's person cannot raise."""
        return self.account.startswith("month:")

    def error(self) -> BudgetExceeded:
        """Say it as an error."""
        context = {name: getattr(self, name) for name in _EXCEEDED}
        if self.account == STORED:
            return BudgetExceeded(
                f"{shown(self.resource, self.spent)} of {shown(self.resource, self.limit)} that may be yours are "
                "stored, videos, rendered parts, pages, uploaded files and what sessions keep together: delete "
                "renders, sessions or files, or have KODA_USER_STORED_MB raised",
                context=context,
            )
        whose = f"the user's budget for {self.account.removeprefix('month:')}" if self.is_monthly else "the budget"
        parts = [f"{shown(self.resource, self.spent)} spent"]
        parts += [f"{shown(self.resource, self.held)} held for work under way"] if self.held else []
        parts += [f"{shown(self.resource, self.wanted)} more wanted"] if self.wanted else []
        return BudgetExceeded(
            f"{whose} of {shown(self.resource, self.limit)} does not cover what comes next: {', '.join(parts)}; "
            "raise the limit, or stop",
            context=context,
        )

    @classmethod
    def by(cls, error: BudgetExceeded) -> Exceeded:
        """Read what `error` said."""
        return cls(**{name: error.context[name] for name in _EXCEEDED})  # pyright: ignore[reportArgumentType]


_EXCEEDED = ("account", "resource", "limit", "spent", "held", "wanted")


def limits_of(budget: Budget) -> dict[Resource, int]:
    """Return a budget's limits in whole numbers; resources without one are left out."""
    found: dict[Resource, int] = {}
    for resource, (name, scale) in _BUDGET.items():
        if (limit := getattr(budget, name)) is not None:
            found[resource] = round(min(limit * scale, _BOUNDLESS))
    return found


def limit_name(resource: Resource) -> str:
    """Return what a budget calls the limit of a resource."""
    return _BUDGET[resource][0]


def with_limit(budget: Budget, resource: Resource, limit: int) -> Budget:
    """Return the budget with one limit set, as a whole number."""
    name, scale = _BUDGET[resource]
    return budget.model_copy(update={name: limit if scale == 1 else limit / scale})


def left_of(budget: Budget, spent: Amounts) -> Budget:
    """Return what is left of a budget when so much of it is spent."""
    for resource, limit in limits_of(budget).items():
        budget = with_limit(budget, resource, max(0, limit - spent.get(resource)))
    return budget


def shown(resource: Resource, amount: int) -> str:
    """Write an amount for a person."""
    match resource:
        case "tokens":
            return f"{amount:,} tokens"
        case "cost":
            dollars = amount / _MICRO
            return f"${dollars:,.2f}" if amount % 10_000 == 0 or dollars >= 10 else f"${dollars:,.4f}"
        case "sandbox":
            return f"{amount / _MS:,.1f} min of sandbox"
        case "render":
            return f"{amount / _MS:,.1f} min of rendering"
        case "stored":
            return f"{amount / _MICRO:,.1f} MB"
