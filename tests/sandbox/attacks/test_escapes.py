"""Files: what lies outside the project is neither read nor written, by links, names or archives."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
import time
from pathlib import Path

import pytest

from koda_ray.errors import InvalidPath, NotFound, SandboxError
from tests.sandbox.attacks.doing import perl, sh
from tests.sandbox.conftest import MB, AnyProvider, AnySandbox, gvisor_too
from tests.sandbox.leftovers import Leftovers
from tests.sandbox.refusals import refusals, refused_calls

pytestmark = pytest.mark.sandbox


@gvisor_too
async def test_a_symbolic_link_does_not_lead_out_of_the_project(
    sandbox: AnySandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[set[str]] = []
    for target in ("/etc/passwd", "../../../../etc/passwd", "/proc/self/environ", "/proc/self/root/etc/passwd"):
        folder, name = os.path.split(target)
        await sh(sandbox, f"ln -sfn {target} src/link; ln -sfn / src/root; ln -sfn {folder} public/dir")
        for path in ("src/link", "src/root/etc/passwd", f"public/dir/{name}"):
            with pytest.raises(InvalidPath) as caught:
                await sandbox.read_file(path)
            assert caught.value.context["rule"] == "escape"
            assert refusals(capsys, sandbox.id) == {"path"}
        skipped = (await sandbox.snapshot()).skipped
        assert skipped == dict.fromkeys(("src/link", "src/root", "public/dir"), "outside")
        told.append(refusals(capsys, sandbox.id))
    assert told == [{"link"}, set(), set(), set()]  # each is told of once, whatever it holds
    with pytest.raises(InvalidPath):
        await sandbox.list_files("src/root")
    with pytest.raises(InvalidPath):
        await sandbox.write_files({"src/root/tmp/written": b"x"})
    with pytest.raises(InvalidPath):
        await sandbox.remove("src/root/etc/hostname")
    assert refusals(capsys, sandbox.id) == {"path"}
    listed = [entry.path for entry in await sandbox.list_files(recursive=True)]
    assert "src/link" not in listed and "src/root" not in listed


async def test_a_link_inside_the_project_is_followed_before_the_rules(sandbox: AnySandbox) -> None:
    await sh(sandbox, "mkdir notes; ln -s ../notes src/notes; ln -s scenes src/films; ln -s ../node_modules src/nm")
    await sandbox.write_files({"src/films/two.tsx": b"2"})
    assert await sandbox.read_file("src/scenes/two.tsx") == b"2"
    await sandbox.write_files({"src/notes/n.md": b"3"})
    assert await sandbox.read_file("notes/n.md") == b"3"
    with pytest.raises(InvalidPath):  # installed packages are not the project's, whatever they are called
        await sandbox.write_files({"src/nm/left-pad/index.js": b""})
    with pytest.raises(InvalidPath):
        await sandbox.list_files("src/nm")


async def test_a_written_link_is_replaced_not_followed(sandbox: AnySandbox, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    await sh(sandbox, f"ln -s {outside} src/a.ts; ln -s ../package.json src/b.ts")
    before = await sandbox.read_file("package.json")
    await sandbox.write_files({"src/a.ts": b"mine", "src/b.ts": b"mine"})
    assert outside.read_text() == "untouched"
    assert await sandbox.read_file("package.json") == before
    assert await sandbox.read_files(["src/a.ts", "src/b.ts"]) == {"src/a.ts": b"mine", "src/b.ts": b"mine"}


async def test_swapping_a_directory_for_a_link_while_files_are_used(sandbox: AnySandbox, tmp_path: Path) -> None:
    """The race itself: whatever the moment, nothing is read from outside and nothing lands there."""
    await sh(
        sandbox, "mkdir -p src/real && echo mine > src/real/hostname && ln -s /etc src/evil && cp -r src/real src/x"
    )
    await sandbox.start(
        "swap",
        (
            "sh",
            "-c",
            "while :; do mv -T src/x src/y; mv -T src/evil src/x; mv -T src/x src/evil; mv -T src/y src/x; done",
        ),
    )
    seen: set[str] = set()
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        try:
            seen.add((await sandbox.read_file("src/x/hostname")).decode())
            await sandbox.write_files({"src/x/koda-was-here": b"1"})
        except (InvalidPath, NotFound, SandboxError) as error:
            seen.add(type(error).__name__)
    await sandbox.stop("swap")
    assert seen <= {"mine\n", "InvalidPath", "NotFound", "SandboxError"}
    assert "koda-was-here" not in os.listdir("/etc")


async def test_hard_links_do_not_reach_beyond_the_project(
    sandbox: AnySandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = ("/etc/passwd", "/usr/bin/env", "../../../etc/passwd", "/opt/koda/forward.mjs", "/proc/self/environ")
    for target in targets:
        code, text = await sh(sandbox, f"ln {target} src/hard")
        assert code != 0, text
        heard = refused_calls(capsys, sandbox.id)
        assert heard == ({"linkat"} if "proc" not in target else set())
    assert (await sh(sandbox, "ln node_modules/left-pad/index.js src/hard"))[0] != 0
    await sh(sandbox, "cd / && perl -e 'print link(qq(etc/passwd), qq(/home/user/project/src/hard))'")
    assert refused_calls(capsys, sandbox.id) == {"link"}
    if os.uname().machine == "x86_64":
        by_folder = "opendir(my $d, '/etc'); print syscall(265, fileno $d, $old, -100, $new, 0)"
        assert await perl(sandbox, f"my ($old, $new) = ('passwd', 'src/hard'); {by_folder}") == "-1"
        assert refused_calls(capsys, sandbox.id) == {"linkat"}
    # those within it are made, and nobody's business
    code, text = await sh(sandbox, "ln src/App.tsx src/same.tsx && cp -al src public/all && stat -c %h src/same.tsx")
    assert (code, text) == (0, "4\n"), text
    assert refused_calls(capsys, sandbox.id) == set()
    assert "src/hard" not in [entry.path for entry in await sandbox.list_files("src")]


async def test_a_path_does_not_lead_out_of_the_project(sandbox: AnySandbox, capsys: pytest.CaptureFixture[str]) -> None:
    for path in ("../outside.ts", "src/../../outside.ts", "/etc/outside.ts", "/tmp/outside.ts"):
        for asking in (sandbox.write_files({path: b"x"}), sandbox.read_file(path), sandbox.remove(path)):
            with pytest.raises(InvalidPath):
                await asking
            assert refusals(capsys, sandbox.id) == {"path"}
        with pytest.raises(InvalidPath):
            await sandbox.restore({path: b"x"})
        with pytest.raises(InvalidPath):
            await sandbox.list_files(os.path.dirname(path))
        assert refusals(capsys, sandbox.id) == {"path"}


@gvisor_too
async def test_a_tar_with_absolute_paths_writes_nothing_outside(
    sandbox: AnySandbox,
    provider: AnyProvider,
    kind: str,
    leftovers: Leftovers,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the kernel refuses of it nobody hears but gVisor's; the link that it leaves in the project is told of."""
    target = tmp_path / "outside.txt"
    names = ["/etc/cron.d/evil", "/opt/koda/evil", str(target), "../../../../../../usr/evil", "/run/koda/a-evil.sock"]
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
        link = tarfile.TarInfo("src/way")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("src/way/evil"), io.BytesIO())
    await sandbox.write_files({"public/evil.tar": file.getvalue()})
    code, text = await sh(sandbox, "tar -xPf public/evil.tar")
    assert code != 0 and all(name in text for name in names[:2]), text
    assert not target.exists() and not os.path.exists("/etc/evil") and not os.path.exists("/usr/evil")
    assert (await sandbox.snapshot()).skipped == {"src/way": "outside"}
    assert refusals(capsys, sandbox.id) == ({"link", "path"} if kind == "gvisor" else {"link"})
    other = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_b", user_id="usr_b")
    try:
        outside = "/etc/evil /etc/cron.d/evil /opt/koda/evil /usr/evil /run/koda/a-evil.sock"
        _, text = await sh(other, f"for at in /etc/passwd {outside}; do [ -e $at ] && echo $at; done")
        assert text == "/etc/passwd\n"
    finally:
        await other.destroy()


async def test_special_files_do_not_stop_whoever_reads(sandbox: AnySandbox) -> None:
    await sh(sandbox, "mkfifo src/pipe; truncate -s 1T src/huge")
    async with asyncio.timeout(60):
        huge = [entry.path for entry in await sandbox.list_files("src") if entry.size_bytes > 300 * MB]
        for path in ("src/pipe", "src", *huge):
            with pytest.raises(SandboxError) as caught:
                await sandbox.read_file(path)
            assert caught.value.code == "READ_FAILED"
        assert "src/pipe" in (await sandbox.snapshot()).skipped


async def test_the_template_and_the_packages_are_not_the_sandboxes(
    sandbox: AnySandbox, template: Path, node_modules: Path
) -> None:
    await sh(
        sandbox, "echo bad > src/App.tsx; echo bad > public/logo.svg; rm -rf node_modules/left-pad; mv node_modules nm"
    )
    assert "bad" not in (template / "src/App.tsx").read_text() + (template / "public/logo.svg").read_text()
    assert (node_modules / "left-pad" / "index.js").exists()
    assert (await sandbox.run(("node", "-p", "require('left-pad')('x')"))).stdout == " x\n"
