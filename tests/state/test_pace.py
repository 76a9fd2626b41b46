"""Writes of one key as R2 takes them: one a second, and nothing is refused that could have waited."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from koda_ray.config import Settings
from koda_ray.render.claims import Claims
from koda_ray.render.retry import RetryingStorage
from koda_ray.state.pace import KeyPace
from koda_ray.state.storage import Storage
from tests.state.strict_bucket import StrictBucket, strict_bucket


@pytest.fixture
def strict(s3_endpoint: str) -> Iterator[StrictBucket]:
    with strict_bucket(s3_endpoint) as bucket:
        yield bucket


def r2(strict: StrictBucket) -> Storage:
    """Storage of a process, as the settings for R2 make it."""
    given = {"STORAGE_PROVIDER": "r2", "R2_BUCKET": "koda-test", "R2_ENDPOINT": strict.endpoint}
    return Storage.from_settings(Settings.model_validate({**given, "R2_ACCESS_KEY": "test", "R2_SECRET_KEY": "test"}))


async def test_one_key_is_written_once_a_second_and_others_meanwhile(strict: StrictBucket, tmp_path: Path) -> None:
    storage = r2(strict)
    (tmp_path / "file").write_bytes(b"third")
    await storage.put("paced/one", b"first")
    await asyncio.gather(storage.put_many({f"paced/{name}": b"x" for name in "abc"}), storage.put("paced/one", b"2nd"))
    await storage.put_file("paced/one", tmp_path / "file")
    await storage.touch("paced/one")
    assert await storage.get("paced/one") == b"third"
    assert strict.refused == {}
    assert strict.written["/koda-test/paced/one"] == 4
    await storage.delete_prefix("paced")


@pytest.mark.full
async def test_it_goes_with_storage_to_other_processes_which_are_refused_and_try_again(strict: StrictBucket) -> None:
    """Two that write one key know nothing of each other: both are told to wait, and whoever writes tries again."""
    one = r2(strict)
    other = pickle.loads(pickle.dumps(one))

    puts = [RetryingStorage(storage).put("paced/two", b"x") for storage in (one, other) for _ in range(2)]
    await asyncio.gather(*puts)
    assert await one.get("paced/two") == b"x"
    assert strict.written["/koda-test/paced/two"] == 4
    await one.delete("paced/two")


async def test_a_job_claims_for_all_its_tasks_with_few_writes(strict: StrictBucket) -> None:
    """Hundreds may ask at once; what one of them waits to write has the others' with it."""
    storage = r2(strict)
    async with Claims(RetryingStorage(storage), user_id="ann", job_id="job_1", grid="a" * 64) as claims:
        await claims.take([0])
        taken = await asyncio.gather(*(claims.take([unit]) for unit in range(1, 60)))
        assert [set(each) for each in taken] == [{unit} for unit in range(1, 60)]
        async with Claims(RetryingStorage(storage), user_id="ann", job_id="job_2", grid="a" * 64) as later:
            assert await later.take([7, 99]) == {99}
    assert strict.refused == {}
    assert max(strict.written.values()) < 10
    await storage.delete_prefix("users/ann")


async def test_a_bucket_that_takes_everything_is_not_waited_for(s3_endpoint: str) -> None:
    given = {"STORAGE_PROVIDER": "s3", "R2_BUCKET": "koda-test", "R2_ENDPOINT": s3_endpoint}
    made = Storage.from_settings(Settings.model_validate({**given, "R2_ACCESS_KEY": "test", "R2_SECRET_KEY": "test"}))
    await made.put("paced/free", b"x")
    await made.await_turn("paced/free")  # at once: nothing else ends this wait
    await made.delete("paced/free")


def test_turns_of_a_key_are_apart_from_the_end_of_one_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    at, slept = 100.0, list[float]()
    pace = KeyPace(1.0, clock=lambda: at)

    def sleep(seconds: float) -> None:
        nonlocal at
        slept.append(seconds)
        at += seconds

    monkeypatch.setattr(time, "sleep", sleep)
    with pace.turn("k"):
        at += 0.25
    assert pace.wait_s("k") == pytest.approx(1.0) and pace.wait_s("other") == 0.0
    with pace.turn("k"), pace.turn("other"):
        pass
    assert slept == pytest.approx([0.0, 1.0, 0.0])
