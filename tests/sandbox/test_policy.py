"""The path and command rules, by example and over everything that hypothesis thinks of."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.config import PACKAGE_REGISTRIES
from koda_ray.errors import CommandBlocked, InvalidPath
from koda_ray.sandbox import policy
from koda_ray.sandbox.command_policy import check_command
from koda_ray.sandbox.egress.rules import EgressRules

_RULES = EgressRules(hosts=PACKAGE_REGISTRIES)
_NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\:"), min_size=1, max_size=60)


@given(st.text(max_size=300))
def test_whatever_is_accepted_stays_inside(path: str) -> None:
    for rule in (policy.readable, policy.storable, policy.writable):
        try:
            name = rule(path)
        except InvalidPath as error:
            assert error.code == "INVALID_PATH" and error.context["rule"]
            continue
        parts = name.split("/")
        assert not name.startswith("/") and ".." not in parts and "" not in parts
        assert "node_modules" not in parts and "\0" not in name and "\\" not in name
        assert all(len(part.encode()) <= 255 for part in parts) and len(name.encode()) <= 1024
        assert rule(name) == name, "a normalised path is its own normal form"


@given(st.lists(_NAMES, min_size=1, max_size=4))
def test_what_can_be_written_can_be_read_and_stored(names: list[str]) -> None:
    path = "/".join(["src", *names])
    try:
        name = policy.writable(path)
    except InvalidPath as error:
        assert error.context["rule"] in ("parent", "prefix", "directory", "node_modules", "component", "separator")
        return
    assert policy.readable(path) == policy.storable(path) == name
    assert policy.writable(f"{policy.PROJECT_ROOT}/{name}") == name
    assert policy.writable(f"./{name}") == name


@given(st.lists(st.sampled_from(["..", ".", "src", "a", ""]), min_size=1, max_size=8))
def test_no_way_up_is_ever_accepted(parts: list[str]) -> None:
    path = "/".join(parts)
    if ".." in parts:
        with pytest.raises(InvalidPath):
            policy.readable(path)


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("", "empty"), ("/etc/passwd", "absolute"), ("/home/user", "absolute"), ("/home/user/projectile/x", "absolute"),
        ("//etc/passwd", "absolute"), ("src/../x", "parent"), ("/home/user/project/../../x", "parent"), ("a\0b", "nul"),
        ("src/a\tb", "control"), ("src/a\x7fb", "control"), ("src/a\x85b", "control"), ("src\\a", "separator"),
        ("C:/Windows/x", "separator"), ("c:x", "separator"), ("src/" + "é" * 128, "component"), ("a/" * 513, "length"),
        ("src/" + "a" * 5000, "length"), ("node_modules/react/index.js", "node_modules"),
        ("src/node_modules/x", "node_modules"), ("src/\udcff.ts", "encoding"),
    ],
)  # fmt: skip
def test_paths_that_are_none(path: str, rule: str) -> None:
    with pytest.raises(InvalidPath) as caught:
        policy.readable(path)
    assert caught.value.context["rule"] == rule
    assert repr(path)[1:10] in caught.value.message
    assert len(caught.value.message) < 600
    assert pickle.loads(pickle.dumps(caught.value)).context == caught.value.context


@pytest.mark.parametrize(
    "path",
    [
        "src/App.tsx", "public/assets/clip.mp3", "scripts/x.cjs", "package.json", "tsconfig.node.json",
        "vite.config.ts",
        "index.html", ".eslintrc.json", ".gitignore", "README.md", "bun.lock", "src/..foo.ts", "src/...",
        "src/名/球.tsx",
        "src/👨‍👩‍👧.ts", "src/a b.ts",
    ],
)  # fmt: skip
def test_what_agents_write(path: str) -> None:
    assert policy.writable(path) == path


@pytest.mark.parametrize(
    "path",
    ["src", "src/", "public", ".", "dist/index.html", ".git/config", "exports/a.png", "run.sh", "Makefile", ".vite/x",
     "package.json/x", ".bashrc", "a.exe", "srcs/x.ts"],
)  # fmt: skip
def test_what_agents_do_not_write(path: str) -> None:
    with pytest.raises(InvalidPath):
        policy.writable(path)


@pytest.mark.parametrize(
    "text",
    [
        "sudo ls", "/usr/bin/sudo ls", "FOO=1 sudo ls", "true && sudo ls", "true | su -", "(sudo ls)",
        "if true; then sudo ls; fi",
        "env X=1 sudo ls", "nohup sudo ls", "sh -c 'sudo ls'", 'bash -c "sh -c \\"sudo ls\\""', "rm -rf /",
        "rm -r -f /*",
        "rm -rf ~", "rm -rf .", "rm --recursive *", "curl http://example.com", "curl -s example.com",
        "wget https://1.1.1.1/x",
        "git clone https://github.com/a/b", "nc -l 80", "ssh root@host", "echo x > /etc/hosts",
        "echo x >> /usr/lib/x",
        "cp a /etc/x", "mv a /usr/bin/b", "tee /etc/x", "sed -i s/a/b/ /etc/passwd", "dd if=/dev/zero of=/dev/sda",
        "mkfs.ext4 /dev/sda", "mount /dev/sda /mnt", "rm /etc/passwd", "chmod 777 /etc", "echo a\nsudo b",
    ],
)  # fmt: skip
def test_commands_that_are_refused(text: str) -> None:
    with pytest.raises(CommandBlocked) as caught:
        check_command(("sh", "-c", text), egress=_RULES)
    assert caught.value.context["rule"]


@pytest.mark.parametrize(
    "text",
    [
        "ls -la", "bun run build", "npm run dev -- --port 3000", "npx vite build", "cat src/App.tsx | head -20",
        "rm -rf dist", "rm -r src/old", "rm -f src/*.bak", "grep -r 'sudo' src", "echo 'rm -rf /' > src/notes.ts",
        "curl -s http://localhost:5173/", "curl 127.0.0.1:5173", "curl https://registry.npmjs.org/react", "git status",
        "node -e 'console.log(1)' > /dev/null 2>&1", "mkdir -p src/a && touch src/a/b.ts", "sed -n 1,5p /etc/hosts",
        "find . -name '*.tsx' -exec grep -l x {} +", "for f in src/*; do echo $f; done", "cp /usr/share/x src/x",
        "echo \"unclosed", "time node x.js", "",
    ],
)  # fmt: skip
def test_commands_that_agents_use(text: str) -> None:
    check_command(("sh", "-c", text), egress=_RULES)


@given(st.lists(st.text(st.characters(exclude_characters="\0"), max_size=40), min_size=1, max_size=6))
def test_the_rules_read_any_command(argv: list[str]) -> None:
    if argv[0]:
        try:
            check_command(argv, egress=_RULES)
            check_command(("sh", "-c", " ".join(argv)), egress=_RULES)
        except CommandBlocked as error:
            assert error.code == "COMMAND_BLOCKED"
