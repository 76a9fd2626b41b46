"""Under gVisor a sandbox has a kernel of its own, which takes the bombs: it ends, and nobody else hears of it."""

from __future__ import annotations

import pytest

from koda_ray.errors import KodaError, QuotaExceeded, SandboxNotFound
from koda_ray.sandbox.reading import MAX_ENTRIES
from tests.sandbox.attacks.doing import perl, sh
from tests.sandbox.conftest import MB, AnySandbox, gvisor_alone
from tests.sandbox.refusals import refusals

pytestmark = [pytest.mark.sandbox, gvisor_alone]


@pytest.mark.parametrize(
    ("bomb", "reason"),
    [
        (("sh", "-c", "bomb() { bomb | bomb & }; bomb; sleep 60"), "ended"),
        (("node", "-e", "const a = []; for (;;) a.push(Buffer.alloc(32 * 1024 * 1024, 1));"), "out_of_memory"),
    ],
    ids=["processes", "memory"],
)
async def test_a_bomb_takes_its_own_kernel_and_nothing_else(
    sandbox: AnySandbox, neighbour: AnySandbox, bomb: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SandboxNotFound) as caught:
        await sandbox.run(bomb, timeout_s=60)
    assert caught.value.context["reason"] == reason
    assert ("memory" in refusals(capsys, sandbox.id)) == (reason == "out_of_memory")


async def test_a_million_files_take_no_more_than_the_sandbox_has(sandbox: AnySandbox, neighbour: AnySandbox) -> None:
    await sandbox.write_files({
        "scripts/many.cjs": b"const f = require('fs'); for (let i = 0; i < 1e6; i++) f.writeFileSync(`src/f${i}`, '');"
    })  # fmt: skip
    try:
        assert (await sandbox.run(("node", "scripts/many.cjs"), timeout_s=120)).exit_code != 0
        assert len(await sandbox.list_files(recursive=True)) <= MAX_ENTRIES
    except KodaError as error:
        assert error.code in ("QUOTA_EXCEEDED", "TIMEOUT", "SANDBOX_NOT_FOUND"), error


async def test_a_thousand_names_of_one_file_are_not_read_a_thousand_times(
    sandbox: AnySandbox, neighbour: AnySandbox
) -> None:
    """Each counts with the whole size, since that is what whoever reads it holds: the disk counts one."""
    named = "head -c 8000000 /dev/zero >public/one && for i in $(seq 1000); do ln public/one public/n$i || exit 1; done"
    assert (await sh(sandbox, named))[0] == 0
    taken = await sandbox.snapshot()
    assert sum(map(len, taken.changed.values())) <= 64 * MB, "the sandbox's disk has 64 MB"
    assert sum(why == "large" for why in taken.skipped.values()) > 900
    with pytest.raises(QuotaExceeded):
        await sandbox.snapshot(most_bytes=MB)


async def test_hard_links_to_what_is_not_the_projects(sandbox: AnySandbox) -> None:
    for target in ("/etc/passwd", "/usr/bin/env", "../../../etc/passwd", "/opt/koda/forward.mjs", "/proc/self/environ"):
        code, text = await sh(sandbox, f"ln {target} src/hard")
        assert code != 0, text
    assert await perl(sandbox, "chdir('/'); print link('etc/passwd', '/home/user/project/src/hard')") in ("", "0")
    code, text = await sh(sandbox, "ln src/App.tsx src/same.tsx && mkdir -p public && cp -al src public/all")
    assert code == 0, text
    assert await perl(sandbox, "print((stat('src/same.tsx'))[3])") == "4"
    assert "src/hard" not in [entry.path for entry in await sandbox.list_files("src")]
