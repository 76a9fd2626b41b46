"""Settings: defaults that need nothing, values checked against each other, one folder for all data."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from koda_ray.config import REPO_ROOT, Settings, env_file
from koda_ray.errors import InvalidInput
from koda_ray.secret_names import SECRETS
from koda_ray.serve.runfile import start_of


def test_the_names_of_secrets_are_those_of_all_settings_that_are_secret() -> None:
    secret = {
        str(field.validation_alias) for field in Settings.model_fields.values() if field.annotation == SecretStr | None
    }
    assert set(SECRETS) == secret
    assert not [
        name
        for name, field in Settings.model_fields.items()
        if "Secret" in str(field.annotation) and str(field.validation_alias) not in SECRETS
    ]


def test_with_nothing_set_everything_is_on_this_machine() -> None:
    settings = Settings()
    assert settings.uses_offline_director
    assert (settings.storage_provider, settings.database_provider, settings.sandbox_provider) == (
        "local",
        "sqlite",
        "auto",
    )
    assert settings.database_path == REPO_ROOT / "data" / "koda.db"


def test_one_variable_moves_all_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KODA_DATA_DIR", str(tmp_path))
    settings = Settings()
    assert {settings.database_path.parent, settings.storage_path.parent, settings.sandbox_path.parent} == {tmp_path}
    monkeypatch.setenv("DATABASE_PATH", "/elsewhere/koda.db")
    assert Settings().database_path == Path("/elsewhere/koda.db")


_TOLD = "from koda_ray.config import Settings; s = Settings(); print(s.chromium_path, s.sandbox_local_unsafe, s.host)"


def told_in(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Read the settings in a process of its own that stands in a folder."""
    environment = {name: value for name, value in os.environ.items() if name != "KODA_ENV_FILE"}
    environment |= {"PYTHONPATH": str(REPO_ROOT), "KODA_DATA_DIR": str(folder / "data"), **variables}
    line = [sys.executable, "-P", "-c", _TOLD]
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_folder_that_one_stands_in_sets_nothing(tmp_path: Path) -> None:
    hostile = "KODA_CHROMIUM_PATH=/tmp/theirs\nSANDBOX_LOCAL_UNSAFE=1\nKODA_HOST=0.0.0.0\n"
    (tmp_path / ".env").write_text(hostile)  # a page that was cloned may bring one
    assert "theirs" not in told_in(tmp_path).stdout and env_file({}) == REPO_ROOT / ".env"
    (tmp_path / "mine.env").write_text("KODA_HOST=127.0.0.9\n")
    named = told_in(tmp_path, KODA_ENV_FILE="mine.env")
    assert named.stdout.strip().endswith("False 127.0.0.9"), named.stderr
    assert env_file({"KODA_ENV_FILE": "mine.env"}).is_absolute()


_TRUSTED = """
from koda_ray.config import Settings
from koda_ray.console.server import running_url
from koda_ray.serve.signing import signing_key
s = Settings()
print(running_url(), s.database_path, s.storage_path, s.sandbox_path, signing_key(s)[:6])
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """What is installed from a wheel: the package, and nothing of a checkout beside it."""
    shutil.copytree(
        REPO_ROOT / "koda_ray", tmp_path / "site" / "koda_ray", ignore=shutil.ignore_patterns("__pycache__", "offline")
    )
    return tmp_path / "site"


def cloned(folder: Path, url: str) -> Path:
    """A page's folder as somebody would make it who wants to be taken for the data of whoever stands in it."""
    data = folder / "data"
    data.mkdir(parents=True)
    (data / "signing.key").write_bytes(b"mine, and you sign with it now!!")
    (data / "koda.db").write_bytes(b"")
    body = {"url": url, "pid": os.getpid(), "started": start_of(os.getpid())}
    (data / "server.json").write_text(json.dumps(body))
    (data / "server.json").chmod(0o600)  # as it comes out of an archive, with whoever unpacks it as its owner
    return folder


_PLACED = """
from koda_ray.config import Settings
from koda_ray.serve.runfile import runfile_path
s = Settings()
print(*(s.database_path, s.storage_path, s.sandbox_path, s.chromium_path, s.json_store_path, runfile_path()), sep="\\n")
"""


def test_a_relative_path_counts_from_the_folder_of_all_data_wherever_one_stands(tmp_path: Path) -> None:
    named = {
        "DATABASE_PATH": "own/koda.db", "STORAGE_PATH": "../files", "SANDBOX_PATH": "~/boxes",
        "KODA_CHROMIUM_PATH": "bin/chromium", "DATABASE_URL": "json:rows",
    }  # fmt: skip
    (tmp_path / "mine.env").write_text("".join(f"{name}={value}\n" for name, value in named.items()))
    told: list[list[str]] = []
    for folder in (tmp_path, tmp_path / "cloned"):
        folder.mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if name != "KODA_RUNFILE"}
        environment |= {"PYTHONPATH": str(REPO_ROOT), "KODA_ENV_FILE": str(tmp_path / "mine.env")}
        environment |= {"KODA_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path / "home")}
        line = [sys.executable, "-P", "-c", _PLACED]
        done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.split())
    data = tmp_path / "data"
    assert told[0] == told[1] == [
        f"{data}/own/koda.db", f"{data}/../files", f"{tmp_path}/home/boxes", f"{data}/bin/chromium", f"{data}/rows",
        f"{data}/own/server.json",
    ]  # fmt: skip


def test_what_is_installed_keeps_its_data_with_the_user_and_trusts_no_folder_that_one_stands_in(
    installed: Path, tmp_path: Path
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        folder = cloned(tmp_path / "cloned", f"http://127.0.0.1:{listener.getsockname()[1]}")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("KODA_", "XDG_"))}
        environment |= {"PYTHONPATH": str(installed), "HOME": str(tmp_path / "home")}
        line = [sys.executable, "-P", "-c", _TRUSTED]
        done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert select.select([listener], [], [], 0)[0] == []  # nobody asked it whether it answers
    home = tmp_path / "home" / ".local" / "share" / "koda"
    assert done.stdout.split()[:4] == ["None", *(str(home / name) for name in ("koda.db", "storage", "sandboxes"))]
    assert "6d696e" not in done.stdout  # "min", of their key
    elsewhere = {**environment, "XDG_DATA_HOME": str(tmp_path / "xdg")}
    done = subprocess.run(line, cwd=folder, env=elsewhere, capture_output=True, text=True)
    assert f" {tmp_path}/xdg/koda/koda.db " in done.stdout
    relative = {**environment, "XDG_DATA_HOME": "."}  # such a one says nothing (the specification of XDG)
    done = subprocess.run(line, cwd=folder, env=relative, capture_output=True, text=True)
    assert f" {home}/koda.db " in done.stdout


def test_without_a_home_one_is_told_what_to_set(installed: Path, tmp_path: Path) -> None:
    told = (
        "import os, pwd\npwd.getpwuid = lambda uid: {}[uid]\n"  # as for a container's user that has no name
        "from koda_ray.config import Settings\nfrom koda_ray.errors import InvalidInput\n"
        "try:\n    Settings()\nexcept InvalidInput as error:\n    print(error.message)\n"
    )
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-P", "-c", told], cwd=tmp_path, env=kept, capture_output=True, text=True)
    assert "set KODA_DATA_DIR to a folder" in done.stdout, done.stderr


def test_a_file_of_settings_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KODA_ENV_FILE", str(tmp_path / "absent.env"))
    with pytest.raises(InvalidInput, match=r"KODA_ENV_FILE=.*absent\.env.*leave it out"):
        Settings()


@pytest.mark.parametrize(
    ("variables", "way_out"),
    [
        ({"STORAGE_PROVIDER": "r2"}, "R2_BUCKET"),
        ({"STORAGE_ENCRYPTION": "AES256"}, "encrypted disk"),
        ({"DATABASE_PROVIDER": "postgres"}, "DATABASE_URL"),
        ({"DATABASE_PROVIDER": "turso"}, "TURSO_URL"),
        ({"DATABASE_PROVIDER": "json"}, "DATABASE_URL=json:PATH"),
        ({"DATABASE_URL": "json:"}, "json:PATH"),
        ({"DATABASE_PROVIDER": "postgres", "DATABASE_URL": "json:x"}, "two databases: drop one"),
        ({"KODA_DIRECTOR": "anthropic"}, "ANTHROPIC_API_KEY"),
    ],
)
def test_half_a_setting_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], way_out: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInput, match=way_out):
        Settings()


def test_values_that_are_none_of_a_variables_own_are_named_and_secrets_are_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KODA_PORT", "80000")
    monkeypatch.setenv("KODA_DIRECTOR", "somebody")  # the models' defaults hang on it, and are not to blame
    with pytest.raises(InvalidInput) as raised:
        Settings()
    assert set(raised.value.context) == {"KODA_PORT", "KODA_DIRECTOR"}
    assert "KODA_PORT: " in raised.value.message and "it is '80000'" in raised.value.message
    assert "leave it out" in raised.value.message and "\n" not in raised.value.message
    with pytest.raises(InvalidInput) as raised:
        Settings.model_validate({"ANTHROPIC_API_KEY": 1234567, "KODA_PORT": 1, "KODA_DIRECTOR": "auto"})
    assert "ANTHROPIC_API_KEY: " in raised.value.message and "1234567" not in raised.value.message


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-very-secret")
    settings = Settings()
    assert not settings.uses_offline_director
    assert "very-secret" not in repr(settings) and "very-secret" not in settings.model_dump_json()


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("json:store", f"{REPO_ROOT}/data/store"),
        ("json:/var/koda", "/var/koda"),
        ("json:///var/koda", "/var/koda"),
        (None, None),
    ],
)
def test_a_folder_of_json_is_named_by_its_url(
    monkeypatch: pytest.MonkeyPatch, url: str | None, folder: str | None
) -> None:
    if url is not None:
        monkeypatch.setenv("DATABASE_URL", url)
    assert Settings().json_store_path == (None if folder is None else Path(folder))
