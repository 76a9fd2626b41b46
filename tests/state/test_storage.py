from __future__ import annotations

import asyncio
import os
import pickle
from datetime import timedelta
from pathlib import Path

import pytest

from koda_ray.config import Settings
from koda_ray.errors import InvalidInput, InvalidPath, Missing, NotFound, StorageError
from koda_ray.state.storage import Storage
from koda_ray.types import now


async def test_bytes_come_back_as_they_were_put(storage: Storage) -> None:
    for key, data in {"a/b": b"hello", "empty": b"", "a/日本 é/c d%20+?#&.bin": bytes(range(256)) * 5000}.items():
        await storage.put(key, data)
        assert await storage.get(key) == data
        assert await storage.size(key) == len(data)
        assert await storage.exists(key)


async def test_put_replaces(storage: Storage) -> None:
    await storage.put("k", b"long old value")
    await storage.put("k", b"new")
    assert await storage.get("k") == b"new"


async def test_what_is_not_synced_is_there_for_whoever_reads_it(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[int]()
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), sync(file)))
    await storage.put("a/k", b"longer than the next", synced=False)  # its folder is made, and that is
    synced.clear()
    await storage.put("a/k", b"value", synced=False)
    assert await storage.get("a/k") == b"value"
    assert synced == []
    await storage.put("a/k", b"other")
    assert await storage.get("a/k") == b"other"
    assert bool(synced) == storage.is_local


async def test_ranges_are_half_open_and_end_with_the_object(storage: Storage) -> None:
    await storage.put("k", b"0123456789")
    assert await storage.get_range("k", 2, 5) == b"234"
    assert await storage.get_range("k", 7, 99) == b"789"
    assert await storage.get_range("k", 10, 20) == b""
    assert await storage.get_range("k", 3, 3) == b""
    with pytest.raises(InvalidInput, match=r"\[5, 2\)"):
        await storage.get_range("k", 5, 2)
    with pytest.raises(InvalidInput):
        await storage.get_range("k", -1, 2)
    with pytest.raises(NotFound):
        await storage.get_range("nothing", 0, 1)


async def test_list_is_sorted_and_knows_folders_from_prefixes(storage: Storage) -> None:
    await storage.put_many(dict.fromkeys(("users/b/2", "users/a/z", "users/ab/1", "users/a/deep/er/y", "top"), b"x"))
    assert await storage.list() == ["top", "users/a/deep/er/y", "users/a/z", "users/ab/1", "users/b/2"]
    assert await storage.list("users/a") == await storage.list("users/a/") == ["users/a/deep/er/y", "users/a/z"]
    assert await storage.list("nobody") == await storage.list("top") == []


async def test_what_is_not_there(storage: Storage) -> None:
    await storage.put("folder/file", b"x")
    for key in ("folder", "folder/file2", "other/file"):
        assert not await storage.exists(key)
        for call in (storage.get(key), storage.size(key), storage.get_many([key])):
            with pytest.raises(NotFound, match=key):
                await call


async def test_delete_is_idempotent_and_keeps_neighbours(storage: Storage) -> None:
    await storage.put_many({"a/1": b"", "a/b/2": b"", "ab/3": b"", "a.txt": b""})
    await storage.delete("a/1")
    await storage.delete("a/1")
    assert await storage.list() == ["a.txt", "a/b/2", "ab/3"]
    await storage.delete_prefix("a")
    await storage.delete_prefix("a/")
    assert await storage.list() == ["a.txt", "ab/3"]
    await storage.delete_prefix("a.txt")  # an object, not a folder
    with pytest.raises(InvalidPath):
        await storage.delete_prefix("")
    assert await storage.list() == ["a.txt", "ab/3"]


async def test_objects_are_looked_at_and_touched(storage: Storage) -> None:
    before = now() - timedelta(seconds=2)  # a bucket knows whole seconds
    await storage.put_many({"a/b/1": b"one", "a/b/2": b"", "a/c/d/3": b"", "ab/4": b"", "a/5": b""})
    assert [(one.key, one.size_bytes) for one in await storage.look_below("a")] == [
        ("a/5", 0), ("a/b/1", 3), ("a/b/2", 0), ("a/c/d/3", 0)
    ]  # fmt: skip
    assert await storage.folders("a") == ["b", "c"] and await storage.folders("a/") == ["b", "c"]
    assert await storage.folders("a/b") == await storage.folders("nobody") == await storage.look_below("nobody") == []
    looked = await storage.look("a/b/1")
    assert looked.key == "a/b/1" and before <= looked.at <= now() + timedelta(seconds=2)
    async with asyncio.timeout(60):
        while (touched := await storage.look("a/b/1")).at <= looked.at:
            await storage.touch("a/b/1")
    assert (touched.size_bytes, await storage.get("a/b/1")) == (3, b"one")
    for call in (storage.look("a/b"), storage.look("a/x"), storage.touch("a/x")):
        with pytest.raises(NotFound):
            await call


async def test_files_go_in_and_out(storage: Storage, tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "in.mp4").write_bytes(data)
    await storage.put_file("v/video.mp4", tmp_path / "in.mp4")
    assert await storage.size("v/video.mp4") == len(data)
    await storage.get_file("v/video.mp4", tmp_path / "new" / "out.mp4")
    assert (tmp_path / "new" / "out.mp4").read_bytes() == data
    with pytest.raises(NotFound):
        await storage.get_file("v/other.mp4", tmp_path / "new" / "out2.mp4")
    with pytest.raises(StorageError, match=r"put of 'v/x'.*No such file"):
        await storage.put_file("v/x", tmp_path / "missing")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["out.mp4"]


@pytest.mark.parametrize(
    "storage_kind",
    ["disk", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("s3", "seaweedfs"))],
    indirect=True,
)
async def test_many_at_once(storage: Storage) -> None:
    objects = {f"m/{index:03}": str(index).encode() for index in range(60)}
    await storage.put_many(objects)
    assert await storage.get_many(objects) == objects
    assert await storage.get_many([]) == {}


async def test_nothing_is_below_a_folder_of_which_all_was_deleted(storage: Storage) -> None:
    await storage.put_many({"users/ann/a/1": b"x", "users/ann/b/2": b"y"})
    await storage.delete("users/ann/a/1")
    assert await storage.list("users/ann") == ["users/ann/b/2"]
    await storage.delete_prefix("users")
    for prefix in ("users/ann/a", "users/ann", "users"):
        assert (await storage.list(prefix), await storage.look_below(prefix)) == ([], [])
        assert not await storage.exists(prefix)
        for kept in await storage.folders(prefix):
            assert await storage.look_below(f"{prefix}/{kept}") == []
    assert await storage.list() == []


async def test_one_bad_key_among_many_writes_nothing(storage: Storage) -> None:
    with pytest.raises(InvalidPath):
        await storage.put_many({"good": b"x", "../bad": b"y"})
    assert await storage.list() == []


async def test_it_travels_by_pickle(storage: Storage) -> None:
    await storage.put("k", b"v")
    assert await pickle.loads(pickle.dumps(storage)).get("k") == b"v"


async def test_readers_see_the_old_or_the_new(disk_storage: Storage) -> None:
    storage, values = disk_storage, {bytes([65 + index]) * 200_000 for index in range(8)}
    await storage.put("k", next(iter(values)))
    writers = [asyncio.create_task(storage.put("k", value)) for value in [*values] * 5]
    seen: set[bytes] = set()
    while not all(writer.done() for writer in writers):
        seen.add(await storage.get("k"))
    await asyncio.gather(*writers)
    assert seen <= values
    assert await storage.list() == ["k"]
    assert list((Path(storage.url) / ".tmp").iterdir()) == []


async def test_local_path_is_the_file_itself(disk_storage: Storage, s3_storage: Storage) -> None:
    await disk_storage.put("v/a.mp4", b"video")
    path = disk_storage.local_path("v/a.mp4")
    assert path is not None
    assert path.read_bytes() == b"video"
    assert path.stat().st_mode & 0o077 == 0
    assert s3_storage.local_path("v/a.mp4") is None
    with pytest.raises(InvalidPath):
        disk_storage.local_path("../etc/passwd")


async def test_what_killed_writers_left_is_swept(disk_storage: Storage) -> None:
    await disk_storage.put("k", b"v")
    left = Path(disk_storage.url) / ".tmp" / "left"
    left.write_bytes(b"half")
    assert await disk_storage.list() == ["k"]
    assert await disk_storage.sweep() == 0
    os.utime(left, (0, 0))
    assert await disk_storage.sweep() == 1
    assert not left.exists()


async def test_a_full_disk_is_named_and_loses_nothing(small_disk: Path) -> None:
    storage = Storage(str(small_disk / "storage"))
    await storage.put("safe", b"kept")
    with pytest.raises(StorageError, match=rf"'big/one' in {small_disk}.*: the disk is full") as caught:
        await storage.put("big/one", bytes(2 << 20))
    assert caught.value.code == "DISK_FULL"
    assert caught.value.retryable
    with pytest.raises(StorageError, match="disk is full"):
        await storage.put("safe", bytes(2 << 20))
    assert await storage.list() == ["safe"]
    assert await storage.get("safe") == b"kept"
    await storage.put("small", b"fits")  # the half-written files are gone, so there is room again


async def test_errors_name_key_and_operation(disk_storage: Storage, s3_endpoint: str) -> None:
    await disk_storage.put("file", b"x")
    with pytest.raises(StorageError, match=r"put of 'file/below' failed: Not a directory") as caught:
        await disk_storage.put("file/below", b"x")
    assert caught.value.context == {"operation": "put", "key": "file/below"}
    options = {"key": "test", "secret": "s3cr3t", "client_kwargs": {"endpoint_url": s3_endpoint}}
    with pytest.raises(StorageError, match=r"put of 'k' failed.*bucket does not exist") as caught:
        await Storage("s3://no-such-bucket", options).put("k", b"x")
    options["client_kwargs"] = {"endpoint_url": "http://127.0.0.1:1"}
    with pytest.raises(StorageError, match=r"koda-test does not answer .*get of 'k': .*Could not connect") as caught:
        await Storage("s3://koda-test", options | {"config_kwargs": {"retries": {"max_attempts": 0}}}).get("k")
    assert "s3cr3t" not in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.code, copy.context) == (caught.value.code, caught.value.context)


async def test_an_unknown_scheme_names_its_package() -> None:
    with pytest.raises(Missing, match="gs://"):
        await Storage("gs://bucket").get("k")


def test_settings_choose_and_hide(tmp_path: Path) -> None:
    local = Storage.from_settings(Settings(_env_file=None, storage_path=tmp_path))
    assert local.is_local
    assert local.url == str(tmp_path)
    settings = Settings(
        _env_file=None,
        storage_provider="r2",
        r2_bucket="b",
        r2_access_key="access-1",
        r2_secret_key="secret-1",
        r2_endpoint="https://r2",
    )
    bucket = Storage.from_settings(settings)
    assert not bucket.is_local
    assert bucket.url == "s3://b"
    assert "secret-1" not in repr(bucket)
    assert "access-1" not in repr(bucket)


@pytest.mark.full
@pytest.mark.parametrize(("kind", "key"), [("AES256", None), ("aws:kms", "alias/koda")])
async def test_everything_in_a_bucket_is_encrypted_as_the_settings_say(
    s3_endpoint: str, tmp_path: Path, kind: str, key: str | None
) -> None:
    import boto3

    given = {"STORAGE_PROVIDER": "s3", "R2_BUCKET": "koda-test", "R2_ENDPOINT": s3_endpoint, "R2_ACCESS_KEY": "a"}
    given |= {"R2_SECRET_KEY": "b", "STORAGE_ENCRYPTION": kind} | ({"STORAGE_KMS_KEY": key} if key else {})
    storage = Storage.from_settings(Settings.model_validate(given))
    (tmp_path / "large").write_bytes(bytes(120 << 20))  # sent in parts
    await storage.put("sealed/put", b"x")
    await storage.put_many({"sealed/many": b"y"})
    await storage.put_file("sealed/file", tmp_path / "large")
    await storage.copy("sealed/put", "sealed/copied")
    await storage.touch("sealed/many")
    assert await storage.get("sealed/copied") == b"x" and await storage.get_range("sealed/many", 0, 1) == b"y"
    client = boto3.client(
        "s3", endpoint_url=s3_endpoint, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1"
    )
    for name in ("put", "many", "file", "copied"):
        said = client.head_object(Bucket="koda-test", Key=f"sealed/{name}")
        assert (said.get("ServerSideEncryption"), said.get("SSEKMSKeyId")) == (kind, key), name
    client.close()
    await storage.delete_prefix("sealed")


async def test_settings_for_a_bucket_work_against_a_server(s3_endpoint: str) -> None:
    settings = Settings(
        _env_file=None,
        storage_provider="r2",
        r2_bucket="koda-test",
        r2_access_key="access-1",
        r2_secret_key="secret-1",
        r2_endpoint=s3_endpoint,
    )
    storage = Storage.from_settings(settings)
    await storage.put("from/settings", b"x")
    assert await storage.get("from/settings") == b"x"
