"""What the tools print, as recorded from them, brought to one form."""

from __future__ import annotations

import pytest

from koda_ray.sandbox.problems import export_position, import_position, parse_build, parse_types

_STACK = "\n    at failureErrorWithLog (/home/user/project/node_modules/esbuild/lib/main.js:1752:15)\n"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            "\x1b[31merror during build:\x1b[0m\nBuild failed with 2 errors:\n\n"
            "\x1b[31m[builtin:vite-transform] \x1b[0mExpected corresponding JSX closing tag for 'b'.\n"
            "   \x1b[38;5;246m\u256d\x1b[0m\x1b[38;5;246m\u2500\x1b[0m\x1b[38;5;246m[\x1b[0m src/App.tsx:1:50 "
            "\x1b[38;5;246m]\x1b[0m\n   \u2502\n 1 \u2502 export default function App() { return <div><b></div>; }\n"
            "\u2500\u2500\u2500\u256f\n\n"
            "[builtin:vite-transform] Unexpected token\n   \u256d\u2500[ src/App.tsx:1:56 ]\n   \u2502\n"
            "\u2500\u2500\u2500\u256f\n"
            "\n    at aggregate (file:///home/user/project/node_modules/rolldown/dist/shared/error.mjs:50:18) {\n"
            "  errors: [Getter/Setter]\n}\n",
            [
                ("src/App.tsx", 1, 50, "Expected corresponding JSX closing tag for 'b'."),
                ("src/App.tsx", 1, 56, "Unexpected token"),
            ],
        ),
        (
            "error during build:\nBuild failed with 1 error:\n\n"
            "[plugin vite:css] /home/user/project/src/a.css:4:8\n"
            "SyntaxError: [lightningcss] Unexpected end of input\n\n",
            [("src/a.css", 4, 9, "SyntaxError: [lightningcss] Unexpected end of input")],
        ),
        (
            "error during build:\nBuild failed with 1 error:\n\n"
            "Error: [vite]: Rolldown failed to resolve import \"gsap\" from \"/home/user/project/src/App.tsx\".\n"
            "This is most likely unintended because it can break your application at runtime.\n",
            [("src/App.tsx", None, None, 'Rolldown failed to resolve import "gsap" from "src/App.tsx".')],
        ),
        (
            "failed to load config from /home/user/project/vite.config.ts\nerror during build:\nError: broken\n",
            [("vite.config.ts", None, None, "Error: broken")],
        ),
        (
            "error during build:\nBuild failed with 1 error:\n\n[builtin:x] plugin `builtin:x` threw an error\n\n"
            "Caused by:\n    expected `:`\n\nStack backtrace:\n   0: <unknown>\n   1: <unknown>\n\n"
            "  errors: [Getter/Setter]\n}\n",
            [
                (
                    None, None, None,
                    "[builtin:x] plugin `builtin:x` threw an error\nCaused by:\n    expected `:`\nStack backtrace:",
                )
            ],
        ),
        (
            "error during build:\n[vite:esbuild] Transform failed with 2 errors:\n"
            "/home/user/project/src/App.tsx:2:12: ERROR: Unexpected \";\"\n"
            "/home/user/project/src/App.tsx:3:0: ERROR: Unexpected \"}\"\n"
            "file: /home/user/project/src/App.tsx:2:12" + _STACK,
            [("src/App.tsx", 2, 13, 'Unexpected ";"'), ("src/App.tsx", 3, 1, 'Unexpected "}"')],
        ),
        (
            "error during build:\n"
            "src/App.tsx (3:8): \"x\" is not exported by \"src/utils/x.ts\", imported by \"src/App.tsx\".\n"
            "file: /home/user/project/src/App.tsx:3:8\n",
            [("src/App.tsx", 3, 9, '"x" is not exported by "src/utils/x.ts", imported by "src/App.tsx".')],
        ),
        (
            "error during build:\n[vite:json] [plugin vite:json] src/a.json (2:0): Failed to parse JSON file\n",
            [("src/a.json", 2, 1, "Failed to parse JSON file")],
        ),
        (
            "error during build:\nCould not resolve \"./nowhere\" from \"src/App.tsx\"\n"
            "file: /home/user/project/src/App.tsx\n",
            [("src/App.tsx", None, None, 'Could not resolve "./nowhere" from "src/App.tsx"')],
        ),
        (
            "error during build:\n"
            "[vite]: Rollup failed to resolve import \"gsap\" from \"/home/user/project/src/App.tsx\".\n"
            "This is most likely unintended\n",
            [("src/App.tsx", None, None, 'Rollup failed to resolve import "gsap" from "src/App.tsx".')],
        ),
        (
            "error during build:\n[vite:css] [postcss] /home/user/project/src/a.css:3:1: Unknown word foo\n",
            [("src/a.css", 3, 1, "Unknown word foo")],
        ),
        (
            "\x1b[31merror during build:\n\x1b[0mError: the configuration is broken\n"
            "file: /home/user/project/vite.config.ts:4:2\n",
            [("vite.config.ts", 4, 3, "Error: the configuration is broken")],
        ),
        ("Killed\n", [(None, None, None, "Killed")]),
        ("", [(None, None, None, "the build failed without saying why")]),
    ],
)  # fmt: skip
def test_builds(output: str, expected: list[tuple[str | None, int | None, int | None, str]]) -> None:
    assert [(p.file, p.line, p.column, p.message) for p in parse_build(output)] == expected


def test_types() -> None:
    output = (
        "src/App.tsx(2,9): error TS2322: Type 'string' is not assignable to type 'number'.\n"
        "  The expected type comes from property 'x'\nFound 1 error.\n"
    )
    assert [(p.file, p.line, p.column, p.message) for p in parse_types(output)] == [
        ("src/App.tsx", 2, 9, "TS2322: Type 'string' is not assignable to type 'number'.")
    ]
    assert parse_types("") == ()


def test_a_thousand_errors_are_not_a_thousand_problems() -> None:
    output = "\n".join(f"/home/user/project/src/a.ts:{n}:0: ERROR: wrong {n}" for n in range(1, 1000))
    assert len(parse_build(output)) == 20
    assert len(parse_build("x" * 100_000)[0].message) < 2000


@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 10])
def test_a_place_that_no_file_has_is_none(digits: str) -> None:
    for said in (
        f"src/App.tsx:{digits}:{digits}: ERROR: x",
        f"src/App.tsx ({digits}:{digits}): x",
        f"error during build:\nx\nfile: /a/project/src/App.tsx:{digits}:{digits}",
    ):
        [problem] = parse_build(said)
        assert (problem.file, problem.line, problem.column) == ("src/App.tsx", None, None)
    assert parse_types(f"src/App.tsx({digits},{digits}): error TS1: x")[0].line is None


def test_what_a_build_prints_can_be_stored_and_shown() -> None:
    [problem] = parse_build("src/\0a\x1b]0;x\x07.ts:1:2: ERROR: a\0b\x9b" + "\x08" * 9)
    assert problem.file is not None and problem.file.isprintable() and problem.message.isprintable()
    [problem] = parse_build("x" * 100_000 + ":1:2: ERROR: x")
    assert problem.file is not None and len(problem.file) <= 1024


def test_what_marks_a_virtual_file_is_none_of_its_name() -> None:
    [problem] = parse_build("\0/home/user/project/src/App.tsx (3:8): x")
    assert (problem.file, problem.line) == ("src/App.tsx", 3)


def test_where_an_import_is() -> None:
    source = "// './a' is not it\nimport {\n  a,\n} from \"./a\";\n"
    assert import_position('import "./a";', "./a") == (1, 8)
    assert import_position(source, "./b") is None
    assert import_position("const a = await import(`./a`);", "./a") == (1, 24)


def test_where_a_name_is_imported() -> None:
    source = (
        "const x = 1;\nimport type { y } from './a';\nimport {\n  xy,\n  x,\n} from './a';\nexport { $x } from './a';\n"
    )
    assert export_position(source, "x") == (5, 3)
    assert export_position(source, "$x") == (7, 10)
    assert export_position(source, "z") is None
    assert export_position("import " * 100_000 + "x", "z") is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("begun", ["", "error during build:\n[x] ", "[plugin x] ", "[x] y\n   \u256d\u2500[ "])
@pytest.mark.parametrize("again", ["1:1\n", "[postcss] ", "\n", "/a", "a:1:1: ERROR: ", "x (", "(1:1)"])
def test_what_a_build_prints_takes_no_longer_for_being_long(begun: str, again: str) -> None:
    """It is a stranger's, and read by whoever serves everybody: half a megabyte of tags took three minutes."""
    assert parse_build(begun + again * (500_000 // len(again)))
