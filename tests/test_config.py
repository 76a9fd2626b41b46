"""Settings: defaults that need nothing, values checked against each other, one folder for all data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from koda_ray.config import REPO_ROOT, Settings, env_file
from koda_ray.errors import InvalidInput


def test_with_nothing_set_everything_is_on_this_machine() -> None:
    settings = Settings()
    assert settings.uses_offline_director
    assert (settings.storage_provider, settings.database_provider, settings.sandbox_provider) == (
        "local",
        "sqlite",
        "auto",
    )
    assert settings.database_path == Path("data/koda.db")


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
    [("json:store", "store"), ("json:/var/koda", "/var/koda"), ("json:///var/koda", "/var/koda"), (None, None)],
)
def test_a_folder_of_json_is_named_by_its_url(
    monkeypatch: pytest.MonkeyPatch, url: str | None, folder: str | None
) -> None:
    if url is not None:
        monkeypatch.setenv("DATABASE_URL", url)
    assert Settings().json_store_path == (None if folder is None else Path(folder))
