"""``.dockerignore`` by Docker's rules, and images that go by content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from koda_ray.errors import InvalidInput
from koda_ray.sandbox.ignored import Ignored
from koda_ray.sandbox.images import source_at

FILES = (
    "Dockerfile", ".env", "README.md", "docs/README.md", "docs/deep/a.md", "node_modules/x/index.js",
    "packages/web/node_modules/y.js", "src/a.ts", "src/a.test.ts", "src/b c.ts", "temp", "temporary/a", "x[1].txt",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    os.mkfifo(tmp_path / "project" / "pipe")
    return tmp_path / "project"


def left(folder: Path, text: str) -> set[str]:
    """Say which files stay out."""
    (folder / ".dockerignore").write_text(text)
    kept = {entry.name for entry in Ignored.of(folder, dockerfile=folder / "Dockerfile").entries(folder)}
    assert {".dockerignore"} <= kept or ".dockerignore" in text
    return set(FILES) - kept


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("", set()),
        ("# node_modules\n\n  \n", set()),
        ("node_modules", {"node_modules/x/index.js"}),
        ("/node_modules/\r\n", {"node_modules/x/index.js"}),
        ("**/node_modules", {"node_modules/x/index.js", "packages/web/node_modules/y.js"}),
        ("*.md", {"README.md"}),
        ("**/*.md", {"README.md", "docs/README.md", "docs/deep/a.md"}),
        ("*/*.md", {"docs/README.md"}),
        ("docs/**", {"docs/README.md", "docs/deep/a.md"}),
        ("temp?", set()),
        ("temp*", {"temp", "temporary/a"}),
        ("docs\n!docs/deep/a.md", {"docs/README.md"}),
        ("!README.md\n*.md", {"README.md"}),
        ("./src/../src/*.test.ts", {"src/a.test.ts"}),
        ("src/b c.ts", {"src/b c.ts"}),
        ("src/[a-b].ts", {"src/a.ts"}),
        ("src/[^b]*.ts", {"src/a.ts", "src/a.test.ts"}),
        (r"x\[1\].txt", {"x[1].txt"}),
        (".env\n.", {".env"}),
        ("*\n!src\n**/*.test.ts\n!.dockerignore", {*FILES} - {"src/a.ts", "src/b c.ts"}),
    ],
)
def test_a_line_names_what_docker_takes_it_for(folder: Path, text: str, out: set[str]) -> None:
    assert left(folder, text) == out


def test_one_of_a_dockerfiles_own_goes_before_the_folders(folder: Path) -> None:
    (folder / ".dockerignore").write_text("src")
    (folder / "Dockerfile.dockerignore").write_text("docs")
    assert Ignored.of(folder, dockerfile=folder / "Dockerfile").patterns == ("docs",)
    assert Ignored.of(folder, dockerfile=folder / "Dockerfile.other").patterns == ("src",)
    for wrong in (b"src/[a\n", b"\xff\xfe"):
        (folder / "Dockerfile.dockerignore").write_bytes(wrong)
        with pytest.raises(InvalidInput, match=r"Dockerfile\.dockerignore (holds a pattern|cannot be read)"):
            source_at(folder)


def test_an_image_changes_with_what_is_in_it_and_with_nothing_else(folder: Path, tmp_path: Path) -> None:
    (folder / ".dockerignore").write_text("docs\n")
    first = source_at(folder)
    assert {entry.name.partition("/")[0] for entry in first.entries()} >= {"src", "Dockerfile"}
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))
    (folder / "docs" / "README.md").write_text("out of it")
    elsewhere = folder.rename(tmp_path / "moved")
    same = source_at(elsewhere)
    assert (same.digest, same.size_bytes) == (first.digest, first.size_bytes)
    seen = {first.digest}
    for change in (
        lambda: (elsewhere / "temp").write_text("pemt"),  # the same length
        lambda: (elsewhere / "temp").chmod(0o755),
        lambda: (elsewhere / "temp").rename(elsewhere / "tamp"),
        lambda: (elsewhere / "link").symlink_to("tamp"),
        lambda: (elsewhere / "empty").mkdir(),
        lambda: (elsewhere / "Dockerfile").write_text("FROM other"),
        lambda: (elsewhere / ".dockerignore").write_text("src\n"),
    ):
        change()
        seen.add(source_at(elsewhere).digest)
    assert len(seen) == 8
    plain = source_at(elsewhere, builds=False)
    names = {entry.name for entry in plain.entries()}
    assert plain.dockerfile is None and "docs/README.md" in names and "src/a.ts" not in names


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_named(folder: Path) -> None:
    (folder / "temp").chmod(0)
    with pytest.raises(InvalidInput, match="temp cannot be read"):
        source_at(folder)
