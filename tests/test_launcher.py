"""The launcher, run for real in copies of the repository: what it sets up, what it leaves alone, how it fails.

The copies hold the real launcher and a project of one module, so that a whole set-up takes seconds and no network.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from koda_ray.config import REPO_ROOT
from koda_ray.serve.built import BuiltPage, builds_of

# What the launcher itself calls, and nothing that it could find a browser, a package manager or a Python with.
_TOOLS = (
    "sh",
    "dirname",
    "readlink",
    "cat",
    "cksum",
    "id",
    "sed",
    "cut",
    "tr",
    "grep",
    "head",
    "tail",
    "mkdir",
    "mv",
    "cmp",
)
_TOOLS += ("date", "flock", "rm", "ln", "chmod", "cp", "env", "uname")
_CLI = """import os, sys
print('cli', os.getcwd(), *[os.environ.get(each[1:]) if each[0] == '$' else each for each in sys.argv[1:]])
"""
_TIMEOUT_S = 120


class Copy:
    """A copy of the repository that holds the launcher, and a PATH of chosen programs."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "repository"
        self.tools = folder / "tools"
        package = self.root / "koda_ray"
        package.mkdir(parents=True)
        shutil.copy(REPO_ROOT / "koda", self.root / "koda")
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(_CLI)
        for which in ("", "-dev", "-node", "-uv"):
            (self.root / f"requirements{which}.lock").write_text("# nothing\n")
        self.tools.mkdir()
        self.offer(*_TOOLS)

    def offer(self, *programs: str) -> None:
        """Put programs of this machine on the copy's PATH."""
        for program in programs:
            found = shutil.which(program)
            if found is None:
                pytest.skip(f"needs {program}: not on PATH")
            (self.tools / program).symlink_to(found)

    def write(self, program: str, script: str) -> None:
        """Put a script on the copy's PATH."""
        path = self.tools / program
        path.unlink(missing_ok=True)  # it may be a link to this machine's own program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def complete(self) -> None:
        """Offer everything that the main job needs, so that no step has anything to install."""
        self.offer("ffmpeg", "bwrap", "tmux", "node", "npm", "fc-list", "ldconfig", "chromium-headless-shell")
        (self.tools / "python3").symlink_to(sys.executable)
        self.write("cc", "exit 0")

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.root / "koda"), *arguments],
            env={"PATH": str(self.tools), "HOME": str(self.root), "LC_ALL": "C.UTF-8", **environment},
            cwd=self.root.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        with self.start(*arguments, **environment) as process:
            out, err = process.communicate(timeout=_TIMEOUT_S)
            return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


@pytest.fixture(scope="module")
def set_up_once(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    copy = Copy(tmp_path_factory.mktemp("launcher"))
    copy.complete()
    done = copy.run("create", "a ball", "--out", "here")
    assert done.returncode == 0, done.stderr
    assert "[1/5] System packages already there" in done.stderr
    assert "[2/5] Python packages done" in done.stderr
    assert done.stdout == f"cli {copy.root.parent} create a ball --out here\n"
    return copy


def test_it_is_plain_posix_shell() -> None:
    assert os.access(REPO_ROOT / "koda", os.X_OK)
    assert (REPO_ROOT / "koda").read_text().startswith("#!/bin/sh\n")
    for program, arguments in (("dash", ("-n",)), ("shellcheck", ())):
        if shutil.which(program):
            done = subprocess.run([program, *arguments, "koda"], cwd=REPO_ROOT, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr


def test_without_apt_it_names_every_package_and_changes_nothing_else(copy: Copy) -> None:
    done = copy.run("demo")
    assert done.returncode == 1 and done.stdout == ""
    for package in ("python3-venv", "ffmpeg", "bubblewrap", "tmux", "chromium-headless-shell", "fonts-noto-cjk"):
        assert package in done.stderr
    assert "no apt-get" in done.stderr and "KODA_SKIP_SYSTEM=1" in done.stderr
    assert not (copy.root / ".koda" / "venv").exists()


@pytest.mark.parametrize("absent", ["id", "mkdir", "sed", "dirname", "cksum"])
@pytest.mark.parametrize("command", ["setup", "doctor"])
def test_a_program_that_every_system_has_and_path_has_not_is_named(copy: Copy, absent: str, command: str) -> None:
    (copy.tools / absent).unlink()
    done = copy.run(command)
    assert done.returncode == 1 and done.stdout == ""
    said, path, *_ = done.stderr.splitlines()
    assert said == f"koda: PATH has no {absent}" and str(copy.tools) in path
    assert not (copy.root / ".koda").exists()


def test_the_doctor_answers_without_python_and_changes_nothing(copy: Copy) -> None:
    done = copy.run("doctor")
    assert done.returncode == 1
    assert "not set up here yet" in done.stderr and "ffmpeg" in done.stderr and "python3-venv" in done.stderr
    assert not (copy.root / ".koda").exists()


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_asking_for_help_installs_nothing(copy: Copy, arguments: tuple[str, ...]) -> None:
    done = copy.run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "./koda demo" in done.stdout
    assert not (copy.root / ".koda").exists()


def test_an_old_python_is_named_with_the_versions_that_will_do(copy: Copy) -> None:
    copy.offer("ffmpeg", "bwrap", "tmux", "chromium-headless-shell")
    copy.write("python3", 'case "$*" in *version_info*) exit 1 ;; *) echo 3.9.2 ;; esac')
    done = copy.run("demo")
    assert done.returncode == 1
    assert "Found Python 3.9.2; Python 3.11, 3.12, 3.13 or 3.14" in done.stderr


def test_a_user_who_may_not_install_is_told_what_an_administrator_can_run(copy: Copy) -> None:
    copy.write("id", "echo 1000")
    copy.write("apt-get", "exit 1")
    done = copy.run("demo")
    assert done.returncode == 1
    assert "An administrator can, with:\n  apt-get install --no-install-recommends" in done.stderr


def test_a_failing_apt_shows_the_end_of_its_log_and_the_way_out(copy: Copy) -> None:
    copy.write("id", "echo 0")
    copy.write("apt-cache", "echo '  Candidate: 1.0'")
    copy.write("apt-get", "echo 'E: Unable to fetch some archives'; exit 100")
    done = copy.run("demo")
    assert done.returncode == 1
    assert "    | E: Unable to fetch some archives" in done.stderr
    assert "By hand: apt-get install --no-install-recommends" in done.stderr
    assert str(copy.root / ".koda" / "log" / "system.log") in done.stderr


def test_a_second_run_sets_nothing_up(set_up_once: Copy) -> None:
    done = set_up_once.run("list", "--all")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"cli {set_up_once.root.parent} list --all\n"


def test_a_changed_lock_installs_again_and_nothing_else(set_up_once: Copy) -> None:
    with (set_up_once.root / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    done = set_up_once.run("setup")
    assert done.returncode == 0 and "[2/5] Python packages done" in done.stderr
    assert "[1/5] System packages already there" in done.stderr
    assert set_up_once.run("setup").stderr == "koda: ready\n"


def test_uv_installs_from_the_index_of_pip_and_where_it_cannot_pip_does(set_up_once: Copy) -> None:
    uv = set_up_once.root / ".koda" / "venv" / "bin" / "uv"
    told, index = set_up_once.root / "told", "http://ann:secret@127.0.0.1:9/simple"
    for status in (0, 1):
        uv.write_text(f'#!/bin/sh\necho "$UV_DEFAULT_INDEX" "$@" >>{told}\nexit {status}\n')
        uv.chmod(0o755)
        with (set_up_once.root / "requirements.lock").open("a") as plain:
            plain.write("# changed\n")
        (set_up_once.root / ".koda" / "log" / "python.log").unlink()
        done = set_up_once.run("setup", PIP_INDEX_URL=index)
        assert done.returncode == 0 and "[2/5] Python packages done" in done.stderr, done.stderr
        log = (set_up_once.root / ".koda" / "log" / "python.log").read_text()
        assert ("-m pip install" in log) == bool(status) and "secret" not in log
    asked = told.read_text().splitlines()
    assert len(asked) == 2 and all(each.startswith(f"{index} pip install ") for each in asked)
    assert all("--require-hashes --only-binary :all: -r" in each for each in asked)
    uv.unlink()


@pytest.mark.full
def test_an_interrupted_installation_is_begun_again(set_up_once: Copy) -> None:
    (set_up_once.root / ".koda" / "stamps" / "python.started").touch()
    for stamp in ("python", "ready"):
        (set_up_once.root / ".koda" / "stamps" / stamp).unlink()
    relic = set_up_once.root / ".koda" / "venv" / "half-installed"
    relic.touch()
    done = set_up_once.run("list")
    assert done.returncode == 0, done.stderr
    assert not relic.exists()


def test_a_package_that_was_removed_is_noticed(set_up_once: Copy) -> None:
    (set_up_once.tools / "ffmpeg").unlink()
    done = set_up_once.run("list")
    assert done.returncode == 1 and "Debian package: ffmpeg" in done.stderr
    skipped = set_up_once.run("list", KODA_SKIP_SYSTEM="1")
    assert skipped.returncode == 0 and skipped.stdout.endswith(" list\n")
    assert set_up_once.run("list", KODA_SKIP_SYSTEM="1").stderr == ""
    assert set_up_once.run("list").returncode == 1
    set_up_once.offer("ffmpeg")


def test_what_is_only_wanted_is_named_once_and_stops_nothing(set_up_once: Copy) -> None:
    (set_up_once.tools / "tmux").unlink()
    (set_up_once.root / ".koda" / "stamps" / "ready").unlink()
    done = set_up_once.run("list")
    assert done.returncode == 0 and "without tmux" in done.stderr and "package tmux" in done.stderr
    assert set_up_once.run("list").stderr == ""
    set_up_once.offer("tmux")


def test_the_template_is_installed_from_its_lock_and_again_when_it_was_cut_short(set_up_once: Copy) -> None:
    source = set_up_once.root / "sandbox_image" / "template"
    source.mkdir(parents=True)
    wanted = {"inner": "file:../inner"}
    lock = {
        "lockfileVersion": 3,
        "packages": {
            "": {"devDependencies": wanted},
            "../inner": {"version": "1.0.0", "dev": True},
            "node_modules/inner": {"resolved": "../inner", "link": True},
        },
    }
    (source / "package.json").write_text(json.dumps({"devDependencies": wanted}))
    (source / "package-lock.json").write_text(json.dumps(lock))
    inner = set_up_once.root / ".koda" / "inner"
    inner.mkdir()
    (inner / "package.json").write_text(json.dumps({"name": "inner", "version": "1.0.0"}))

    done = set_up_once.run("setup", NODE_ENV="production")
    modules = set_up_once.root / ".koda" / "template" / "node_modules"
    assert done.returncode == 0, done.stderr
    assert "[4/5] Animation template done" in done.stderr and (modules / "inner").is_symlink()
    assert set_up_once.run("setup").stderr == "koda: ready\n"

    (modules / ".package-lock.json").unlink()  # npm writes it last
    (set_up_once.root / ".koda" / "stamps" / "ready").unlink()
    assert "[4/5] Animation template done" in set_up_once.run("setup").stderr


@pytest.mark.full
def test_the_page_is_built_where_it_can_be_and_nothing_else_waits_for_it(set_up_once: Copy) -> None:
    source, built = set_up_once.root / "web", set_up_once.root / ".koda" / "web" / "index.html"
    for folder in ("src/screens", "public", "node/src", "node/node_modules"):
        (source / folder).mkdir(parents=True)
    (source / "node" / "package.json").write_text("{}")
    (source / "node" / "src" / "node.ts").write_text("a node")
    (source / "public" / "icon.svg").write_text("<svg/>")
    (source / "src" / "main.ts").write_text("one")
    (source / "src" / "screens" / "home.ts").write_text("")
    (source / ".npmrc").write_text("audit=false\n")
    (source / "package.json").write_text(json.dumps({"name": "page", "scripts": {"build": "node build.mjs"}}))
    (source / "package-lock.json").write_text(json.dumps({"lockfileVersion": 3, "packages": {"": {"name": "page"}}}))
    script = source / "build.mjs"
    script.write_text("process.exit(1)")
    done = set_up_once.run("setup")
    assert done.returncode == 0 and "[5/5] The browser's page not built" in done.stderr and not built.exists()
    assert set_up_once.run("list").stdout.startswith("cli ")
    assert "not built" in set_up_once.run("setup").stderr  # whoever sets up wants it, and has it tried again

    script.write_text(
        "import { cpSync, mkdirSync, writeFileSync, readFileSync } from 'node:fs';"
        "const out = process.argv[process.argv.indexOf('--outDir') + 1]; mkdirSync(out);"
        "writeFileSync(`${out}/index.html`, readFileSync('src/main.ts') + ' with ' + readFileSync('node/src/node.ts'));"
    )
    done = set_up_once.run("setup")
    assert "[5/5] The browser's page done" in done.stderr and built.read_text() == "one with a node"
    assert set_up_once.run("setup").stderr == "koda: ready\n"
    (source / "node" / "src" / "node.ts").write_text("another")
    assert (
        "[5/5] The browser's page done" in set_up_once.run("setup").stderr and built.read_text() == "one with another"
    )
    assert not (built.parents[1] / "web-build" / "node" / "node_modules").exists()
    (source / "src" / "main.ts").write_text("two")
    assert "[5/5] The browser's page done" in set_up_once.run("list").stderr
    assert built.read_text() == "two with another"
    shutil.rmtree(source)


@pytest.mark.full
def test_what_was_built_of_the_page_is_kept_for_those_who_have_it_open(set_up_once: Copy) -> None:
    source, built = set_up_once.root / "web", set_up_once.root / ".koda" / "web"
    built.unlink(missing_ok=True)  # what another test built
    shutil.rmtree(built.with_name("web.builds"), ignore_errors=True)
    (source / "src").mkdir(parents=True)
    (source / "node" / "src").mkdir(parents=True)
    (source / "public").mkdir()
    (source / "public" / "icon.svg").write_text("<svg/>")
    (source / "node" / "package.json").write_text("{}")
    (source / "node" / "src" / "node.ts").touch()
    (source / ".npmrc").write_text("audit=false\n")
    (source / "package.json").write_text(json.dumps({"name": "page", "scripts": {"build": "node build.mjs"}}))
    (source / "package-lock.json").write_text(json.dumps({"lockfileVersion": 3, "packages": {"": {"name": "page"}}}))
    (source / "build.mjs").write_text(
        "import { mkdirSync, writeFileSync, readFileSync } from 'node:fs';"
        "const out = process.argv[process.argv.indexOf('--outDir') + 1]; mkdirSync(`${out}/page`, { recursive: true });"
        "const name = readFileSync('src/main.ts', 'utf8').split(' ')[0];"
        "writeFileSync(`${out}/index.html`, name); writeFileSync(`${out}/page/${name}.js`, name);"
    )

    def build(words: str) -> BuiltPage:
        (source / "src" / "main.ts").write_text(words)
        done = set_up_once.run("setup")
        assert "[5/5] The browser's page done" in done.stderr, done.stderr
        return BuiltPage.read(built)

    built.mkdir()  # as a source distribution has it
    (built / "index.html").write_text("zero")
    (built / "page").mkdir()
    (built / "page" / "zero.js").write_text("zero")
    found = build("one")
    assert found.index is not None and found.index.body == b"one"
    assert (set(found.files), set(found.before)) == ({"page/one.js"}, {"page/zero.js"})
    assert built.is_symlink() and not os.readlink(built).startswith("/")  # the folder may be moved
    assert set(build("two").before) == {"page/zero.js", "page/one.js"}
    assert len(builds_of(built)) == 3
    assert set(build("two // of which nothing else is made").before) == {"page/zero.js", "page/one.js"}
    assert len(builds_of(built)) == 3
    for name in ("three", "four", "five", "six"):
        found = build(name)
    assert set(found.before) == {f"page/{name}.js" for name in ("one", "two", "three", "four", "five")}
    now = int(builds_of(built)[-1].name)
    for at, build_before in enumerate(builds_of(built)):  # they came four days after each other
        build_before.rename(build_before.with_name(str(now - 4 * 24 * 3600 * (5 - at))))
    built.unlink()
    built.symlink_to(builds_of(built)[-1])
    assert set(build("seven").before) == {f"page/{name}.js" for name in ("four", "five", "six")}
    shutil.rmtree(source)


def test_modules_never_come_from_the_folder_one_is_in(set_up_once: Copy) -> None:
    stray = set_up_once.root.parent / "koda_ray.py"
    stray.write_text("raise SystemExit('the wrong module')")
    assert set_up_once.run("list").stdout.startswith("cli ")
    stray.unlink()


def test_a_token_of_ones_own_cluster_is_left_to_be_used(set_up_once: Copy) -> None:
    asked = ("list", "$RAY_AUTH_MODE", "$RAY_AUTH_TOKEN")
    theirs = set_up_once.run(*asked, RAY_AUTH_TOKEN="theirs", KODA_RAY_ADDRESS="10.0.0.1:6379")
    assert theirs.stdout.endswith(" list None theirs\n"), "a mode of ours would be taken for theirs by the server"
    chosen = set_up_once.run(*asked, RAY_AUTH_TOKEN="theirs", RAY_AUTH_MODE="token")
    assert chosen.stdout.endswith(" list token theirs\n")


def test_what_python_compiles_is_kept_whatever_says_otherwise(set_up_once: Copy) -> None:
    done = set_up_once.run("list", "$PYTHONDONTWRITEBYTECODE", PYTHONDONTWRITEBYTECODE="1")
    assert done.stdout.endswith(" list None\n")


def test_it_can_be_reached_through_a_link(set_up_once: Copy, tmp_path: Path) -> None:
    (tmp_path / "koda").symlink_to(set_up_once.root / "koda")
    done = subprocess.run(
        [tmp_path / "koda", "list"],
        env={"PATH": str(set_up_once.tools)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=_TIMEOUT_S,
    )
    assert (done.stdout, done.stderr) == (f"cli {tmp_path} list\n", "")


def test_two_at_once_wait_for_each_other(set_up_once: Copy) -> None:
    (set_up_once.root / ".koda" / "stamps" / "ready").unlink()
    with (set_up_once.root / ".koda" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with set_up_once.start("list") as second:
            assert second.stderr is not None
            assert "another set-up is under way" in second.stderr.readline()
            assert second.poll() is None
            fcntl.flock(lock, fcntl.LOCK_UN)
            out, err = second.communicate(timeout=_TIMEOUT_S)
    assert second.returncode == 0, err
    assert out.endswith(" list\n")


def test_a_folder_that_is_not_ours_is_refused_with_its_name(copy: Copy) -> None:
    copy.complete()
    (copy.root / ".koda").write_text("a file in the way")
    done = copy.run("demo")
    assert done.returncode == 1
    assert f"cannot write to {copy.root}/.koda" in done.stderr


def test_setting_up_leaves_no_lock_to_the_cli(set_up_once: Copy) -> None:
    (set_up_once.root / ".koda" / "stamps" / "ready").unlink()
    (set_up_once.root / "koda_ray" / "__main__.py").write_text("print(open('/proc/self/fd/9').name)")
    done = set_up_once.run("list")
    (set_up_once.root / "koda_ray" / "__main__.py").write_text(_CLI)
    assert "No such file or directory: '/proc/self/fd/9'" in done.stderr
