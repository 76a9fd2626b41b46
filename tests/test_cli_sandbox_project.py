"""``koda sandbox snapshot|restore|build|screenshot|preview`` as a person meets them, on the real template."""

from __future__ import annotations

import re
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from koda_ray.console.exits import Exit
from tests.shell import KodaTerminal
from tests.test_cli_sandboxes import Workplace

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("tmux", "node")]


class TemplateWorkplace(Workplace):
    """A folder whose sandboxes start as the animation template."""

    def environment(self) -> dict[str, str]:
        small = ("KODA_TEMPLATE_PATH", "KODA_NODE_MODULES_PATH")
        return {name: text for name, text in super().environment().items() if name not in small}

    def inside(self, box: str, command: str) -> str:
        """Run a command in a sandbox; returns what it wrote."""
        _, out, _ = self.bytes_of("sandbox", "run", box, command)
        return out.decode()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[TemplateWorkplace]:
    place = TemplateWorkplace(tmp_path, "")
    yield place
    for line in place.done("sandbox", "list", "--all").splitlines():
        place.done("sandbox", "terminate", line.split("\t")[0])
    assert not list((tmp_path / "boxes").glob("*/sbx_*"))


@pytest.mark.full
def test_all_files_go_out_and_come_back(place: TemplateWorkplace) -> None:
    box = place.done("sandbox", "create")
    place.inside(box, "mkdir none; ln -s src link; printf x > 'src/ü x'")
    ran = place.koda("sandbox", "snapshot", box, "my.zip")
    assert (ran.status, ran.err) == (0, "left out: link (link)\n") and ran.out.startswith("my.zip: "), ran
    with zipfile.ZipFile(place.folder / "my.zip") as opened:
        assert {"none/", "src/ü x", "src/App.tsx"} <= set(opened.namelist())
    kept = (place.folder / "my.zip").read_bytes()
    place.inside(box, "echo more > more.txt")
    refused = place.koda("sandbox", "snapshot", box, "my.zip")
    assert refused.status == Exit.USAGE and "my.zip is there already" in refused.err and "--force" in refused.err
    assert (place.folder / "my.zip").read_bytes() == kept
    place.koda("sandbox", "snapshot", "--force", box, "my.zip")
    with zipfile.ZipFile(place.folder / "my.zip") as opened:
        assert "more.txt" in opened.namelist()
    place.inside(box, "rm -r src/* none; echo mine > mine.txt")
    assert place.done("sandbox", "restore", box, "my.zip").endswith("files are as in my.zip")
    assert place.inside(box, "ls -d none link src/App.tsx 'src/ü x' mine.txt") == "link\nnone\nsrc/App.tsx\nsrc/ü x\n"
    (place.folder / "bad.zip").write_bytes(b"no zip")
    for words, status, said in (
        (("restore", box, "bad.zip"), Exit.USAGE, "not a zip"),
        (("restore", box, "nothing.zip"), Exit.USAGE, "does not exist"),
        (("restore", "sbx_no", "my.zip"), Exit.NOT_FOUND, "koda sandbox list"),
        (("snapshot", "sbx_no", "other.zip"), Exit.NOT_FOUND, "koda sandbox list"),
        (("snapshot", box, "none/other.zip"), Exit.USAGE, "name another file"),
    ):
        refused = place.koda("sandbox", *words)
        assert refused.status == status and said in refused.err and "Traceback" not in refused.err, refused
    assert sorted(path.name for path in place.folder.glob("*.zip*")) == ["bad.zip", "my.zip"]


@pytest.mark.full
def test_a_build_comes_out_or_says_where_it_fails(place: TemplateWorkplace) -> None:
    box = place.done("sandbox", "create")
    # a page that takes no time to build: the demo's does at each provider (project_conformance)
    place.inside(box, "echo \"import App from './App'; document.title = String(App);\" >src/main.tsx")
    place.inside(box, "echo 'export default 1;' >src/App.tsx")
    assert re.fullmatch(
        r"built in \d+\.\d s: \d+ files, \d.*\nbundle\.zip", place.done("sandbox", "build", box, "bundle.zip")
    )
    with zipfile.ZipFile(place.folder / "bundle.zip") as opened:
        assert "index.html" in opened.namelist()
    (place.folder / "App.tsx").write_text("export default 1;\nconst x = ;\n")
    place.done("sandbox", "write", box, "src/App.tsx", "App.tsx")
    failed = place.koda("sandbox", "build", box, "other.zip")
    assert failed.status == Exit.FAILED and failed.err.startswith("src/App.tsx:2:11: Unexpected"), failed
    assert not (place.folder / "other.zip").exists()


@pytest.mark.browser
@pytest.mark.full
def test_a_picture_is_written(place: TemplateWorkplace) -> None:
    box = place.done("sandbox", "create")
    said = place.done("sandbox", "screenshot", box, "a.png", "--at", "1.5", "--size", "640x360")
    assert re.fullmatch(r"a\.png: 640x360 at 1\.5 s of \d+ s", said)
    with Image.open(place.folder / "a.png") as picture:
        assert picture.size == (640, 360)
    for words, said in ((("--size", "big"), "1920x1080"), (("--at", "-1"), "seconds from the start")):
        refused = place.koda("sandbox", "screenshot", box, "b.png", *words)
        assert refused.status == Exit.USAGE and said in refused.err, refused
    assert not (place.folder / "b.png").exists()


@pytest.mark.full
def test_the_page_is_shown_until_it_is_left_and_its_server_runs_on(place: TemplateWorkplace) -> None:
    box = place.done("sandbox", "create")
    seen = KodaTerminal(place, "sandbox", "preview", box)
    seen.expect("  (Ctrl-C ends it)")
    (url,) = re.findall(r"http://127\.0\.0\.1:\d+/p/\S+", seen.seen.replace("\n", "").replace("\r", ""))
    with urllib.request.urlopen(url, timeout=60) as answer:
        page = answer.read().decode()
    assert "src/main.tsx" in page and "__koda_base__" not in page
    seen.interrupt()
    assert seen.end() == Exit.INTERRUPTED
    with pytest.raises(OSError):
        urllib.request.urlopen(url, timeout=5)
    assert place.done("process", "list", box).split("\t")[1:3] == ["preview", "running"]
