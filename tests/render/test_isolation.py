from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from koda_ray.errors import Missing
from koda_ray.render import browser as browser_module
from koda_ray.render.browser import Browser
from koda_ray.render.isolation import WorkFolder, browser_command, call_filter, check_isolation, sweep_dead_folders
from koda_ray.render.programs import find_browser

DASH = Path("/usr/bin/dash")
LOOK = (
    "stat -c %u /proc/self; echo --; cat /proc/net/dev | tail -n +3 | cut -d: -f1; echo --; "
    "env | cut -d= -f1 | sort; echo --; "
    "ls /home /root /work /var/run /proc/1/root/root 2>/dev/null; echo --; touch here && echo writes; "
    "touch /usr/x 2>/dev/null || echo read-only"
)


@pytest.mark.sandbox
def test_inside_there_is_no_network_no_root_no_environment_and_no_project() -> None:
    folder = WorkFolder("test")
    try:
        command = browser_command(DASH, folder.writable_by_browser("profile", DASH))
        look = [*command, "-c", f"exec >&4; {LOOK}"]  # where a browser's protocol goes out
        done = subprocess.run(look, capture_output=True, text=True, check=True, timeout=60)
        user, devices, variables, files, writing = (part.split() for part in done.stdout.split("--\n"))
        assert user != ["0"]
        assert devices == ["lo"]
        assert set(variables) <= {"HOME", "LANG", "LP_NUM_THREADS", "OLDPWD", "PATH", "PWD", "SHLVL", "TZ", "_"}
        assert files == []
        assert writing == ["writes", "read-only"]
    finally:
        folder.close()


PARTS = ("chromium-headless-shell", "icudtl.dat", "libEGL.so", "libvulkan.so.1", "resources.pak", "locales/en-US.pak")
OTHERS = (".ssh/id_ed25519", "notes.txt", "chrome-profile/Cookies", "locales/.key", "keys.json", "library", "data.bin")


@pytest.mark.sandbox
def test_of_the_folder_in_which_a_browser_lies_its_own_files_are_seen_alone(tmp_path: Path) -> None:
    """One that was unpacked into somebody's home, with another home that a link to it lies in."""
    home, linked = tmp_path / "home", tmp_path / "linked"
    for name in (*PARTS, *OTHERS):
        for folder in (home, linked):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("private")
    shutil.copy(DASH, home / PARTS[0])
    (linked / PARTS[0]).unlink()
    (linked / PARTS[0]).symlink_to(home / PARTS[0])
    for binary, seen in ((home / PARTS[0], 1), (linked / PARTS[0], 2)):
        folder = WorkFolder("test")
        try:
            command = browser_command(binary, folder.writable_by_browser("profile", binary))
            look = [*command, "-c", f"exec >&4; find {home} {linked} -type f"]
            done = subprocess.run(look, capture_output=True, text=True, check=False, timeout=60)
        finally:
            folder.close()
        expected = {str(where / name) for where in (home, linked)[:seen] for name in PARTS}
        assert set(done.stdout.split()) == expected, done.stderr


@pytest.mark.browser
async def test_a_browser_finds_what_lies_beside_it_wherever_that_is(tmp_path: Path) -> None:
    installed = find_browser(None).path.resolve()
    for part in installed.parent.iterdir():
        (tmp_path / part.name).symlink_to(part)
    async with await Browser.launch(chromium_path=tmp_path / installed.name) as browser:
        target = await browser.new_target(64, 64)
        await target.close()


SECRET = "ours-and-nobody-elses"


@pytest.mark.sandbox
def test_nothing_of_our_environment_is_found_in_the_first_process_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    folder = WorkFolder("test")
    try:
        command = browser_command(DASH, folder.writable_by_browser("profile", DASH))
        look = [*command, "-c", "exec >&4; cat /proc/1/environ && echo there"]
        done = subprocess.run(look, capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout.endswith("there\n") and SECRET not in done.stdout
    finally:
        folder.close()


@pytest.mark.browser
async def test_no_process_of_a_browser_has_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs as root can read what each process began with."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    async with await Browser.launch() as browser:
        target = await browser.new_target(64, 64)
        first = psutil.Process(browser.pid)
        tree = {process.pid: process.name() for process in (first, *first.children(recursive=True))}
        assert len(tree) > 4, tree
        seen = {pid: Path(f"/proc/{pid}/environ").read_bytes() for pid in tree}
        assert [tree[pid] for pid, environment in seen.items() if SECRET.encode() in environment] == []
        await target.close()


# of x86-64, each with arguments that the kernel would not refuse for their own sake
CALLS = """
  for (["ptrace", 101, 0, 0, 0, 0], ["keyctl", 250, 0, -3, 0], ["bpf", 321, 0, 0, 0], ["io_uring_setup", 425, 1, 0],
       ["mount", 165, 0, 0, 0, 0, 0], ["userfaultfd", 323, 1], ["perf_event_open", 298, 0, 0, -1, -1, 0],
       ["nf_tables", 41, 16, 3, 12], ["addresses", 41, 16, 3, 0], ["raw", 41, 2, 3, 1], ["vsock", 41, 40, 1, 0],
       ["namespaces", 272, 0x10000000]) {
    my ($name, @call) = @$_; $! = 0;
    my $done = syscall($call[0], map { $_ + 0 } @call[1..$#call]);
    print "$name:", $done < 0 ? $! + 0 : "ok", " ";
  }
"""


@pytest.mark.sandbox
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="calls by their numbers")
@pytest.mark.parametrize("nesting", [True, False])
def test_a_filter_leaves_little_of_the_kernel(nesting: bool) -> None:
    folder = WorkFolder("test")
    try:
        with call_filter(nesting=nesting) as filter_fd:
            assert filter_fd is not None
            command = browser_command(DASH, folder.writable_by_browser("profile", DASH), filter_fd=filter_fd)
            look = [*command, "-c", 'exec perl -e "$1" >&4', "sh", CALLS]
            done = subprocess.run(look, capture_output=True, text=True, check=True, timeout=60, pass_fds=(filter_fd,))
        said = dict(word.split(":") for word in done.stdout.split())
        assert said.pop("namespaces") == ("ok" if nesting else str(errno.EPERM))
        assert said.pop("addresses") == "ok"  # what networks there are
        assert said.pop("nf_tables") == (str(errno.EPROTONOSUPPORT) if nesting else "ok")
        assert said.pop("vsock") == str(errno.EAFNOSUPPORT)
        assert set(said.values()) == {str(errno.EPERM)}, said
    finally:
        folder.close()


@pytest.mark.sandbox
def test_folders_in_memory_have_a_size() -> None:
    folder = WorkFolder("test")
    try:
        command = browser_command(DASH, folder.writable_by_browser("profile", DASH), shm_bytes=32 << 20)
        look = [*command, "-c", "exec >&4; for at in /tmp /dev/shm; do stat -f -c '%b %S' $at; done"]
        done = subprocess.run(look, capture_output=True, text=True, check=True, timeout=60)
        sizes = [int(blocks) * int(each) for blocks, each in (line.split() for line in done.stdout.splitlines())]
        assert sizes == [256 << 20, 32 << 20]
    finally:
        folder.close()


@pytest.mark.browser
@pytest.mark.parametrize("nests", [True, False])
async def test_every_process_of_a_browser_is_filtered_and_one_wall_is_said_aloud(
    nests: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(browser_module, "nested_sandbox_works", lambda _: nests)
    browser_module._warn_of_one_wall.cache_clear()
    async with await Browser.launch() as browser:
        target = await browser.new_target(64, 64)
        await target.session.send("Runtime.evaluate", {"expression": "1"})
        tree = psutil.Process(browser.pid).children(recursive=True)
        inside = [process for process in tree if process.name() != "bwrap"]
        assert len(inside) > 2
        unfiltered = [
            process.cmdline()[:3]
            for process in inside
            if "Seccomp:\t2" not in Path(f"/proc/{process.pid}/status").read_text()
        ]
        assert unfiltered == []
        assert any("--no-sandbox" in process.cmdline() for process in inside) != nests
        await target.close()
    assert ("without its own sandbox" in capsys.readouterr().out) != nests


@pytest.mark.sandbox
def test_a_browser_in_a_folder_that_only_its_owner_may_enter_starts_too(tmp_path: Path) -> None:
    # where root's home is private and the launcher put the browser into it
    private = tmp_path / "private"
    bin_folder = private / "bin"
    bin_folder.mkdir(parents=True)
    binary = Path(shutil.copy(DASH, bin_folder / "chrome-headless-shell"))
    private.chmod(0o700)
    folder = WorkFolder("test")
    try:
        check_isolation(binary)
        command = browser_command(binary, folder.writable_by_browser("profile", binary))
        look = "exec >&4; touch here && grep -E '^(Uid|CapEff)' /proc/self/status"
        done = subprocess.run([*command, "-c", look], capture_output=True, text=True, check=True, timeout=60)
        user, capabilities = (line.split() for line in done.stdout.splitlines())
        assert user[1] != "0" and int(capabilities[1], 16) == 0
    finally:
        folder.close()


@pytest.mark.sandbox
def test_a_browser_that_nothing_isolated_may_read_is_named_with_the_way_out(tmp_path: Path) -> None:
    binary = tmp_path / "chrome-headless-shell"
    with pytest.raises(Missing, match=f"{binary} lies where .* KODA_CHROMIUM_PATH"):
        check_isolation(binary)


def test_folders_of_dead_owners_are_swept_and_of_the_living_kept() -> None:
    mine = WorkFolder("mine")
    dead = mine.path.with_name(mine.path.name.replace(f"-{os.getpid()}-", "-999999999-"))
    recycled = mine.path.with_name("-".join([*mine.path.name.split("-")[:2], "12345", "unit", "x"]))
    elsewhere = mine.path.with_name("otherhost-1-1-unit-x")
    for folder in (dead, recycled, elsewhere):
        folder.mkdir()
    assert sweep_dead_folders() == 2
    assert mine.path.is_dir()
    assert elsewhere.is_dir()
    elsewhere.rmdir()
    mine.close()


@pytest.mark.sandbox
def test_half_a_bubblewrap_is_ended_with_the_folder_of_whoever_started_it() -> None:
    mine = WorkFolder("mine")
    dead = mine.path.with_name(mine.path.name.replace(f"-{os.getpid()}-", "-999999999-"))
    dead.mkdir()
    waits, told = os.pipe(), os.pipe()
    line = ["bwrap", "--die-with-parent", "--unshare-user", "--unshare-pid", "--ro-bind", "/usr", "/usr"]
    line += ["--bind", str(dead), "/work", "--info-fd", str(told[1]), "--userns-block-fd", str(waits[0]), "true"]
    with subprocess.Popen(line, pass_fds=(waits[0], told[1])) as outer:
        about = b""
        while not about.endswith(b"}\n"):
            about += os.read(told[0], 4096)
        inner = psutil.Process(json.loads(about)["child-pid"])
        outer.kill()  # its inner half waits for it to say that the user namespace is made
    for end in (*waits, *told):
        os.close(end)
    with pytest.raises(psutil.TimeoutExpired):
        inner.wait(0.5)
    assert sweep_dead_folders() == 1
    inner.wait(10)
    mine.close()
