"""The same suites as an ordinary user: no mounts, no control groups, a user namespace in place of a dropped user."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from koda_ray.config import REPO_ROOT
from tests import leaks

pytestmark = [pytest.mark.full, pytest.mark.sandbox]

_NOBODY = 65534
_SUITES_TIMEOUT_S = 1200  # two minutes alone, ten beside as much as a machine can do
_NEEDED = frozenset(path.resolve() for path in (Path(sys.base_prefix), Path(sys.prefix), REPO_ROOT))


@pytest.fixture
def drop(tmp_path: Path) -> list[str]:
    """The command that runs another as an ordinary user."""
    if os.geteuid() != 0:
        pytest.skip("runs as an ordinary user already: the other tests are this test")
    drop = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--inh-caps=-all"]
    if needed := {path: above for path in _NEEDED if (above := _closed_above(path)) is not None}:
        drop = ["unshare", "--mount", "sh", "-ec", _opened(needed, tmp_path), "sh", *drop]
    probe = subprocess.run([*drop, sys.executable, "-c", "import koda_ray.config, pytest"], cwd="/", check=False)
    if probe.returncode != 0:
        pytest.skip(f"needs a Python and a repository that others may read; {sys.executable} is not")
    return drop


def _closed_above(path: Path) -> Path | None:
    """Find the topmost folder above a path that others may not walk through, such as root's home above its Python."""
    return next((above for above in reversed(path.parents) if not above.stat().st_mode & 0o001), None)


def _opened(needed: Mapping[Path, Path], spare: Path) -> str:
    """Say how a mount namespace shows paths whose way is closed, and nothing else of what is closed."""
    held = {path: spare / f"held-{number}" for number, path in enumerate(needed)}
    lines = [line for path, at in held.items() for line in (["mkdir", "-p", at], ["mount", "--rbind", path, at])]
    lines += [["mount", "-t", "tmpfs", "-o", "mode=755", "none", above] for above in sorted(set(needed.values()))]
    lines += [line for path, at in held.items() for line in (["mkdir", "-p", path], ["mount", "--move", at, path])]
    return "\n".join(shlex.join(map(str, line)) for line in lines) + '\nexec "$@"'


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="kn-", dir="/tmp"))
    os.chown(path, _NOBODY, _NOBODY)
    yield path
    shutil.rmtree(path)


@pytest.mark.timeout(_SUITES_TIMEOUT_S + 60)
def test_an_ordinary_user_is_as_safe(drop: list[str], home: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1",
        leaks.MARK: os.environ.get(leaks.MARK, ""),
    }  # fmt: skip
    suites = ["attacks", "test_local_conformance.py::TestLocal", "test_weighing.py", "test_without_groups.py"]
    # pure rules, the same for everybody; and a real Ray, which is not started as somebody else
    left_out = "not cannot_be_written and not are_refused and not beside_ray"
    again = "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
    if subprocess.run([*drop, sys.executable, "-c", again], cwd="/", check=False, capture_output=True).returncode == 0:
        # what outlives its starter is a Python of its own, and so is who takes memory here: this user may begin one
        suites += ["test_local_terminals.py::TestLocalTerminals", "test_taken.py"]
    else:
        left_out += " and not can_be_reached"  # a door is one, too
    done = subprocess.run(
        [*drop, sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
         "-k", left_out,
         *(f"tests/sandbox/{suite}" for suite in suites)],
        cwd=REPO_ROOT, env=environment, capture_output=True, text=True, check=False, timeout=_SUITES_TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout and "failed" not in done.stdout


@pytest.mark.parametrize("mode", [0o700, 0o300])
def test_a_folder_that_nobody_may_look_into_is_named(drop: list[str], home: Path, mode: int) -> None:
    (home / "tree" / "src" / "closed").mkdir(parents=True)
    (home / "tree" / "src" / "closed").chmod(mode)
    for folder in (home / "tree", home / "tree" / "src"):
        folder.chmod(0o755)
    count = (
        "import sys; from pathlib import Path; from koda_ray.errors import QuotaExceeded\n"
        "from koda_ray.sandbox.reading import TreeReader\n"
        "try: print(TreeReader(Path(sys.argv[1])).usage())\n"
        "except QuotaExceeded as error: print(error.message)"
    )
    line = [*drop, sys.executable, "-c", count, str(home / "tree")]
    done = subprocess.run(line, cwd="/", check=True, capture_output=True, text=True)
    assert re.search(r"'src/closed'.* cannot be looked into.* SANDBOX_DISK_MB sets; give it mode 755", done.stdout)
