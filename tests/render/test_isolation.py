from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from koda_ray.errors import Missing
from koda_ray.render.browser import Browser
from koda_ray.render.isolation import WorkFolder, browser_command, check_isolation, sweep_dead_folders

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
        first = psutil.Process(browser._process.pid)
        tree = {process.pid: process.name() for process in (first, *first.children(recursive=True))}
        assert len(tree) > 4, tree
        seen = {pid: Path(f"/proc/{pid}/environ").read_bytes() for pid in tree}
        assert [tree[pid] for pid, environment in seen.items() if SECRET.encode() in environment] == []
        await target.close()


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
