"""Print the API's description, with no server: what the page's types are made from when it is built.

python -m koda_ray.serve.described > openapi.json
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import cast

from koda_ray.config import Settings
from koda_ray.serve.api import create_app
from koda_ray.serve.auth import Authenticator
from koda_ray.serve.deps import ApiDeps, SessionDirectory
from koda_ray.serve.signing import Signer
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage

__all__ = ["described"]


def described() -> str:
    """Return the description as JSON: that of an application which never runs."""
    with tempfile.TemporaryDirectory(prefix="koda-described-") as folder:
        settings = Settings.model_validate(
            {"DATABASE_PATH": Path(folder) / "koda.db", "STORAGE_PATH": Path(folder) / "storage"}
        )
        store = SqlStore.from_settings(settings)
        app = create_app(
            ApiDeps(
                settings=settings,
                store=store,
                storage=Storage.from_settings(settings),
                directory=cast("SessionDirectory", None),
                auth=Authenticator.from_settings(settings, store),
                signer=Signer.from_settings(settings),
            )
        )
        return json.dumps(app.openapi(), indent=1)


if __name__ == "__main__":
    sys.stdout.write(described())
