"""Many commands in a local sandbox, run by a program that is process 1 and reaps nothing, as in a bare container.

What a command leaves then stays. Told as JSON on standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from koda_ray.errors import CommandTimeout
from koda_ray.sandbox.invocation import Invocation
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.template import TemplateProject
from koda_ray.types import new_id
from tests.sandbox.conftest import small_limits, write_packages, write_template


def zombies() -> list[str]:
    """Name the processes of this namespace that have ended and that nobody has waited for."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            name, _, rest = (entry / "stat").read_text().rpartition(") ") if entry.name.isdigit() else ("", "", "")
            if rest.startswith("Z"):
                found.append(name)
    return found


async def main(folder: Path, reads: int, writes: int) -> None:
    """Run more commands than a sandbox may have processes, in each of the ways in which one ends.

    Args:
        folder: For everything.
        reads: A pipe's end.
        writes: Its other end, of the lowest number that there is: one that the first process might take for its own.
    """
    limits = small_limits()
    provider = LocalProvider(
        root=folder / "boxes",
        template=TemplateProject(
            folder=write_template(folder / "template"),
            node_modules=write_packages(folder / "packages" / "node_modules"),
        ),
        limits=limits,
    )
    sandbox = await provider.create(sandbox_id=new_id("sbx"), session_id="ses_test", user_id="usr_test")
    codes: set[int] = set()
    for _ in range(limits.pids + 10):
        codes.add((await sandbox.run(("sh", "-c", "sleep 60 & exit 3"))).exit_code)
    signalled = await sandbox.run(("sh", "-c", "echo said >&2; kill -SEGV $$"))
    with suppress(CommandTimeout):
        await sandbox.run(("sleep", "60"), timeout_s=0.2)
    for _ in range(3):
        await sandbox.start("server", ("sleep", "60"))
        await sandbox.stop("server")
    given = Invocation(argv=("sh", "-c", f"echo heard >&{writes}; sleep 60"), pass_fds=(writes,))
    await sandbox.launch("given", given)
    os.close(writes)
    heard = os.read(reads, 100).decode()
    await sandbox.stop("given")
    left = zombies()
    await sandbox.destroy()
    json.dump(
        {"codes": sorted(codes), "signalled": [signalled.exit_code, signalled.stderr], "zombies": left, "given": heard},
        sys.stdout,
    )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *os.pipe()))
