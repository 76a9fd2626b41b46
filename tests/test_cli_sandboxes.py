"""``koda image``, ``koda sandbox`` and ``koda process`` as a person meets them, at a real terminal."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from websockets.sync.client import connect

from koda_ray.console.exits import Exit
from koda_ray.sandbox.record import Record
from tests.sandbox.conftest import write_packages, write_template
from tests.sandbox.leftovers import Leftovers
from tests.shell import KODA, KodaTerminal, Shell, ShellRun

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("tmux")]


class Workplace(Shell):
    """A folder where ``koda`` keeps everything, without a server."""

    boxes = "boxes"

    @contextmanager
    def keeping_boxes_in(self, folder: Path) -> Iterator[None]:
        """Have another SANDBOX_PATH for the block."""
        self.boxes = folder.name
        yield
        self.boxes = "boxes"

    def environment(self) -> dict[str, str]:
        own = {
            "SANDBOX_PATH": str(self.folder / self.boxes), "SANDBOX_PROVIDER": "local",
            "KODA_TEMPLATE_PATH": str(self.folder / "template"),
            "KODA_NODE_MODULES_PATH": str(self.folder / "node_modules"),
        }  # fmt: skip
        return {**super().environment(), **own}

    def koda(self, *words: str) -> ShellRun:
        return self._run(words, "", self.environment())

    def koda_alone(self, *words: str) -> ShellRun:
        """In a process of its own, for what writes bytes."""
        environment = self.environment()
        ran = subprocess.run(
            [*KODA, *words], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        return ShellRun(ran.returncode, ran.stdout, ran.stderr)

    def bytes_of(self, *words: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        """In a process of its own: its status, stdout and stderr."""
        command = [*KODA, *words]
        ran = subprocess.run(
            command, cwd=self.folder, env=self.environment(), input=stdin, capture_output=True, timeout=60, check=False
        )
        return ran.returncode, ran.stdout, ran.stderr

    def done(self, *words: str) -> str:
        ran = self.koda(*words)
        assert (ran.status, ran.err) == (0, ""), ran
        return ran.out.rstrip("\n")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    write_template(tmp_path / "template")
    write_packages(tmp_path / "node_modules")
    project = tmp_path / "notes"
    project.mkdir()
    (project / "start.sh").write_text("#!/bin/sh\necho started\nsleep 1000\n")
    (project / "start.sh").chmod(0o755)
    place = Workplace(tmp_path, "")
    yield place
    left = Leftovers(tmp_path / "boxes")
    for line in place.done("sandbox", "list", "--all").splitlines():
        left.note(line.split("\t")[0])
        place.done("sandbox", "terminate", line.split("\t")[0])
    assert not list((tmp_path / "boxes").glob("*/sbx_*"))
    deadline = time.monotonic() + 60
    while (running := left.processes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running == []


def test_what_auto_came_to_is_said_in_one_line(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = f"unix://{place.folder}/nobody.sock"
    environment = {**place.environment(), "SANDBOX_PROVIDER": "auto", "DOCKER_HOST": nobody}
    monkeypatch.setattr(place, "environment", lambda: environment)
    made = place.koda("sandbox", "create")
    assert made.status == 0 and made.out.startswith("sbx_")
    why = f"no Docker engine answers at {nobody}"
    assert made.err == f"sandbox provider: local, because {why} (SANDBOX_PROVIDER=auto)\n"
    assert place.koda("sandbox", "list").err == ""  # where rows say which, nothing has to be chosen


@pytest.mark.full
def test_from_a_folder_to_a_process_and_back_to_nothing(place: Workplace) -> None:
    image = place.done("image", "create", "notes")
    assert place.done("image", "create", "notes") == image
    assert place.done("image", "list").split("\t")[:4] == [image, "notes", "local", "ready"]
    box = place.done("sandbox", "create", "notes", "--lifetime", "90m")
    assert place.done("sandbox", "list").split("\t")[:5] == [box, "notes", "local", "running", "no"]
    assert place.done("sandbox", "list").split("\t")[6].startswith(("1:29:", "1:30:00"))
    assert place.done("sandbox", "extend", box, "2h").startswith(("it ends in 1:59:", "it ends in 2:00:00"))
    for wrong, words in (("soon", "no length of time"), ("2d", "cannot be told to live"), ("-1s", "")):
        refused = place.koda("sandbox", "extend", box, wrong)
        assert refused.status != 0 and words in refused.err, refused
    assert "runs" in place.done("process", "launch", box, "main", "./start.sh")
    row = place.done("process", "list").split("\t")
    assert row[:4] == [box, "main", "running", "./start.sh"] and row[4].endswith(" ago") and row[5] == ""
    deadline = time.monotonic() + 60
    while (said := place.koda_alone("process", "output", box, "main")).out != "started\n":
        assert time.monotonic() < deadline, said
    lost = place.koda("process", "launch", box, "lost", "nosuchprogram --flag")
    at_once = lost.status == Exit.FAILED and "lost ended with code 127 already" in lost.err
    assert at_once or "lost runs" in lost.out  # on a busy machine it ends a moment later
    deadline = time.monotonic() + 60
    while "nosuchprogram" not in (said := place.koda_alone("process", "output", box, "lost")).out:
        assert time.monotonic() < deadline, said
    place.done("process", "kill", box, "lost")
    again = place.koda("process", "launch", box, "main", "true")
    assert again.status == Exit.REFUSED and "kill it first" in again.err
    assert place.done("process", "kill", box, "main") == "main"
    assert place.done("process", "list", "--all") == ""
    followed = place.koda_alone("process", "launch", "--follow", box, "short", "--", "sh", "-c", "echo one; exit 3")
    assert (followed.status, followed.out) == (3, "one\n") and "ended with code 3" in followed.err
    assert place.done("process", "list", "--all").split("\t")[1:6:2] == ["short", "sh -c 'echo one; exit 3'", "3"]
    listed = json.loads(place.done("process", "list", box, "--all", "--json"))["processes"]
    assert [(one["name"], one["state"], one["exitCode"]) for one in listed] == [("short", "ended", 3)]
    lost = place.done("sandbox", "create", "notes")
    (found,) = (place.folder / "boxes").glob(f"dep_*/{lost}")
    Record.forget(found)  # as an owner does who removes its folder
    rows = [line.split("\t") for line in place.done("sandbox", "list", "--all").splitlines()]
    assert [row[3] for row in rows] == ["running", "gone: it is not at its provider (local) any more"]
    (listed,) = json.loads(place.done("sandbox", "list", "--all", "--json"))["sandboxes"][1:]
    assert (listed["state"], listed["ended"]) == ("gone", "it is not at its provider (local) any more")
    assert place.done("sandbox", "terminate", box) == box
    assert place.done("sandbox", "list") == ""
    assert place.done("image", "remove", "notes") == image
    assert place.done("image", "list") == ""
    assert place.done("sandbox", "list", "--all").split("\t")[1] == f"{image} (removed)"


@pytest.mark.full
def test_files_go_in_and_come_out_as_they_are(place: Workplace) -> None:
    place.done("image", "create", "notes")
    box = place.done("sandbox", "create", "notes")
    data = bytes(range(256))
    (place.folder / "here.bin").write_bytes(data)
    assert place.done("sandbox", "write", box, "main.py", "here.bin") == ""
    assert place.bytes_of("sandbox", "write", box, "a b/ü.txt", stdin=data[::-1]) == (0, b"", b"")
    assert place.bytes_of("sandbox", "write", box, "empty", "-") == (0, b"", b"")
    assert place.bytes_of("sandbox", "read", box, "main.py") == (0, data, b"")
    assert place.bytes_of("sandbox", "read", box, "a b/ü.txt") == (0, data[::-1], b"")
    rows = [line.split("\t") for line in place.done("sandbox", "files", box).splitlines()]
    assert rows[:3] == [["a b", "directory", ""], ["empty", "file", "0 B"], ["main.py", "file", "256 B"]]
    listed = json.loads(place.done("sandbox", "files", box, "a b", "--json"))["files"]
    assert listed == [{"path": "a b/ü.txt", "type": "file", "sizeBytes": 256}]
    assert place.done("sandbox", "rm", box, "main.py", "a b", "empty", "none") == ""
    assert place.done("sandbox", "files", box).split("\t")[0] == "start.sh"
    for words, status, said in (
        (("read", box, "main.py"), Exit.NOT_FOUND, "no file 'main.py'"),
        (("files", box, "a b"), Exit.NOT_FOUND, "no directory 'a b'"),
        (("write", box, "../x", "here.bin"), Exit.USAGE, "it contains '..'"),
        (("write", box, "x", "nothing"), Exit.USAGE, "does not exist"),
        (("rm", box, "."), Exit.USAGE, "names the project itself"),
        (("read", "sbx_no", "main.py"), Exit.NOT_FOUND, "koda sandbox list"),
    ):
        refused = place.koda("sandbox", *words)
        assert refused.status == status and said in refused.err and "Traceback" not in refused.err, refused


@pytest.mark.full
def test_a_command_ends_as_it_does_inside(place: Workplace) -> None:
    place.done("image", "create", "notes")
    box = place.done("sandbox", "create", "notes")
    ran = place.bytes_of("sandbox", "run", box, "mkdir 'a b'; echo grüße; echo no >&2; exit 3")
    assert ran == (3, "grüße\n".encode(), b"no\n")
    assert place.bytes_of("sandbox", "run", box, "kill -TERM $$") == (128 + signal.SIGTERM, b"", b"")
    ran = place.bytes_of("sandbox", "run", "--cwd", "a b", box, "--", "printf", "%s|", "x  y", "$HOME")
    assert ran == (0, b"x  y|$HOME|", b"")
    status, out, err = place.bytes_of("sandbox", "run", box, "head -c 1000000 /dev/zero")
    assert status == 0 and 0 < len(out) < 500_000 and b"the middle of it is left out" in err
    for words, status, said in (
        ((box, "echo begun; sleep 600", "--timeout", "0.5s"), Exit.TIMED_OUT, "more time"),
        ((box, "true", "--timeout", "soon"), Exit.USAGE, "no length of time"),
        ((box, "true", "--timeout", "2h"), Exit.NOT_RUN, "launch a process"),
        ((box, "true", "--cwd", "none"), Exit.NOT_RUN, "no directory 'none'"),
        ((box, "sudo true"), Exit.NOT_RUN, "not run in a sandbox"),
        (("sbx_no", "true"), Exit.NOT_RUN, "koda sandbox list"),
    ):
        refused = place.koda("sandbox", "run", *words)
        assert refused.status == status and said in refused.err and "Traceback" not in refused.err, refused


@pytest.mark.needs("bwrap")
@pytest.mark.full
def test_a_host_that_a_command_is_refused_is_told(place: Workplace) -> None:
    (place.folder / "notes" / "ask.sh").write_text("curl -s http://denied.test/")  # no command's words name the host
    place.done("image", "create", "notes")
    box = place.done("sandbox", "create", "notes", "--network")
    ran = place.koda_alone("sandbox", "run", box, "sh ask.sh")
    assert "sandbox refused" in ran.err and "HOST_NOT_ALLOWED" in ran.err and "denied.test" in ran.err, ran


@pytest.mark.full
def test_a_person_sees_the_page_that_a_process_serves(place: Workplace) -> None:
    (place.folder / "notes" / "serve.js").write_text(
        "require('http').createServer((q, s) => s.end(`page ${q.url}`)).listen(3000, 'localhost')\n"
    )
    place.done("image", "create", "notes")
    box = place.done("sandbox", "create", "notes")
    refused = place.koda("sandbox", "url", box, "3000")
    assert refused.status == Exit.NOT_FOUND and "launch one that does" in refused.err
    place.done("process", "launch", box, "site", "node serve.js; sleep 1000")
    seen = shown(place, "sandbox", "url", box, "3000")
    (url,) = re.findall(r"http://127\.0\.0\.1:\d+/p/\S+", seen.seen.replace("\n", "").replace("\r", ""))
    with urllib.request.urlopen(f"{url}a?b=c", timeout=60) as answer:
        assert answer.read() == b"page /a?b=c"
    seen.interrupt()
    assert seen.end() == Exit.INTERRUPTED
    with pytest.raises(OSError):
        urllib.request.urlopen(url, timeout=5)


_DESKTOP = """
const http = require('http'), { createHash } = require('crypto');
const server = http.createServer((asked, answer) => answer.end(`page ${asked.url}`));
server.on('upgrade', (asked, socket) => {
  const key = asked.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = createHash('sha1').update(key).digest('base64');
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n');
  socket.write(`Sec-WebSocket-Accept: ${accept}\\r\\n\\r\\n`);
  socket.write(Buffer.concat([Buffer.from([0x82, 12]), Buffer.from('RFB 003.008\\n')]));
});
server.listen(6080, 'localhost');
"""


@pytest.mark.full
def test_a_person_sees_the_desktop_that_is_streamed(place: Workplace) -> None:
    (place.folder / "notes" / "stream.js").write_text(_DESKTOP)
    place.done("image", "create", "notes")
    box = place.done("sandbox", "create", "notes")
    place.done("process", "launch", box, "other", "sleep 1000")
    refused = place.koda("sandbox", "desktop", box)
    assert refused.status == Exit.FAILED and "no desktop is streamed on port 6080" in refused.err, refused
    place.done("process", "kill", box, "other")
    place.done("process", "launch", box, "desktop", "node stream.js; sleep 1000")
    seen = shown(place, "sandbox", "desktop", box)
    (url,) = re.findall(r"http://127\.0\.0\.1:\d+/p/\S+", seen.seen.replace("\n", "").replace("\r", ""))
    parts = urlsplit(url)
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert answer.read().decode() == f"page /vnc.html?{parts.query}"
    # noVNC dials where its page's query says
    (path,) = parse_qs(parts.query)["path"]
    with connect(f"ws://{parts.netloc}/{path}", open_timeout=60, origin=None) as stream:
        assert stream.recv(timeout=60) == b"RFB 003.008\n"
    seen.interrupt()
    assert seen.end() == Exit.INTERRUPTED


def shown(place: Workplace, *words: str) -> KodaTerminal:
    """Show what a process serves that has been launched a moment ago."""
    deadline = time.monotonic() + 60
    while True:
        seen = KodaTerminal(place, *words)
        try:
            seen.expect("  (Ctrl-C ends it)")
            return seen
        except AssertionError:
            assert time.monotonic() < deadline


@pytest.mark.full
def test_a_person_sees_which_files_change(place: Workplace) -> None:
    place.done("image", "create", "notes")
    box = place.done("sandbox", "create", "notes")
    seen = KodaTerminal(place, "sandbox", "watch", box)
    seen.expect("nothing is missed from here on")
    place.done("process", "launch", box, "writer", "mkdir -p src && echo 1 > src/a.ts && rm start.sh")
    seen.expect("added")
    seen.expect("src/a.ts")
    seen.expect("removed")
    seen.expect("start.sh")
    seen.interrupt()
    assert seen.end() == Exit.INTERRUPTED
    refused = place.koda("sandbox", "watch", box, "none")
    assert refused.status == Exit.NOT_FOUND and "no directory 'none'" in refused.err


@pytest.mark.full
def test_a_person_goes_in_leaves_and_comes_back(place: Workplace) -> None:
    place.done("image", "create", "notes")
    box = place.done("sandbox", "create", "notes")
    first = KodaTerminal(place, "sandbox", "attach", box)
    first.expect("leave it running")
    first.type("mark=is-$((6 * 7)); echo $mark; stty size; pwd\r")
    first.expect("is-42")
    first.expect("39 110")
    first.expect("/home/user/project")
    first.type("sh -c 'echo up-$((6 + 1)); exec sleep 1000'\r")
    first.expect("up-7")  # before it is there, the shell would take the interrupt for itself
    first.type("\x03")  # an interrupt is the process's, not ours
    first.expect("^C")
    first.expect("$ ")
    first.type("echo not-ended-$((1 + 1))\r")
    first.expect("not-ended-2")
    first.type("\x02d")
    first.expect(f"shell runs on; come back: koda sandbox attach {box} shell")
    assert first.end() == 0
    assert place.done("process", "list").split("\t")[1:3] == ["shell", "running"]
    second = KodaTerminal(place, "sandbox", "connect", box)
    second.expect("leave it running")
    second.type("clear; echo still-$mark\r")
    second.expect("still-is-42")
    second.type("exit 5\r")
    second.expect("shell ended with code 5")
    assert second.end() == 0
    ended = place.koda("process", "attach", box, "shell")  # without a terminal
    assert ended.status == Exit.USAGE and "needs a terminal" in ended.err
    third = KodaTerminal(place, "process", "attach", box, "shell")
    third.expect("has ended with code 5")
    assert third.end() == Exit.REFUSED


@pytest.mark.full
def test_a_killed_terminal_and_an_interrupted_follower_leave_the_process_running(place: Workplace) -> None:
    place.done("image", "create", "notes")
    box = place.done("sandbox", "create", "notes")
    place.done("process", "launch", box, "main", "./start.sh")
    attached = KodaTerminal(place, "process", "attach", box, "main")
    attached.expect("started")
    attached.kill()
    assert attached.end() == -signal.SIGKILL
    following = subprocess.Popen(
        [*KODA, "process", "follow", box, "main"], cwd=place.folder, env=place.environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert following.stdout is not None
    assert following.stdout.readline() == "started\n"
    following.send_signal(signal.SIGINT)
    _, said = following.communicate(timeout=30)
    assert following.returncode == Exit.INTERRUPTED
    assert f"main runs on; end it: koda process kill {box} main" in said
    assert place.done("process", "list").split("\t")[1:3] == ["main", "running"]


@pytest.mark.full
def test_an_empty_list_says_what_to_do_next_at_a_terminal_and_nothing_to_a_program(place: Workplace) -> None:
    for words, example in (
        (("image", "list"), "koda image create ./my-project"),
        (("sandbox", "list"), "koda sandbox create my-project"),
        (("process", "list"), "koda process launch SANDBOX server -- npm start"),
    ):
        assert place.done(*words) == ""
        terminal = KodaTerminal(place, *words)
        terminal.expect(example)
        assert terminal.end() == 0


def test_what_is_elsewhere_is_listed_with_its_place_and_can_be_forgotten(place: Workplace) -> None:
    box = place.done("sandbox", "create")
    here, there = place.folder / "boxes", place.folder / "moved"
    with place.keeping_boxes_in(there):
        row = place.done("sandbox", "list").split("\t")
        assert row[0] == box and row[3].startswith("in ") and f":{here}/dep_" in row[3]
        refused = place.koda("sandbox", "terminate", box)
        assert refused.status == Exit.REFUSED and f"koda sandbox terminate --forget {box}" in refused.err
        (listed,) = json.loads(place.done("sandbox", "list", "--json"))["sandboxes"]
        assert (listed["state"], listed["host"]) == ("elsewhere", row[3].removeprefix("in "))
    assert place.done("sandbox", "list").split("\t")[3] == "running"
    place.done("sandbox", "terminate", box)
    with place.keeping_boxes_in(there):
        gone = place.done("sandbox", "create")
    assert place.done("sandbox", "terminate", "--forget", gone) == gone
    assert place.done("sandbox", "list") == ""
    with place.keeping_boxes_in(there):
        place.done("sandbox", "terminate", gone)  # it is ended already; what is left of it goes too


def test_what_is_not_there_is_said_with_the_way_out(place: Workplace) -> None:
    for words, status, said in (
        (("image", "create", "nothing"), Exit.USAGE, "neither a folder nor a Dockerfile"),
        (("sandbox", "create", "nothing"), Exit.NOT_FOUND, "koda image create FOLDER"),
        (("sandbox", "terminate", "sbx_no"), Exit.NOT_FOUND, "koda sandbox list"),
        (("process", "launch", "sbx_no", "x", "true"), Exit.NOT_FOUND, "koda sandbox list"),
        (("image", "create", "notes", "--provider", "podman"), Exit.USAGE, "local, docker, e2b"),
    ):
        ran = place.koda(*words)
        assert ran.status == status and said in ran.err and "Traceback" not in ran.err, ran
