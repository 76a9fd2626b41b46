"""How a conformance suite gets at the store that it is run on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from koda_ray.state.store import Store

__all__ = ["Connect"]

Connect = Callable[[], Awaitable[Store]]
"""Opens a store on the test's database, which shares nothing with the others but that."""
