"""What the attacks' report is counted as."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import trust
from benchmarks.trust import counted

REPORT = """<testsuite>
  <testcase name="test_a[local]"/>
  <testcase name="test_b[in files-docker]"><failure message="read /etc/passwd"/></testcase>
  <testcase name="test_c[gvisor]"><skipped message="needs runsc"/></testcase>
  <testcase name="test_d"/>
  <testcase name="test_e[docker]"><error message="no engine"/></testcase>
</testsuite>"""


def cases(*inside: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(f'<testcase name="test_x[local]">{each}</testcase>') for each in inside]


def test_what_fails_has_got_through_and_what_was_not_made_is_neither() -> None:
    made = counted(list(ElementTree.fromstring(REPORT).iter("testcase")))
    assert made.tried == {"local": 2, "docker": 1, "gvisor": 0}
    assert made.through == {"local": 0, "docker": 1, "gvisor": 0}
    assert made.left_out == {"local": 0, "docker": 0, "gvisor": 1}
    assert made.broken == {"local": 0, "docker": 1, "gvisor": 0}
    for words in ("read /etc/passwd", "needs runsc", "broke at docker: test_e[docker]: no engine"):
        assert any(words in line for line in made.told)


@pytest.mark.parametrize(
    ("inside", "are_held"),
    [
        (("", "<skipped/>"), True),
        (("", "<failure/>"), False),
        (("", "<error/>"), False),
        (("<skipped/>",), False),
        ((), False),
    ],
)
def test_attacks_are_held_where_some_were_made_and_none_broke_or_got_through(
    inside: tuple[str, ...], are_held: bool
) -> None:
    assert counted(cases(*inside)).are_held is are_held


@pytest.mark.full
@pytest.mark.parametrize(
    ("tests", "are_held"),
    [
        ("def test_local(): pass", True),
        ("import pytest\ndef test_local(): pytest.skip('no sandbox')", False),
        ("import nothing_of_this_name", None),
    ],
    ids=["held", "left out", "broken"],
)
def test_what_cannot_be_run_has_shown_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tests: str, are_held: bool | None
) -> None:
    """Real attacks are many and slow: another file of tests is run in their place."""
    (tmp_path / "test_attacks.py").write_text(tests)
    monkeypatch.setattr(trust, "_QUICK", (str(tmp_path / "test_attacks.py"), "-c", "/dev/null"))
    if are_held is None:
        with pytest.raises(RuntimeError, match="nothing_of_this_name"):
            trust.attacks(quick=True)
    else:
        assert trust.attacks(quick=True).are_held is are_held
