"""Storage that is away for a moment: what a render asks of it is asked again by itself, and nothing else is."""

from __future__ import annotations

import inspect
import pickle
import re
from types import SimpleNamespace
from typing import cast

import pytest

from koda_ray.config import REPO_ROOT
from koda_ray.errors import NotFound, StorageError
from koda_ray.render import retry
from koda_ray.render.retry import RetryingStorage
from koda_ray.state.storage import Storage

NOT_OF_RENDERS = {
    "put_many": "checkpoints",
    "get_many": "checkpoints; its keys may be an iterator, which a second try would find empty",
    "get_range": "requests",
    "signed_url": "requests",
    "folders": "the janitor",
    "delete_many": "the janitor; its keys may be an iterator, too",
    "delete_prefix": "the janitor",
    "sweep": "the janitor",
}
"""Calls of storage that no render makes, and who does: what a render comes to call goes into `RetryingStorage`."""


class Away:
    """Stands for a storage that cannot be reached for so many calls; then each answers with what it was given."""

    def __init__(self, times: float, error: StorageError | None = None) -> None:
        self.times = times
        self.error = error or StorageError("connection refused", retryable=True)
        self.calls = list[str]()

    def __getattr__(self, name: str) -> object:
        async def call(*given: object, **named: object) -> object:
            self.calls.append(name)
            if len(self.calls) <= self.times:
                raise self.error
            return given, named

        return call


def coroutines(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.iscoroutinefunction) if not name.startswith("_")}


def test_every_call_of_storage_is_made_again_or_none_of_a_render() -> None:
    retrying = coroutines(RetryingStorage)
    assert coroutines(Storage) == retrying | NOT_OF_RENDERS.keys()
    assert not retrying & NOT_OF_RENDERS.keys()
    for name in retrying:
        assert inspect.signature(getattr(RetryingStorage, name)) == inspect.signature(getattr(Storage, name)), name


@pytest.mark.parametrize("name", sorted(coroutines(RetryingStorage)))
async def test_each_is_made_again_until_storage_is_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_WAIT_S", 0.001)
    away = Away(3)
    retrying = RetryingStorage(cast("Storage", away))
    assert await getattr(retrying, name)("users/ann/x", data=b"x") == (("users/ann/x",), {"data": b"x"})
    assert away.calls == [name] * 4


async def test_patience_has_an_end_and_none_for_what_will_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    away = Away(float("inf"))
    # each call takes a second, by the clock that retry goes by
    monkeypatch.setattr(retry, "time", SimpleNamespace(monotonic=lambda: float(len(away.calls))))
    monkeypatch.setattr(retry, "_RETRY_S", 3.0)
    with pytest.raises(StorageError, match="refused"):
        await RetryingStorage(cast("Storage", away)).get("users/ann/x")
    assert len(away.calls) == 3
    for error in (StorageError("full", code="DISK_FULL", retryable=True), StorageError("damaged", retryable=False)):
        away = Away(1, error)
        with pytest.raises(StorageError, match=error.message):
            await RetryingStorage(cast("Storage", away)).put("users/ann/x", b"x")
        assert len(away.calls) == 1


async def test_a_call_that_is_made_once_and_one_that_fails_otherwise_do_not_wait(storage: Storage) -> None:
    retrying = pickle.loads(pickle.dumps(RetryingStorage(storage)))
    await retrying.put("users/ann/x", b"x")
    assert retrying.local_path("users/ann/x") == storage.local_path("users/ann/x")
    assert await storage.get("users/ann/x") == b"x"
    with pytest.raises(NotFound):
        await retrying.get("users/ann/y")
    away = Away(1)
    with pytest.raises(StorageError, match="refused"):
        await RetryingStorage(cast("Storage", away)).once.get("users/ann/x")
    assert away.calls == ["get"]


def test_nothing_is_asked_of_the_storage_that_a_task_carries() -> None:
    """It is the plain one, since it is sent: who works with it makes it retry first."""
    asked = {
        f"{path.name}: {found}"
        for path in (REPO_ROOT / "koda_ray/render").rglob("*.py")
        for found in re.findall(r"(?:task|context)\.storage\.\w+", path.read_text(encoding="utf-8"))
    }
    assert asked == set()
