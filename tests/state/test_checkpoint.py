from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from koda_ray.errors import InvalidPath, NotFound, QuotaExceeded, StorageError
from koda_ray.state import checkpoint
from koda_ray.state.checkpoint import CheckpointTree, Manifest
from koda_ray.state.keys import blob_key, project_prefix
from koda_ray.state.storage import Storage, sha256
from koda_ray.types import NodeState, now
from tests import tiers
from tests.state.records import WORDS

FILES = {
    "package.json": b"{}",
    "src/App.tsx": "export const 題 = '日本';".encode(),
    "src/scenes/Über szene.tsx": b"a",
    "public/assets/p.png": bytes(range(256)) * 40,
    "empty.txt": b"",
    "copy.txt": b"a",
}
STATE = NodeState(node_id="nod_1", user_id="ann", project_id="prj", session_id="ses", prompt=WORDS)


class Counting(Storage):
    """A storage that counts what is written."""

    written: list[str]

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.written = []

    async def put(self, key: str, data: bytes, *, synced: bool = True) -> None:
        self.written.append(key)
        await super().put(key, data, synced=synced)

    async def put_many(self, objects: object) -> None:
        assert isinstance(objects, dict)
        self.written += objects
        await super().put_many(objects)


async def save(storage: Storage, files: dict[str, bytes], previous: Manifest | None = None, **more: object) -> Manifest:
    owner = {name: more.pop(name) for name in ("user_id", "session_id") if name in more}
    parts = {name: more.pop(name) for name in ("modes", "folders") if name in more}
    tree = CheckpointTree(files=files, **parts)  # type: ignore[arg-type]
    arguments: dict[str, object] = {"state": STATE.model_copy(update=owner), "event_seq": 7, **more}
    manifest, key = await checkpoint.save(storage, tree, previous=previous, **arguments)  # type: ignore[arg-type]
    assert key == manifest.key
    assert key.startswith(project_prefix(manifest.user_id, "prj"))
    return manifest


async def test_what_was_saved_is_read(storage: Storage) -> None:
    modes = {"src/App.tsx": 0o755, "src/scenes": 0o750, "public/empty": 0o700}
    unkept = {"src/none": 0o700, "public": 0o755}  # what is not there, and what is as usual
    saved = await save(storage, FILES, modes=modes | unkept, folders=["public/empty", "src"])
    loaded = await checkpoint.load(storage, saved.key)
    assert loaded == saved
    assert loaded.state == STATE
    assert loaded.event_seq == 7
    assert loaded.folders == ("public/empty", "src")
    assert loaded.modes == modes
    assert loaded.total_bytes == sum(map(len, FILES.values()))
    assert await checkpoint.read_files(storage, loaded) == FILES
    assert await checkpoint.read_file(storage, loaded, "src/App.tsx") == FILES["src/App.tsx"]
    with pytest.raises(NotFound) as caught:
        await checkpoint.read_file(storage, loaded, "src/None.tsx")
    assert caught.value.code == "FILE_NOT_FOUND"


async def test_a_manifest_from_before_folders_had_modes_is_read(storage: Storage) -> None:
    saved = await save(storage, FILES, folders=["public/empty"])
    old = json.loads(await storage.get(saved.key))
    del old["folderModes"]
    await storage.put(saved.key, json.dumps(old).encode())
    loaded = await checkpoint.load(storage, saved.key)
    assert loaded == saved and loaded.modes == {}


async def test_what_could_not_be_looked_at_stays_as_it_was(tmp_path: Path) -> None:
    storage = Counting(str(tmp_path))
    shut = {"src/shut/a.ts": b"a", "src/shut/in/b.ts": b"b"}
    modes = {"src/shut/a.ts": 0o600, "src/shut/in": 0o750}
    first = await save(storage, FILES | shut, modes=modes, folders=["src/shut/empty", "gone"])
    storage.written.clear()

    def kept(path: str) -> bool:
        return path.startswith("src/shut/")

    seen = {path: data for path, data in FILES.items() if path != "copy.txt"}
    then = await save(storage, seen, first, folders=["src/shut"], kept=kept)
    assert storage.written == [then.key]
    assert await checkpoint.read_files(storage, then) == seen | shut
    assert then.modes == modes and then.folders == ("src/shut", "src/shut/empty")
    assert await save(storage, seen, then, folders=["src/shut"], kept=kept) is then
    # what is said of it counts
    opened = await save(storage, seen | {"src/shut/a.ts": b"new"}, then, kept=kept)
    assert await checkpoint.read_file(storage, opened, "src/shut/a.ts") == b"new"
    assert opened.files["src/shut/a.ts"].mode == 0o644
    # another person's is not theirs
    assert (await save(storage, seen, first, user_id="bob", kept=kept)).files.keys() == seen.keys()


async def test_nothing_changed_writes_nothing(tmp_path: Path) -> None:
    storage = Counting(str(tmp_path))
    first = await save(storage, FILES)
    assert len(storage.written) == len(set(FILES.values())) + 1
    storage.written.clear()
    times = STATE.model_copy(update={"last_checkpoint": now(), "updated_at": now()})
    assert await save(storage, dict(FILES), first, event_seq=9, state=times) is first
    assert storage.written == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({str(index): b"" for index in range(50_001)}, "50,001 files and empty folders"),
        ({f"{'long/' * 200}{index}": b"" for index in range(15_500)}, r"15,500 files takes 17,.* 16,777,216"),
    ],
    ids=["files", "bytes"],
)
async def test_a_manifest_has_an_end(tmp_path: Path, files: dict[str, bytes], why: str) -> None:
    storage = Counting(str(tmp_path))
    with pytest.raises(QuotaExceeded, match=why):
        await save(storage, files)
    assert storage.written == []


async def test_only_what_changed_is_written(tmp_path: Path) -> None:
    storage = Counting(str(tmp_path))
    first = await save(storage, FILES)
    for change in (
        {"files": FILES | {"new.txt": b"new"}, "blobs": 1},
        {"files": FILES | {"new.txt": FILES["package.json"]}, "blobs": 0},
        {"files": {path: data for path, data in FILES.items() if path != "copy.txt"}, "blobs": 0},
        {"files": FILES, "modes": {"copy.txt": 0o600}, "blobs": 0},
        {"files": FILES, "folders": ["more"], "blobs": 0},
        {"files": FILES, "modes": {"src/scenes": 0o700}, "blobs": 0},
        {"files": FILES, "state": STATE.model_copy(update={"style": "playful"}), "blobs": 0},
    ):
        storage.written.clear()
        blobs, files = change.pop("blobs"), change.pop("files")
        assert isinstance(files, dict)
        second = await save(storage, files, first, **change)
        assert second.id != first.id
        assert len(storage.written) == blobs + 1
        assert storage.written[-1] == second.key
        assert await checkpoint.read_files(storage, await checkpoint.load(storage, second.key)) == files
    assert await checkpoint.read_files(storage, await checkpoint.load(storage, first.key)) == FILES


async def test_deleted_files_stay_deleted(disk_storage: Storage) -> None:
    first = await save(disk_storage, FILES)
    second = await save(disk_storage, {"package.json": b"{}"}, first)
    assert set(await checkpoint.read_files(disk_storage, second)) == {"package.json"}


async def test_another_users_blobs_are_not_taken_for_ones_own(disk_storage: Storage) -> None:
    first = await save(disk_storage, FILES)
    fork = await save(disk_storage, FILES, first, user_id="bob")
    assert await checkpoint.read_files(disk_storage, fork) == FILES
    assert await disk_storage.exists(blob_key("bob", sha256(b"{}")))


async def test_a_fork_in_another_session_has_a_manifest_of_its_own(disk_storage: Storage) -> None:
    first = await save(disk_storage, FILES)
    fork = await save(disk_storage, FILES, first, session_id="ses2")
    assert fork.key != first.key
    assert await checkpoint.read_files(disk_storage, fork) == FILES


async def test_damage_is_named(disk_storage: Storage) -> None:
    saved = await save(disk_storage, FILES)
    key = blob_key("ann", sha256(FILES["src/App.tsx"]))
    await disk_storage.put(key, b"something else")
    for call in (
        checkpoint.read_files(disk_storage, saved),
        checkpoint.read_file(disk_storage, saved, "src/App.tsx"),
    ):
        with pytest.raises(StorageError, match=r"'src/App\.tsx' are damaged") as caught:
            await call
        assert caught.value.code == "DAMAGED"
        assert caught.value.context == {"key": key}
    assert await checkpoint.read_file(disk_storage, saved, "package.json") == b"{}"
    await disk_storage.delete(key)
    for call in (
        checkpoint.read_files(disk_storage, saved),
        checkpoint.read_file(disk_storage, saved, "src/App.tsx"),
    ):
        with pytest.raises(StorageError, match=r"lost the bytes of 'src/App\.tsx'"):
            await call
    await disk_storage.put(saved.key, b'{"v": 1, "id"')
    with pytest.raises(StorageError, match="manifest users/ann/"):
        await checkpoint.load(disk_storage, saved.key)
    with pytest.raises(NotFound):
        await checkpoint.load(disk_storage, "users/ann/none.json")


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "./a", "a\0b", "\ud800", "x/" * 600 + "y"]
)
async def test_a_path_that_leaves_the_project_saves_nothing(tmp_path: Path, path: str) -> None:
    storage = Counting(str(tmp_path))
    for arguments in ({"files": {"ok": b"", path: b"x"}}, {"files": {"ok": b""}, "folders": [path]}):
        with pytest.raises(InvalidPath):
            await save(storage, **arguments)  # type: ignore[arg-type]
    assert storage.written == []


@pytest.mark.parametrize("files", [{"a": b"", "a/b": b""}, {"a/b/c": b"", "a/b": b""}])
async def test_a_path_cannot_be_file_and_folder(disk_storage: Storage, files: dict[str, bytes]) -> None:
    with pytest.raises(InvalidPath, match="file and a folder"):
        await save(disk_storage, files)
    with pytest.raises(InvalidPath, match="file and a folder"):
        await save(disk_storage, {"a": b""}, folders=["a"])


async def test_a_full_disk_keeps_the_checkpoint_before(small_disk: Path) -> None:
    storage = Storage(str(small_disk / "s"))
    first = await save(storage, FILES)
    with pytest.raises(StorageError) as caught:
        await save(storage, FILES | {f"big{index}": bytes([index]) * 300_000 for index in range(8)}, first)
    assert caught.value.code == "DISK_FULL"
    assert await checkpoint.read_files(storage, await checkpoint.load(storage, first.key)) == FILES


NAME = st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..")
)
PATH = st.lists(NAME, min_size=1, max_size=3).map("/".join)
PROJECT = st.dictionaries(PATH, st.binary(max_size=60), max_size=6)


@given(projects=st.lists(PROJECT, min_size=1, max_size=4), modes=st.integers(0, 0o777))
@settings(max_examples=tiers.examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_project_comes_back(
    tmp_path_factory: pytest.TempPathFactory, projects: list[dict[str, bytes]], modes: int
) -> None:
    storage = Storage(str(tmp_path_factory.mktemp("storage")))
    saved: list[tuple[Manifest, dict[str, bytes]]] = []
    previous: Manifest | None = None
    for files in projects:
        try:
            previous = await save(storage, files, previous, modes=dict.fromkeys(files, modes))
        except InvalidPath:
            assert any(path.startswith(f"{other}/") for path in files for other in files)
            continue
        saved.append((previous, files))
    for manifest, files in saved:
        loaded = await checkpoint.load(storage, manifest.key)
        assert await checkpoint.read_files(storage, loaded) == files
        assert {entry.mode for entry in loaded.files.values()} <= {modes}
