"""Marks the tests that run on every kind of store; the others run on those that need no server.

A selection: they go through what stores can differ in, such as who holds an agent, several writers, and rows of many
kinds in one transaction.
"""

from __future__ import annotations

import pytest

__all__ = ["everywhere", "everywhere_at_length"]

_LIBSQL = pytest.param("libsql", marks=pytest.mark.full)
"""SQLite's words at the end of a connection: what can differ is the store's own tests' to show, with every change."""
_JSON = pytest.param("json", marks=pytest.mark.full)
everywhere = pytest.mark.parametrize("backing", ["sqlite", _JSON, "postgres", _LIBSQL], indirect=True)
_POSTGRES = pytest.param("postgres", marks=pytest.mark.full)
everywhere_at_length = pytest.mark.parametrize("backing", ["sqlite", _JSON, _POSTGRES, _LIBSQL], indirect=True)
"""What takes seconds on each."""
