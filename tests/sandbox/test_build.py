"""Real builds of the real template: the bundle comes out, and what is wrong is told with file, line and column."""

from __future__ import annotations

import pytest

from koda_ray.errors import QuotaExceeded, SandboxNotFound
from koda_ray.sandbox.base import FileEntry
from koda_ray.sandbox.build import build, export
from tests.sandbox.conftest import AnySandbox
from tests.sandbox.refusals import refusals

pytestmark = [pytest.mark.sandbox]


@pytest.fixture
def project_box(kind: str, request: pytest.FixtureRequest) -> AnySandbox:
    return request.getfixturevalue("docker_project_box" if kind == "docker" else "project_box")


APP = b"export default function App() {\n  return <div>hello</div>;\n}\n"


def using(line: str) -> bytes:
    """The page, with one line in front that it really uses."""
    name = line.replace("{", " ").replace("}", " ").split()[1]
    return f"{line}\nconsole.log({name});\n".encode() + APP


@pytest.mark.parametrize(
    ("files", "expected", "words"),
    [
        ({"src/App.tsx": APP.replace(b"return", b"const x = ;\n  return")}, ("src/App.tsx", 2, 13), "Unexpected token"),
        ({"src/App.tsx": APP.replace(b"hello", b"<b>hello")}, ("src/App.tsx", 2, None), "closing"),
        ({"src/App.tsx": b"// first\n" + using("import { a } from './nowhere';")}, ("src/App.tsx", 2, 19), "./nowhere"),
        ({"src/App.tsx": using("import gsap from 'gsap';")}, ("src/App.tsx", 1, 18), "gsap"),
        (
            {
                "src/App.tsx": b"// first\n" + using("import { x } from './utils/x';"),
                "src/utils/x.ts": b"export const y = 1;\n",
            },
            ("src/App.tsx", 2, 10),
            '"x" is not exported by "src/utils/x.ts"',
        ),
        (
            {"src/App.tsx": using("import d from './d.json';"), "src/d.json": b"{\n  oops\n}\n"},
            ("src/d.json", 2, None),
            "JSON",
        ),
        (
            {"src/App.tsx": b"import './a.css';\n" + APP, "src/a.css": b".a {\n  color: red;\n}}\n  wrong"},
            ("src/a.css", 4, None),
            "Unexpected end of input",
        ),
        ({"vite.config.ts": b"export default {\n  root: \n};\n"}, ("vite.config.ts", 3, 1), "Unexpected"),
        ({"vite.config.ts": b"throw new Error('broken');\n"}, ("vite.config.ts", None, None), "broken"),
    ],
    ids=["syntax", "jsx", "file", "package", "export", "json", "css", "config", "thrown"],
)
@pytest.mark.full
async def test_what_does_not_build_says_where(
    project_box: AnySandbox, files: dict[str, bytes], expected: tuple[str, int, int | None], words: str
) -> None:
    await project_box.write_files(files)
    result = await build(project_box, timeout_s=120)
    assert not result.ok and not result.files
    first = result.problems[0]
    file, line, column = expected
    assert (first.file, first.line) == (file, line), first
    assert column is None or first.column == column, first
    assert words in first.message
    assert "/home/user" not in first.message


@pytest.mark.full
async def test_a_type_error_is_found_when_types_are_checked(project_box: AnySandbox) -> None:
    await project_box.write_files({"src/App.tsx": b"const size: number = 'big';\nconsole.log(size);\n" + APP})
    result = await build(project_box, timeout_s=120, types=True)
    assert not result.ok
    assert [(p.file, p.line, p.column) for p in result.problems] == [("src/App.tsx", 1, 7)]
    assert "TS2322" in result.problems[0].message


@pytest.mark.full
async def test_a_build_that_does_not_end(project_box: AnySandbox) -> None:
    await project_box.write_files({"vite.config.ts": b"while (true);\n"})
    result = await build(project_box, timeout_s=2)
    assert not result.ok and "2 s" in result.problems[0].message


async def test_a_build_without_a_page(project_box: AnySandbox) -> None:
    config = b"export default { build: { rollupOptions: { input: 'src/App.tsx' } } };\n"
    await project_box.write_files({"vite.config.ts": config, "src/App.tsx": APP})
    result = await build(project_box, timeout_s=120)
    assert not result.ok and "index.html" in result.problems[0].message


async def test_a_link_in_the_bundle_is_not_followed_out(
    project_box: AnySandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = b"""
import fs from 'node:fs';
export default { plugins: [{ name: 'evil', closeBundle() {
  fs.symlinkSync('/etc/passwd', 'dist/passwd'); fs.symlinkSync('/proc/self/environ', 'dist/environ');
} }] };
"""
    await project_box.write_files({"vite.config.ts": plugin, "src/App.tsx": APP, "src/main.tsx": b"console.log(1);\n"})
    result = await build(project_box, timeout_s=120)
    assert result.ok, result.problems
    assert "passwd" not in result.files and "environ" not in result.files
    assert refusals(capsys, project_box.id) == {"link"}


async def test_a_sandbox_that_is_gone(project_box: AnySandbox) -> None:
    await project_box.destroy()
    with pytest.raises(SandboxNotFound):
        await build(project_box)


@pytest.mark.parametrize("types", [False, True])
async def test_a_project_without_its_tools_is_told_which(sandbox: AnySandbox, types: bool) -> None:
    result = await build(sandbox, types=types)
    assert not result.ok
    (problem,) = result.problems
    assert (
        problem.message
        == f"the project has no {'typescript' if types else 'vite'}; add it to what the sandbox starts from"
    )


async def test_a_bundle_that_grows_while_it_is_read_has_an_end(sandbox: AnySandbox) -> None:
    """What runs on in the sandbox has holes put into files that were small when they were listed."""
    await sandbox.run(("sh", "-c", "mkdir dist; echo page > dist/index.html; cd dist; touch 1 2 3 4 5 6 7 8"))
    listed = sandbox.list_files

    async def list_then_grow(path: str = ".", *, recursive: bool = False) -> list[FileEntry]:
        found = await listed(path, recursive=recursive)
        grown = await sandbox.run(("sh", "-c", "cd dist && truncate -s 60M 1 2 3 4 5 6 7 8"))
        assert grown.exit_code == 0, grown.stderr
        return found

    sandbox.list_files = list_then_grow  # type: ignore[method-assign]
    with pytest.raises(QuotaExceeded, match=r"grew while it was read; .* more than the 268435456"):
        await export(sandbox)
