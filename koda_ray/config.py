"""Settings from the environment, checked against each other when the program starts.

Variable names are the deployment guide's (``STORAGE_PROVIDER``, ``DATABASE_PATH`` and so on); what is ours alone starts
with ``KODA_``. With nothing set, everything runs on this machine: SQLite, local disk, sandboxes in Docker where its
engine has their image and else local ones, and the offline director.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from koda_ray.errors import InvalidInput
from koda_ray.model_names import VENDORS, Fallbacks, Vendor, fallbacks_in, model_name
from koda_ray.origins import origins_in
from koda_ray.prices import Price, Prices
from koda_ray.types import Budget

__all__ = [
    "DEFAULT_MODEL",
    "DEFAULT_MODELS",
    "PACKAGE_REGISTRIES",
    "REPO_ROOT",
    "SANDBOX_IMAGE_FOLDER",
    "SERVER_OWNED",
    "DatabaseSettings",
    "Settings",
    "data_dir",
    "env_file",
]

REPO_ROOT = Path(__file__).resolve().parent.parent
DEFAULT_MODEL = "claude-sonnet-5-5"
DEFAULT_MODELS: dict[Vendor, str] = {
    "anthropic": DEFAULT_MODEL,
    "openai": "gpt-6.2-sol",
    "gemini": "gemini-3.8-flash",
}
"""What a provider is asked for where no model is named."""

SERVER_OWNED = "KODA_SERVER_OWNED"
"""Environment variable: the process id of the one that a server is started for, and that it must not outlive."""
PACKAGE_REGISTRIES = (
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "npm.jsr.io",
    "pypi.org",
    "files.pythonhosted.org",
)

_KEYS: dict[Vendor, str] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY or OPENAI_BASE_URL",
    "gemini": "GEMINI_API_KEY",
}


def data_dir(environment: Mapping[str, str] | None = None) -> Path:
    """Where everything lies that no setting puts elsewhere.

    ``KODA_DATA_DIR``; else ``data`` beside ``./koda`` in a checkout, and of what is installed the user's own folder for
    data. Never the folder that one happens to be in: that may be a page's that was cloned, and what lies here is
    trusted (who serves, the database, the key that signs).

    Raises:
        InvalidInput: Nothing says where, and this user has no home.
    """
    found = os.environ if environment is None else environment
    if named := found.get("KODA_DATA_DIR"):
        return Path(named).absolute()
    if (REPO_ROOT / "koda").is_file() and (REPO_ROOT / "pyproject.toml").is_file():
        return REPO_ROOT / "data"
    import platformdirs  # a checkout has no use for it

    try:
        folder = platformdirs.user_data_path("koda", appauthor=False)
    except RuntimeError:
        folder = None
    if folder is None or not folder.is_absolute():
        raise InvalidInput("this user has no home folder to keep data in: set KODA_DATA_DIR to a folder, or HOME")
    return folder


def _place(named: Path) -> Path:
    """Return where a setting's path leads: one that is relative counts from the folder of all data.

    Raises:
        InvalidInput: It is below the home of a user who has none, or nothing says where all data lies.
    """
    try:
        path = named.expanduser()
    except RuntimeError as error:
        raise InvalidInput(f"{named} leads to no folder: {error}; write a path that begins with /") from error
    return path if path.is_absolute() else data_dir() / path


def _beside(name: str, in_repository: str) -> Path:
    """Return where something lies that is no Python: in what is installed beside this file, else in the repository."""
    installed = Path(__file__).resolve().parent / name
    return installed if installed.is_dir() else REPO_ROOT / in_repository


SANDBOX_IMAGE_FOLDER = _beside("sandbox_image", "sandbox_image")
"""What every sandbox starts from: the template project, and what images are made of."""


def env_file(environment: Mapping[str, str] | None = None) -> Path:
    """Where settings are read that the environment does not have: ``KODA_ENV_FILE``, or ``.env`` beside ``./koda``.

    Never the folder that one happens to be in: that may be a page's that was cloned, and settings name programs.
    """
    named = (os.environ if environment is None else environment).get("KODA_ENV_FILE")
    return Path(named).absolute() if named else REPO_ROOT / ".env"


class DatabaseSettings(BaseSettings):
    """Where a server keeps its database: the one setting that whoever looks for a server needs, read as all are.

    Raises:
        InvalidInput: As `Settings`.
    """

    model_config = SettingsConfigDict(env_file=env_file(), extra="ignore", populate_by_name=True, frozen=True)

    database_path: Path = Field(default_factory=lambda: data_dir() / "koda.db", validation_alias="DATABASE_PATH")

    def __init__(self, **values: Any) -> None:
        named = os.environ.get("KODA_ENV_FILE")
        if named and not Path(named).exists():
            raise InvalidInput(f"KODA_ENV_FILE={named}: there is no such file; correct it, or leave it out")
        try:
            super().__init__(**values)
        except ValidationError as error:
            wrong = _wrong(error, type(self).model_fields.values())
            told = "; ".join(f"{name}: {why}" for name, why in wrong.items())
            raise InvalidInput(f"{told}; correct it, or leave it out for the default", context=wrong) from None

    @field_validator("*")
    @classmethod
    def _placed(cls, value: object) -> object:
        return _place(value) if isinstance(value, Path) else value


class Settings(DatabaseSettings):
    """Every setting of koda_ray. Durations in seconds, sizes in the unit their name ends with.

    Raises:
        InvalidInput: A variable has a value that is none of its own, by name in ``context``, or two contradict each
            other.
    """

    storage_provider: Literal["local", "r2", "s3"] = Field("local", validation_alias="STORAGE_PROVIDER")
    storage_path: Path = Field(default_factory=lambda: data_dir() / "storage", validation_alias="STORAGE_PATH")
    r2_bucket: str | None = Field(None, validation_alias="R2_BUCKET")
    r2_endpoint: str | None = Field(None, validation_alias="R2_ENDPOINT")
    r2_access_key: SecretStr | None = Field(None, validation_alias="R2_ACCESS_KEY")
    r2_secret_key: SecretStr | None = Field(None, validation_alias="R2_SECRET_KEY")
    storage_encryption: Literal["none", "AES256", "aws:kms"] = Field("none", validation_alias="STORAGE_ENCRYPTION")
    storage_kms_key: str | None = Field(None, validation_alias="STORAGE_KMS_KEY")
    storage_redirects: Literal["auto", "always", "never"] = Field("auto", validation_alias="STORAGE_REDIRECTS")

    database_provider: Literal["sqlite", "turso", "postgres", "json"] = Field(
        "sqlite", validation_alias="DATABASE_PROVIDER"
    )
    database_url: SecretStr | None = Field(None, validation_alias="DATABASE_URL")
    turso_url: str | None = Field(None, validation_alias="TURSO_URL")
    turso_token: SecretStr | None = Field(None, validation_alias="TURSO_TOKEN")

    sandbox_provider: Literal["auto", "local", "docker", "e2b", "modal"] = Field(
        "auto", validation_alias="SANDBOX_PROVIDER"
    )
    sandbox_image: str = Field("koda/animation-sandbox:latest", min_length=1, validation_alias="SANDBOX_IMAGE")
    sandbox_runtime: str | None = Field(None, validation_alias="SANDBOX_RUNTIME")
    sandbox_warm: int = Field(1, ge=0, le=64, validation_alias="SANDBOX_WARM")
    docker_host: str | None = Field(None, validation_alias="DOCKER_HOST")
    sandbox_path: Path = Field(default_factory=lambda: data_dir() / "sandboxes", validation_alias="SANDBOX_PATH")
    sandbox_local_unsafe: bool = Field(False, validation_alias="SANDBOX_LOCAL_UNSAFE")
    sandbox_memory_mb: int = Field(2048, ge=256, validation_alias="SANDBOX_MEMORY_MB")
    sandbox_pids: int = Field(256, ge=32, validation_alias="SANDBOX_PIDS")
    sandbox_disk_mb: int = Field(1024, ge=64, validation_alias="SANDBOX_DISK_MB")
    sandbox_egress_hosts: str = Field(",".join(PACKAGE_REGISTRIES), validation_alias="SANDBOX_EGRESS_HOSTS")
    sandbox_egress_denied: str = Field("", validation_alias="SANDBOX_EGRESS_DENIED")
    sandbox_egress_sent_mb: int = Field(64, ge=1, validation_alias="SANDBOX_EGRESS_SENT_MB")
    sandbox_egress_received_mb: int = Field(1024, ge=1, validation_alias="SANDBOX_EGRESS_RECEIVED_MB")
    sandbox_per_user: int = Field(20, ge=1, validation_alias="SANDBOX_PER_USER")
    sandbox_images_per_user: int = Field(50, ge=1, validation_alias="SANDBOX_IMAGES_PER_USER")
    sandbox_lifetime_s: int = Field(1800, ge=60, le=86_400, validation_alias="SANDBOX_LIFETIME_S")
    e2b_api_key: SecretStr | None = Field(None, validation_alias="E2B_API_KEY")
    e2b_template: str = Field("koda", min_length=1, validation_alias="E2B_TEMPLATE")
    e2b_on_timeout: Literal["kill", "pause"] = Field("kill", validation_alias="E2B_ON_TIMEOUT")
    e2b_domain: str | None = Field(None, validation_alias="E2B_DOMAIN")
    e2b_api_url: str | None = Field(None, validation_alias="E2B_API_URL")
    e2b_sandbox_url: str | None = Field(None, validation_alias="E2B_SANDBOX_URL")
    modal_token_id: SecretStr | None = Field(None, validation_alias="MODAL_TOKEN_ID")
    modal_token_secret: SecretStr | None = Field(None, validation_alias="MODAL_TOKEN_SECRET")
    modal_app: str = Field("koda-sandboxes", pattern=r"^[a-zA-Z0-9-_.]{1,64}$", validation_alias="MODAL_APP")
    modal_image: str | None = Field(None, validation_alias="MODAL_IMAGE")
    web_path: Path = Field(default_factory=lambda: _beside("page", ".koda/web"), validation_alias="KODA_WEB_PATH")
    template_path: Path = Field(SANDBOX_IMAGE_FOLDER / "template", validation_alias="KODA_TEMPLATE_PATH")
    node_modules_path: Path = Field(
        REPO_ROOT / ".koda" / "template" / "node_modules", validation_alias="KODA_NODE_MODULES_PATH"
    )

    anthropic_api_key: SecretStr | None = Field(None, validation_alias="ANTHROPIC_API_KEY")
    anthropic_base_url: str | None = Field(None, validation_alias="ANTHROPIC_BASE_URL")
    openai_api_key: SecretStr | None = Field(None, validation_alias="OPENAI_API_KEY")
    openai_base_url: str | None = Field(None, validation_alias="OPENAI_BASE_URL")
    openai_max_tokens: int | None = Field(None, ge=256, validation_alias="KODA_OPENAI_MAX_TOKENS")
    gemini_api_key: SecretStr | None = Field(None, validation_alias="GEMINI_API_KEY")
    gemini_base_url: str | None = Field(None, validation_alias="GEMINI_BASE_URL")
    director: Literal["auto", "offline", "anthropic", "openai", "gemini"] = Field(
        "auto", validation_alias="KODA_DIRECTOR"
    )
    orchestrator_model: str = Field(
        default_factory=lambda data: _default_model(data), validation_alias="KODA_ORCHESTRATOR_MODEL"
    )
    codegen_model: str = Field(
        default_factory=lambda data: data["orchestrator_model"], validation_alias="KODA_CODEGEN_MODEL"
    )
    subagent_model: str = Field(
        default_factory=lambda data: data["orchestrator_model"], validation_alias="KODA_SUBAGENT_MODEL"
    )
    fallback_models: str = Field("", validation_alias="KODA_FALLBACK_MODELS")

    budget_tokens: int | None = Field(None, ge=0, validation_alias="KODA_BUDGET_TOKENS")
    budget_cost_usd: float | None = Field(None, ge=0, validation_alias="KODA_BUDGET_COST_USD")
    budget_sandbox_minutes: float | None = Field(None, ge=0, validation_alias="KODA_BUDGET_SANDBOX_MINUTES")
    budget_render_minutes: float | None = Field(None, ge=0, validation_alias="KODA_BUDGET_RENDER_MINUTES")
    budget_warn_at: float | None = Field(None, gt=0, le=1, validation_alias="KODA_BUDGET_WARN_AT")
    user_budget_tokens: int | None = Field(None, ge=0, validation_alias="KODA_USER_BUDGET_TOKENS")
    user_budget_cost_usd: float | None = Field(None, ge=0, validation_alias="KODA_USER_BUDGET_COST_USD")
    user_budget_sandbox_minutes: float | None = Field(None, ge=0, validation_alias="KODA_USER_BUDGET_SANDBOX_MINUTES")
    user_budget_render_minutes: float | None = Field(None, ge=0, validation_alias="KODA_USER_BUDGET_RENDER_MINUTES")
    model_prices: dict[str, Price] = Field(default_factory=dict[str, Price], validation_alias="KODA_MODEL_PRICES")
    context_tokens: int = Field(120_000, ge=8_000, validation_alias="KODA_CONTEXT_TOKENS")
    hooks: str = Field("", validation_alias="KODA_HOOKS")

    host: str = Field("127.0.0.1", validation_alias="KODA_HOST")
    port: int = Field(8420, ge=0, le=65535, validation_alias="KODA_PORT")
    preview_port: int = Field(8421, ge=0, le=65535, validation_alias="KODA_PREVIEW_PORT")
    preview_origin: str | None = Field(None, pattern=r"^https?://[\w.:\[\]-]+$", validation_alias="KODA_PREVIEW_ORIGIN")
    allowed_origins: str = Field("", validation_alias="KODA_ALLOWED_ORIGINS")
    api_keys: SecretStr | None = Field(None, validation_alias="KODA_API_KEYS")
    operators: str = Field("local", validation_alias="KODA_OPERATORS")
    keys_required: bool = Field(False, validation_alias="KODA_KEYS_REQUIRED")
    signing_key: SecretStr | None = Field(None, validation_alias="KODA_SIGNING_KEY")
    max_body_mb: int = Field(64, ge=1, validation_alias="KODA_MAX_BODY_MB")
    user_assets: int = Field(1000, ge=1, validation_alias="KODA_USER_ASSETS")
    user_asset_mb: int = Field(4096, ge=1, validation_alias="KODA_USER_ASSET_MB")
    user_sessions: int = Field(200, ge=1, validation_alias="KODA_USER_SESSIONS")
    max_sessions_per_user: int = Field(5000, ge=0, validation_alias="KODA_MAX_SESSIONS_PER_USER")
    user_renders: int = Field(2000, ge=1, validation_alias="KODA_USER_RENDERS")
    user_render_s: float = Field(120_000.0, gt=0, validation_alias="KODA_USER_RENDER_S")
    user_stored_mb: int = Field(102_400, ge=1, validation_alias="KODA_USER_STORED_MB")
    user_streams: int = Field(300, ge=1, validation_alias="KODA_USER_STREAMS")
    user_changes_per_min: int = Field(1200, ge=0, validation_alias="KODA_USER_CHANGES_PER_MIN")
    reading_mb: int = Field(1024, ge=64, validation_alias="KODA_READING_MB")
    unpacked_mb: int = Field(2048, ge=64, validation_alias="KODA_UNPACKED_MB")
    unpacked_disk_mb: int = Field(8192, ge=64, validation_alias="KODA_UNPACKED_DISK_MB")

    ray_address: str | None = Field(None, validation_alias="KODA_RAY_ADDRESS")
    chromium_path: Path | None = Field(None, validation_alias="KODA_CHROMIUM_PATH")
    render_workers: int | None = Field(None, ge=1, le=512, validation_alias="KODA_RENDER_WORKERS")
    browsers_max: int | None = Field(None, ge=1, le=100_000, validation_alias="KODA_BROWSERS_MAX")
    render_memory_mb: int | None = Field(None, ge=256, validation_alias="KODA_RENDER_MEMORY_MB")
    node_room_mb: int = Field(512, ge=0, validation_alias="KODA_NODE_ROOM_MB")
    render_graphics: Literal[
        "auto", "software", "gpu", "llvmpipe", "llvmpipe-128", "llvmpipe-512", "lavapipe", "swiftshader"
    ] = Field("auto", validation_alias="KODA_RENDER_GRAPHICS")
    page_ready_timeout_s: float = Field(30.0, gt=0, validation_alias="KODA_PAGE_READY_TIMEOUT_S")

    idle_timeout_s: float = Field(300.0, gt=0, validation_alias="KODA_IDLE_TIMEOUT_S")
    memory_high: float = Field(0.8, gt=0, le=1, validation_alias="KODA_MEMORY_HIGH")
    sandbox_linger_s: float = Field(300.0, gt=0, validation_alias="KODA_SANDBOX_LINGER_S")
    heartbeat_s: float = Field(30.0, gt=0, validation_alias="KODA_HEARTBEAT_S")
    lease_s: float = Field(4.0, gt=0, validation_alias="KODA_LEASE_S")
    janitor_s: float = Field(1.0, gt=0, validation_alias="KODA_JANITOR_S")
    keep_units_days: float = Field(7.0, ge=1, validation_alias="KODA_KEEP_UNITS_DAYS")
    keep_pages_days: float = Field(30.0, ge=1, validation_alias="KODA_KEEP_PAGES_DAYS")
    keep_previews_hours: float = Field(24.0, ge=1, validation_alias="KODA_KEEP_PREVIEWS_HOURS")
    keep_sessions_days: float | None = Field(None, ge=1, validation_alias="KODA_KEEP_SESSIONS_DAYS")
    keep_assets_days: float = Field(7.0, ge=1, validation_alias="KODA_KEEP_ASSETS_DAYS")

    def __init__(self, **values: Any) -> None:  # said once more: a type checker would make one of all fields
        super().__init__(**values)

    @model_validator(mode="after")
    def _cross_check(self) -> Self:
        if self.storage_provider != "local" and not (self.r2_bucket and self.r2_access_key and self.r2_secret_key):
            raise InvalidInput(
                f"STORAGE_PROVIDER={self.storage_provider} needs R2_BUCKET, R2_ACCESS_KEY and R2_SECRET_KEY; "
                "set them, or leave STORAGE_PROVIDER out to store on local disk"
            )
        if self.storage_encryption != "none" and self.storage_provider != "s3":
            raise InvalidInput(
                f"STORAGE_ENCRYPTION={self.storage_encryption} is for a bucket (STORAGE_PROVIDER=s3), and storage is "
                f"{self.storage_provider}: R2 encrypts all it has by itself; keep local storage on an encrypted disk"
            )
        if self.storage_kms_key is not None and self.storage_encryption != "aws:kms":
            raise InvalidInput("STORAGE_KMS_KEY is for STORAGE_ENCRYPTION=aws:kms; set that, or leave the key out")
        if self.database_provider == "postgres" and self.database_url is None:
            raise InvalidInput("DATABASE_PROVIDER=postgres needs DATABASE_URL (postgresql+psycopg://...)")
        if self.json_store_path is None and self.database_provider == "json":
            raise InvalidInput("DATABASE_PROVIDER=json needs DATABASE_URL=json:PATH, the folder to keep everything in")
        if self.json_store_path is not None and self.database_provider in ("postgres", "turso"):
            raise InvalidInput(
                f"DATABASE_PROVIDER={self.database_provider} and DATABASE_URL=json:PATH are two databases: drop one"
            )
        if self.database_provider == "turso" and not self.turso_url:
            raise InvalidInput("DATABASE_PROVIDER=turso needs TURSO_URL (libsql://...)")
        origins_in(self.allowed_origins)
        if self.sandbox_provider == "e2b" and self.e2b_api_key is None:
            raise InvalidInput("SANDBOX_PROVIDER=e2b needs E2B_API_KEY; set it, or use another provider")
        modal = {"MODAL_TOKEN_ID": self.modal_token_id, "MODAL_TOKEN_SECRET": self.modal_token_secret,
                 "MODAL_IMAGE": self.modal_image}  # fmt: skip
        if self.sandbox_provider == "modal" and (lacking := [name for name, value in modal.items() if value is None]):
            raise InvalidInput(f"SANDBOX_PROVIDER=modal needs {', '.join(lacking)}; set them, or use another provider")
        if self.director in VENDORS and not self.has_key(self.director):
            raise InvalidInput(
                f"KODA_DIRECTOR={self.director} needs {_KEYS[self.director]}; or leave it out for the offline director"
            )
        if not self.uses_offline_director:
            for variable, model in self.models:
                vendor = model_name(model).vendor
                if not self.has_key(vendor):
                    raise InvalidInput(f"{variable}={model} needs {_KEYS[vendor]}; set it, or name another model")
                if self.budget_cost_usd is not None or self.user_budget_cost_usd is not None:
                    self.prices.need(model)
        return self

    @property
    def budget(self) -> Budget:
        """What each session may use before its person is asked."""
        return Budget(
            tokens=self.budget_tokens,
            cost_usd=self.budget_cost_usd,
            sandbox_minutes=self.budget_sandbox_minutes,
            render_minutes=self.budget_render_minutes,
            warn_at=self.budget_warn_at,
        )

    @property
    def user_budget(self) -> Budget:
        """What all of a user's work may use in a calendar month (UTC)."""
        return Budget(
            tokens=self.user_budget_tokens,
            cost_usd=self.user_budget_cost_usd,
            sandbox_minutes=self.user_budget_sandbox_minutes,
            render_minutes=self.user_budget_render_minutes,
            warn_at=self.budget_warn_at,
        )

    @property
    def prices(self) -> Prices:
        """What models cost; nothing, where none is asked."""
        return Prices(self.model_prices, all_free=self.uses_offline_director)

    @property
    def redirects_to_bucket(self) -> bool:
        """Whether clients fetch large videos from the bucket itself: unless told, where its address is a public one's.

        A bucket at a plain ``http://`` address is of a network of its own, as a rule, and no page over TLS may load
        from it.
        """
        if self.storage_provider == "local" or self.storage_redirects == "never":
            return False
        is_public = self.r2_endpoint is None or self.r2_endpoint.startswith("https://")
        return is_public or self.storage_redirects == "always"

    def has_key(self, vendor: Vendor) -> bool:
        """Whether a provider can be asked; a server that ``OPENAI_BASE_URL`` names needs no key."""
        match vendor:
            case "anthropic":
                return self.anthropic_api_key is not None
            case "openai":
                return self.openai_api_key is not None or bool(self.openai_base_url)
            case "gemini":
                return self.gemini_api_key is not None

    @property
    def json_store_path(self) -> Path | None:
        """The folder of ``DATABASE_URL=json:PATH``; None where the settings name another kind of database.

        Raises:
            InvalidInput: There is no path after ``json:``.
        """
        url = "" if self.database_url is None else self.database_url.get_secret_value()
        scheme, _, path = url.partition(":")
        if scheme != "json":
            return None
        path = path.removeprefix("//")
        if not path:
            raise InvalidInput("DATABASE_URL=json: names no folder; write json:PATH")
        return _place(Path(path))

    @property
    def uses_offline_director(self) -> bool:
        """Whether the agents run on the fixed-vocabulary director instead of a model."""
        if self.director == "auto":
            return not self.has_key(model_name(self.orchestrator_model).vendor)
        return self.director == "offline"

    @property
    def fallbacks(self) -> Fallbacks:
        """The models that are asked where the one that should answer cannot, in order, by the error's code."""
        return fallbacks_in(self.fallback_models)

    @property
    def other_origins(self) -> tuple[str, ...]:
        """The origins whose pages may use the API with a key, and show previews in a frame; see `origins_in`."""
        return origins_in(self.allowed_origins)

    @property
    def hook_names(self) -> tuple[str, ...]:
        """Where the hooks of sessions' agents are found, in the order in which they are heard."""
        return _listed(self.hooks)

    @property
    def models(self) -> tuple[tuple[str, str], ...]:
        """Every model that may be asked, with the variable that names it."""
        return (
            ("KODA_ORCHESTRATOR_MODEL", self.orchestrator_model),
            ("KODA_CODEGEN_MODEL", self.codegen_model),
            ("KODA_SUBAGENT_MODEL", self.subagent_model),
            *(("KODA_FALLBACK_MODELS", model) for models in self.fallbacks.values() for model in models),
        )


def _wrong(error: ValidationError, fields: Collection[FieldInfo]) -> dict[str, str]:
    """Return what is wrong by the variable's name, with its value where that is no secret."""
    secret = {str(field.validation_alias) for field in fields if "SecretStr" in str(field.annotation)}
    wrong: dict[str, str] = {}
    for each in error.errors(include_url=False):
        if each["type"] == "default_factory_not_called":  # its default hangs on one that is told of anyway
            continue
        name = str(each["loc"][0]) if each["loc"] else "settings"
        wrong.setdefault(name, each["msg"] if name in secret else f"{each['msg']} (it is {each['input']!r})")
    return wrong


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name for each in names.split(",") if (name := each.strip()))


def _default_model(earlier: dict[str, Any]) -> str:
    """Choose the model of a director that was named, as far as the settings before it tell."""
    director = earlier.get("director", "auto")
    if director == "openai" and earlier.get("openai_base_url"):
        raise InvalidInput(
            "OPENAI_BASE_URL says where, but not what to ask for: set KODA_ORCHESTRATOR_MODEL=openai:NAME"
        )
    return DEFAULT_MODELS.get(director, DEFAULT_MODEL)
