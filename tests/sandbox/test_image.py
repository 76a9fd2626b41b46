"""The image of Docker sandboxes: what is in it, what is written down of it, what is said when it cannot be built."""

from __future__ import annotations

import asyncio
import io
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import psutil
import pytest
from PIL import Image
from typer.testing import CliRunner

from koda_ray.cli import app
from koda_ray.config import Settings
from koda_ray.errors import Missing, SandboxError, TemplateNotFound
from koda_ray.render.browser import CHROMIUM_FLAGS
from koda_ray.render.clock import page_clock, unscripted_clock, worker_clock
from koda_ray.sandbox import image
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_sandbox import DockerSandbox
from koda_ray.sandbox.engine import Engine
from koda_ray.sandbox.image_context import agent_files
from koda_ray.sandbox.screenshot import PageClock, screenshot
from koda_ray.types import now
from tests.sandbox.conftest import Base, write_packages, write_template
from tests.sandbox.leftovers import DockerLeftovers

docker = pytest.mark.needs("docker")


@pytest.fixture
def engine(docker_address: str) -> Iterator[Engine]:
    made = Engine(docker_address)
    yield made
    asyncio.run(made.close())


def test_the_first_process_needs_only_the_modules_that_go_with_it(tmp_path: Path) -> None:
    for name, data in agent_files().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import koda_ray.sandbox.first_process; "
        "print(*sorted(name for name in sys.modules if name.startswith('koda_ray')))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = {name.removesuffix("/__init__.py").removesuffix(".py") for name in agent_files()}
    assert set(done.stdout.split()) == {name.replace("/", ".") for name in names - {"__main__"}}


@docker
@pytest.mark.full
async def test_what_went_in_is_written_down(docker_box: DockerSandbox) -> None:
    listed = (await docker_box.run(("cat", "/opt/koda/debian-packages.txt"))).stdout
    packages = {name.partition(":")[0]: version for name, version in map(str.split, listed.splitlines())}
    assert {"nodejs", "python3", "tini", "libc6"} <= set(packages) and all(packages.values())
    node = (await docker_box.run(("node", "--version"))).stdout.strip().removeprefix("v")
    assert packages["nodejs"].startswith(node) and tuple(map(int, node.split("."))) >= (20, 19)


@docker
async def test_nothing_in_it_raises_rights_or_belongs_to_the_project(docker_box: DockerSandbox) -> None:
    found = await docker_box.run(("find", "/", "-xdev", "-type", "f", "-perm", "/6000"))
    assert found.stdout == ""
    writable = await docker_box.run(("find", "/opt", "/usr", "/etc", "-xdev", "!", "-type", "l", "-writable"))
    assert writable.stdout == ""
    assert (await docker_box.run(("sh", "-c", "ls /opt/koda/template"))).stdout.split() == [
        "package.json", "public", "src"
    ]  # fmt: skip


@pytest.mark.full
@pytest.mark.timeout(1800)  # with its base and its build
@pytest.mark.needs("docker", "debootstrap", "npm")
async def test_the_image_as_it_is_shipped_has_all_that_a_project_may_want(
    boxes: Path, docker_address: str, docker_leftovers: DockerLeftovers
) -> None:
    """Chromium takes a picture of the page; bun, tmux, FFmpeg and fonts are there."""
    tag = await asyncio.to_thread(_whole_image, docker_address)
    provider = DockerProvider(root=boxes, image=tag, address=docker_address)
    box = await provider.create(sandbox_id=docker_leftovers.new_id(), session_id="ses_a", user_id="usr_a")
    try:
        for line, said in (
            ("bun -e 'console.log(6 * 7, typeof Bun)'", "42 object"),
            ("tmux -V", "tmux 3"),
            ("ffmpeg -hide_banner -encoders", "libx264"),
            ("fc-match 'sans:lang=ja'", "CJK"),
            ("fc-match emoji", "NotoColorEmoji"),
            ("cat /opt/koda/debian-packages.txt", "chromium-headless-shell\t"),
        ):
            assert said in (await box.run(("sh", "-c", line))).stdout, line
        clock = PageClock(
            page=page_clock(1, "{}"), unscripted=unscripted_clock(1), worker=worker_clock(1), flags=CHROMIUM_FLAGS
        )
        made = await screenshot(box, 1.5, clock=clock, width_px=640, height_px=360, timeout_s=200)
        shown = Image.open(io.BytesIO(made.png)).convert("RGB")
        assert len(shown.getcolors(maxcolors=1 << 20) or ()) > 1000 and made.duration_s == 5.0
    finally:
        await box.destroy()
        await provider.close()


def _whole_image(address: str) -> str:
    from tests import dockerd

    engine, tag = Engine(address), "koda-test/whole:1"
    try:
        dockerd.give_whole_base(engine)
        with image.ImageContext.of(Settings()) as context:
            image.build_image(engine, context, base=dockerd.WHOLE_BASE_IMAGE, tag=tag)
    finally:
        asyncio.run(engine.close())
    return tag


@docker
def test_the_engine_knows_which_version_it_is_of(engine: Engine, docker_image: str) -> None:
    found = engine.probe(docker_image)
    assert found is not None and found.labels == {image.AGENT_LABEL: image.agent_digest()}
    assert 100e6 < found.size_bytes < 500e6
    assert engine.probe("koda-test/none:1") is None


def write_nearly_nothing(target: Path) -> None:
    """Write a root file system of one empty file."""
    with tarfile.open(target, "w") as archive:
        archive.addfile(tarfile.TarInfo("hello"), io.BytesIO(b""))


@docker
def test_a_build_that_fails_says_why_and_leaves_no_image(engine: Engine, tmp_path: Path) -> None:
    template, packages = write_template(tmp_path / "t"), write_packages(tmp_path / "p")
    empty = tmp_path / "empty.tar"
    write_nearly_nothing(empty)
    image.import_base(engine, empty, name="koda-test/empty:1")
    with pytest.raises(SandboxError, match="could not be built") as caught:
        context = image.ImageContext(template=template, node_modules=packages)
        image.build_image(engine, context, base="koda-test/empty:1", tag="koda-test/bad:1")
    assert "/bin/sh" in caught.value.message
    assert engine.probe("koda-test/bad:1") is None
    with pytest.raises(SandboxError):
        image.import_base(engine, tmp_path / "t" / "package.json", name="koda-test/nothing:1")


@docker
@pytest.mark.full
def test_a_build_takes_the_place_of_the_one_before(
    engine: Engine, docker_base: Base, docker_image: str, tmp_path: Path
) -> None:
    template, packages = write_template(tmp_path / "t"), write_packages(tmp_path / "p")
    context = image.ImageContext(template=template, node_modules=packages, packages=docker_base.packages)
    build = partial(image.build_image, engine, context, base=docker_base.name, tag="koda-test/again:1")
    first = build()
    assert build().id == first.id, "nothing has changed"
    (template / "new.txt").write_text("new")
    second = build()
    same = engine.probe(docker_image)
    assert same is not None and same.id == first.id, "of the same parts, and still there under its own name"
    assert second.id != first.id
    assert build(clean=True).id != second.id and engine.probe(second.id) is None


@docker
def test_a_base_is_made_anew_when_what_it_is_made_of_changes(
    engine: Engine, docker_address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Path] = []

    def instead(target: Path, **_: object) -> None:  # debootstrap takes minutes
        made.append(target)
        write_nearly_nothing(target)

    monkeypatch.setattr(image, "_recipe", lambda: "one way")
    monkeypatch.setattr(image, "make_base", instead)
    first = image.own_base(engine, ("tmux",))
    assert image.own_base(engine, ("tmux",)) == first and len(made) == 1
    assert image.own_base(engine, ("tmux",), clean=True) == first and len(made) == 2
    assert image.own_base(engine, ("tmux", "nodejs")) != first and len(made) == 3
    assert image.own_base(engine, ("tmux",), mirror="file:///srv/debian") != first
    monkeypatch.setattr(image, "_recipe", lambda: "another way")
    assert image.own_base(engine, ("tmux",)) != first
    assert "is old" not in capsys.readouterr().out
    later = now() + timedelta(days=31)
    monkeypatch.setattr(image, "now", lambda: later)
    assert image.own_base(engine, ("tmux",)) and len(made) == 5
    assert "koda image build --clean" in capsys.readouterr().out


def test_how_a_base_is_made_is_known_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    before = image._recipe()
    monkeypatch.setattr(image, "_EMPTIED", ("var/log",))
    assert image._recipe() != before


def test_a_base_that_cannot_be_made_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for limit_s in (0.3, 3.3, 30.3):  # how soon it has begun is the machine's business
        monkeypatch.setattr(image, "_BASE_TIMEOUT_S", limit_s)
        with pytest.raises(SandboxError) as caught:
            image._run(["sh", "-c", f"sleep 600 & echo $! >{tmp_path}/pid; echo begun; wait"])
        if "begun" in caught.value.message:
            break
    ended = rf"sh was ended.* longer than {limit_s} s.*--mirror.*--base.*last lines: begun"
    assert re.search(ended, caught.value.message, re.DOTALL)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 60
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:  # what it started, too
        assert time.monotonic() < deadline, "what the program had started outlived it"
        time.sleep(0.01)
    with pytest.raises(Missing, match=r"no-such-program cannot be run.*install"):
        image._run(["no-such-program"])
    with pytest.raises(SandboxError, match=r"ended with code 3.*--base: no room"):
        image._run(["sh", "-c", "echo no room >&2; exit 3"])


@docker
def test_a_base_for_which_there_is_no_room_says_so(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(target: Path, **_: object) -> None:
        target.parent.joinpath("root").touch()
        with open("/dev/full", "w") as file:
            file.write("x" * 1_000_000)

    monkeypatch.setattr(image, "make_base", full)
    monkeypatch.setattr(image, "_recipe", lambda: "a way of its own")
    with pytest.raises(SandboxError, match=r"No space left on device.*TMPDIR"):
        image.own_base(engine, ("tmux",))


def test_what_vanishes_while_it_is_packed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template, packages = write_template(tmp_path / "template"), write_packages(tmp_path / "packages")
    listed = Path.iterdir

    def changing(path: Path) -> Iterator[Path]:
        found = list(listed(path))
        (template / "package.json").unlink(missing_ok=True)
        return iter(found)

    context = image.ImageContext(template=template, node_modules=packages, packages=image.SLIM_PACKAGES)
    monkeypatch.setattr(Path, "iterdir", changing)
    with pytest.raises(SandboxError, match=r"could not be packed.*package\.json.*try again"), context.archive():
        pass


def test_a_template_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TemplateNotFound, match=r"package\.json"):
        context = image.ImageContext(template=tmp_path, node_modules=tmp_path)
        image.build_image(Engine(), context, base="x", tag="y")


@docker
@pytest.mark.full
def test_the_command_builds_what_settings_name(
    docker_address: str, docker_base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_address)
    monkeypatch.setenv("SANDBOX_IMAGE", "koda-test/settings:1")
    monkeypatch.setenv("KODA_TEMPLATE_PATH", str(write_template(tmp_path / "t")))
    monkeypatch.setenv("KODA_NODE_MODULES_PATH", str(write_packages(tmp_path / "p")))
    line = ["image", "build", "--slim", "--base", docker_base.name]
    made = CliRunner().invoke(app, line, catch_exceptions=False)
    assert made.exit_code == 0 and made.stdout.startswith("koda-test/settings:1: ")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(SandboxError, match="no Docker engine answers"):
        CliRunner().invoke(app, line, catch_exceptions=False)


@docker
@pytest.mark.full
@pytest.mark.needs("debootstrap")
def test_a_base_is_a_whole_small_debian() -> None:
    """Made by ``make_base`` where it was not there yet."""
    from tests.dockerd import archive

    with tarfile.open(archive()) as held:
        names = set(held.getnames())
        status = held.extractfile("./var/lib/dpkg/status")
        assert status is not None
        installed = {line[9:].strip().decode() for line in status if line.startswith(b"Package: ")}
    assert {"./usr/bin/node", "./usr/bin/python3", "./usr/bin/tini"} <= names
    assert set(image.SLIM_PACKAGES) <= installed
    assert set(image.SLIM_PACKAGES) < set(image.base_packages())
    assert not any(name.startswith("./dev/") for name in names)
    assert not any(name.endswith(".deb") for name in names)
