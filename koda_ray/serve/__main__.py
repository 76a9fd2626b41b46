"""``python -m koda_ray.serve``: a server with the environment's settings, until it is told to stop."""

from __future__ import annotations

import os
import sys

from koda_ray.config import Settings
from koda_ray.errors import KodaError
from koda_ray.serve.ray_auth import choose_ray_auth


def _main() -> int:
    try:
        settings = Settings()
    except KodaError as error:
        sys.stderr.write(f"koda serve: {error.message}\n")
        return 2
    choose_ray_auth(os.environ, address=settings.ray_address)
    # Ray reads its authentication as it is imported
    from koda_ray.serve.app import main

    return main(settings)


if __name__ == "__main__":
    sys.exit(_main())
