"""What every test gets: a world of its own, a check that nothing is left behind, and services that may be missing.

- Settings of whoever runs the tests (keys, paths, proxies, a .env, profiles in files) never reach a test, nor a process
  that a test starts.
- A test that leaves a process, a port, a temporary folder or a running event loop behind fails, with the name of what
  it left; the loop is taken away, so that the tests after it can run theirs.
- A test whose time is over and that cannot be ended either, a fixture of it hanging, ends the run with every stack.
- Hypothesis measures no time: a busy machine is no counterexample. In the quick tier it looks at fewer examples.
- Without ``--full`` only the quick tier runs, and a quick test that takes long fails (`tests.tiers`).
- An interrupt reaches what a test starts, also where the run was started with interrupts ignored.
- ``@pytest.mark.alone`` keeps the tests beside it waiting, where everything runs several tests at a time.
- ``@pytest.mark.needs("ffmpeg", "chromium")`` skips a test where a service is missing, and fails it where
  ``KODA_TEST_REQUIRE`` (names with commas, or ``all``) says that it has to be there. The markers ``browser`` and
  ``sandbox`` imply what they need.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

import koda_ray.logs  # noqa: F401 - it says where logs go, once, and not in the middle of a test
from koda_ray.config import Settings
from tests import groups, leaks, services, tiers, turns
from tests.certificates import one_certificate
from tests.databases import *  # noqa: F403 - fixtures, for whoever asks for one by its name

pytest.register_assert_rewrite("tests.state.conformance")

settings.register_profile(
    "koda", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.register_profile("quick", settings.get_profile("koda"), max_examples=30)
settings.load_profile("koda")

# What the program, the models' SDKs, Ray, S3's client, HTTP clients and terminals read.
_THEIRS = ("KODA_", "ANTHROPIC_", "OPENAI_", "GEMINI_", "GOOGLE_", "AWS_", "RAY_")
_TERMINALS = {"FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
_THEIRS_TOO = {*_TERMINALS, "NODE_OPTIONS", "NODE_ENV", "IMAGEIO_FFMPEG_EXE", "PYTHONDONTWRITEBYTECODE"}
_PROXIES = {f"{kind}_PROXY" for kind in ("HTTP", "HTTPS", "ALL", "NO")}
# Browser, template and page stay where the launcher found them, and what is asked of the tests is no setting.
_KEPT = ("KODA_CHROMIUM_PATH", "KODA_NODE_MODULES_PATH", "KODA_WEB_PATH", "KODA_TEST_")
_FAILED = pytest.StashKey[bool]()
_CLOSING_S = 120.0  # what a test that ran out of time may take to close what it opened
_IMPLIED = {"browser": ("chromium", "bwrap"), "sandbox": ("bwrap", "node")}


class _Lasting:
    """Notes what longer-lived fixtures open; a plugin, since a conftest does not hear of those of the session."""

    def __init__(self) -> None:
        self.spent = tiers.Spent()
        self._is_in_one = False

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        if self._is_in_one:  # whose time has this one's in it
            with leaks.lasting():
                return (yield)
        before, self._is_in_one = tiers.Spent.now(), True
        try:
            with leaks.lasting():
                return (yield)
        finally:
            self.spent += tiers.Spent.now() - before
            self._is_in_one = False


class _Brevity:
    """Fails quick tests that take long; what longer-lived fixtures take to start is not the first test's."""

    def __init__(self, lasting: _Lasting) -> None:
        self._lasting = lasting
        self._before = tiers.Spent()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._before = self._own()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "call" and report.passed and not tiers.is_full(item) and not tiers.may_be_long(item):
            why = tiers.too_long(self._own() - self._before)
            if why is not None:
                report.outcome, report.longrepr = "failed", f"{item.nodeid} {why}"
        return report

    def _own(self) -> tiers.Spent:
        """What was spent so far, but for what longer-lived fixtures took."""
        return tiers.Spent.now() - self._lasting.spent


class _GivesUp:
    """Ends the run where a test ran out of time and does not end."""

    def __init__(self) -> None:
        self._stderr = os.dup(2)  # now: later, what is written there is captured
        self._over: threading.Timer | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> None:
        self._over = threading.Timer(settings.timeout + _CLOSING_S, self._give_up, (item.nodeid,))
        self._over.daemon = True
        self._over.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_cancel_timer(self) -> None:
        self.pytest_enter_pdb()

    def pytest_enter_pdb(self) -> None:
        if self._over is not None:
            self._over.cancel()

    def _give_up(self, name: str) -> None:
        os.write(self._stderr, f"\n{name} ran out of time and cannot be ended: the run ends here\n".encode())
        faulthandler.dump_traceback(self._stderr, all_threads=True)
        os._exit(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run everything, not only the quick tier")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers.select(config, items)
    if leaks.is_one_of_several():
        groups.arrange(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what thousands of collected tests are made of to itself: each collection of garbage went through it."""
    gc.disable()
    try:
        done = yield
    finally:
        gc.enable()
    gc.collect()
    gc.freeze()
    return done


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> groups.Groups | None:
    return groups.Groups(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("full") and config.getoption("durations") is None:
        config.option.durations = 20
    if config.getoption("dist", None) == "loadgroup":
        config.option.loadscopereorder = False  # the order is `groups.arrange`'s
    if config.getoption("numprocesses", None):
        return  # it hands the tests out to other processes, each with a world of its own, and runs none
    if leaks.is_one_of_several():
        config.option.basetemp = None  # below its own folder, not that of who handed them out
    lasting = _Lasting()
    config.pluginmanager.register(lasting)
    if not tiers.is_everything(config):
        settings.load_profile("quick")
        config.pluginmanager.register(_Brevity(lasting))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(_GivesUp())
    theirs = {str(field.validation_alias) for field in Settings.model_fields.values()} | _THEIRS_TOO
    for name in list(os.environ):
        if (name in theirs or name.startswith(_THEIRS) or name.upper() in _PROXIES) and not name.startswith(_KEPT):
            del os.environ[name]
    Settings.model_config["env_file"] = None
    folder = Path(tempfile.mkdtemp(prefix="kt-"))
    nothing = {"KODA_ENV_FILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"}
    os.environ |= dict.fromkeys(nothing, os.devnull)
    os.environ |= {"ANTHROPIC_CONFIG_DIR": str(folder / "nothing")} | one_certificate(folder / "one.pem")
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    folder.chmod(0o711)  # sandboxes and browsers run as another user and walk through it
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    os.environ[leaks.MARK] = folder.name


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = Path(tempfile.gettempdir())
    if folder.name.startswith("kt-"):
        os.environ.pop("TMPDIR", None)
        tempfile.tempdir = None
        shutil.rmtree(folder, ignore_errors=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    wanted = [name for marker in item.iter_markers("needs") for name in marker.args]
    wanted += [name for marker, names in _IMPLIED.items() if item.get_closest_marker(marker) for name in names]
    services.need(*dict.fromkeys(wanted))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_FAILED] = report.failed or item.stash.get(_FAILED, False)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    # the time that it waits is none of the test's; of the quick tier none has the machine to itself
    alone = item.config.getoption("full") and item.get_closest_marker("alone") is not None
    with turns.taken(alone=alone):
        done = yield
    if item.stash.get(_FAILED, False):
        # what it did not close would be told, as a warning, whenever it is collected: in a test that did nothing wrong
        sys.last_type = sys.last_value = sys.last_traceback = None
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        gc.collect()
        sys.unraisablehook = hook
    return done


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    before, logging = leaks.ProcessSnapshot.take(), structlog.get_config()
    yield
    structlog.configure(**logging)  # or what a program in a test has set holds for the tests after it
    left = before.left_behind()
    running = asyncio._get_running_loop()
    if running is not None:
        asyncio._set_running_loop(None)
        left.append(f"{running} runs in this thread")
    if left:
        pytest.fail("left behind:\n  " + "\n  ".join(left), pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_at_the_end() -> Iterator[None]:
    before = leaks.ProcessSnapshot.take(whole=True)
    yield
    left = [*before.left_behind(), *leaks.strays()]  # also what the longer-lived fixtures had
    if left:
        pytest.fail("the tests left behind:\n  " + "\n  ".join(left), pytrace=False)
