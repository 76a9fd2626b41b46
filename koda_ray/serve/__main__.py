"""``python -m koda_ray.serve``: a server with the environment's settings, until it is told to stop."""

from __future__ import annotations

import os
import sys

from koda_ray.serve.ray_auth import choose_ray_auth


def _main() -> int:
    choose_ray_auth(os.environ)
    # Ray reads its authentication as it is imported
    from koda_ray.serve.app import main

    return main()


if __name__ == "__main__":
    sys.exit(_main())
