"""``python -m koda_ray``: the CLI, which is also what the launcher hands over to."""

from koda_ray.cli import main

if __name__ == "__main__":
    main()
