"""What is sent where files are restored elsewhere, to a real project whose owner changes it meanwhile, or lies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from koda_ray.errors import SandboxError
from koda_ray.sandbox.differing import send_differing
from koda_ray.sandbox.tree import DiskLimit, ProjectTree, digest

FILES = {"src/a.ts": b"a" * 100, "src/b.ts": b"b" * 200, "src/c/d.ts": b"d" * 300, "empty.ts": b""}


class _Elsewhere:
    """A project that is reached by messages, and what they were."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        for path in (self.root, folder / "stage"):
            path.mkdir()
        self.tree = ProjectTree(
            self.root, stage=folder / "stage", owner=None, disk=DiskLimit(size_bytes=1 << 30, words="none")
        )
        self.tree.write_files(FILES)
        self.sent: list[set[str]] = []
        self.then: Callable[[], object] = lambda: None

    async def send(self, files: Mapping[str, bytes], there: Mapping[str, str]) -> object:
        assert files.keys().isdisjoint(there) and files.keys() | there.keys() == FILES.keys()
        self.sent.append(set(files))
        answer = list(self.tree.restore(files, there=there).missing)
        self.then()
        return answer

    def holds(self) -> dict[str, bytes]:
        return self.tree.snapshot().changed


@pytest.fixture
def elsewhere(tmp_path: Path) -> _Elsewhere:
    return _Elsewhere(tmp_path)


async def test_one_message_does_where_all_is_there(elsewhere: _Elsewhere) -> None:
    (elsewhere.root / "more.ts").write_text("more")
    assert await send_differing(FILES, elsewhere.send) == 0
    assert elsewhere.sent == [set()] and elsewhere.holds() == FILES


async def test_what_is_lacking_comes_at_once_and_nothing_is_changed_before(elsewhere: _Elsewhere) -> None:
    (elsewhere.root / "src/a.ts").write_text("another")
    (elsewhere.root / "src/b.ts").unlink()
    (elsewhere.root / "more.ts").write_text("more")
    before, seen = elsewhere.holds(), list[dict[str, bytes]]()
    elsewhere.then = lambda: seen.append(elsewhere.holds())
    assert await send_differing(FILES, elsewhere.send) == 300
    assert elsewhere.sent == [set(), {"src/a.ts", "src/b.ts"}] and seen == [before, FILES]


async def test_what_changes_between_the_two_is_not_left_so(elsewhere: _Elsewhere) -> None:
    (elsewhere.root / "src/a.ts").unlink()
    changes = iter([lambda: (elsewhere.root / "src/c/d.ts").write_text("changed"), lambda: None, lambda: None])
    elsewhere.then = lambda: next(changes)()
    assert await send_differing(FILES, elsewhere.send) == 100 + 600
    assert elsewhere.sent == [set(), {"src/a.ts"}, set(FILES)] and elsewhere.holds() == FILES


async def test_a_liar_harms_its_own_files_and_is_read_as_what_it_is(elsewhere: _Elsewhere) -> None:
    (elsewhere.root / "src/a.ts").write_text("hostile")
    before = elsewhere.tree.snapshot()
    while not all(stamp.changed_ns for stamp in before.stamps.values()):  # what was just written has none to go by yet
        await asyncio.sleep(0.005)
        before = elsewhere.tree.snapshot()

    async def nothing_is_missing(files: Mapping[str, bytes], there: Mapping[str, str]) -> object:
        return []

    assert await send_differing(FILES, nothing_is_missing) == 0
    assert elsewhere.tree.snapshot(before.stamps).stamps == before.stamps
    assert elsewhere.holds()["src/a.ts"] == b"hostile"

    asked = 0

    async def all_is_missing(files: Mapping[str, bytes], there: Mapping[str, str]) -> object:
        nonlocal asked
        asked += 1
        return list(FILES)

    with pytest.raises(SandboxError, match="nonsense"):
        await send_differing(FILES, all_is_missing)
    assert asked == 2, "it is given what it says it lacks, once"


@pytest.mark.parametrize("answer", [None, "src/a.ts", {"src/a.ts": 1}, ["src/none.ts"], [1], [["src/a.ts"]]])
async def test_an_answer_that_is_none(answer: object) -> None:
    async def send(files: Mapping[str, bytes], there: Mapping[str, str]) -> object:
        return answer

    with pytest.raises(SandboxError, match="nonsense"):
        await send_differing(FILES, send)


def test_a_file_of_another_mode_is_placed_anew_from_what_is_there(elsewhere: _Elsewhere) -> None:
    script = elsewhere.root / "src/a.ts"
    (elsewhere.root / "hard").hardlink_to(script)
    script.chmod(0o777)
    digests = {path: digest(data) for path, data in FILES.items()}
    restored = elsewhere.tree.restore({}, there=digests, modes={"src/a.ts": 0o755})
    assert (restored.missing, restored.written_bytes) == ((), 0)
    assert script.stat().st_mode & 0o7777 == 0o755 and script.stat().st_nlink == 1
    assert elsewhere.holds() == FILES
