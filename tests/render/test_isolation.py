from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from koda_ray.render.isolation import WorkFolder, browser_command, sweep_dead_folders

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
        command = browser_command(Path("/usr/bin/dash"), folder.writable_by_browser("profile"))
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
