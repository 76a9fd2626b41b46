"""A provider on a small template, one on the real template, and a close look at what each test leaves behind."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from koda_ray.config import Settings
from koda_ray.sandbox.limits import Limits
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.local_sandbox import LocalSandbox
from tests.sandbox.leftovers import Leftovers

MB = 1024 * 1024
_TEMPLATE = {
    "package.json": '{"name": "demo", "private": true, "scripts": {"hello": "echo hello from a script"}}\n',
    "src/App.tsx": "export default function App() {\n  return null;\n}\n",
    "src/scenes/one.tsx": "export const one = 1;\n",
    "public/logo.svg": "<svg/>\n",
}


@pytest.fixture
def template(tmp_path: Path) -> Path:
    root = tmp_path / "template"
    for name, text in _TEMPLATE.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "node_modules").mkdir()
    (root / "node_modules" / "not-copied.js").write_text("")
    return root


@pytest.fixture
def node_modules(tmp_path: Path) -> Path:
    root = tmp_path / "packages" / "node_modules"
    (root / "left-pad").mkdir(parents=True)
    (root / "left-pad" / "index.js").write_text("module.exports = (text) => ` ${text}`;\n")
    return root


def small_limits() -> Limits:
    """Limits that are quick to reach."""
    return Limits(memory_bytes=512 * MB, pids=64, disk_bytes=64 * MB, scratch_bytes=16 * MB)


@pytest.fixture
def limits() -> Limits:
    return small_limits()


@pytest.fixture
def boxes(tmp_path: Path) -> Path:
    return tmp_path / "boxes"


@pytest.fixture
def provider(boxes: Path, template: Path, node_modules: Path, limits: Limits) -> LocalProvider:
    return LocalProvider(root=boxes, template=template, node_modules=node_modules, limits=limits)


@pytest.fixture
async def sandbox(provider: LocalProvider, leftovers: Leftovers) -> AsyncIterator[LocalSandbox]:
    made = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_test", user_id="usr_test")
    yield made
    await made.destroy()


@pytest.fixture
async def studio(boxes: Path, leftovers: Leftovers) -> AsyncIterator[LocalSandbox]:
    """A sandbox of the real template, with its packages."""
    settings = Settings()
    provider = LocalProvider(root=boxes, template=settings.template_path, node_modules=settings.node_modules_path)
    made = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_test", user_id="usr_test")
    yield made
    await made.destroy()


@pytest.fixture
def leftovers(boxes: Path) -> Iterator[Leftovers]:
    """Ids of sandboxes; fails the test that leaves anything of theirs on the machine."""
    descriptors = len(os.listdir("/proc/self/fd"))
    left = Leftovers(boxes)
    yield left
    assert left.find() == []
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1, "file descriptors are left open"
