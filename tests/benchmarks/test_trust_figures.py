"""What the attacks' report is counted as."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.trust import counted

REPORT = """<testsuite>
  <testcase name="test_a[local]"/>
  <testcase name="test_b[in files-docker]"><failure message="read /etc/passwd"/></testcase>
  <testcase name="test_c[gvisor]"><skipped message="needs runsc"/></testcase>
  <testcase name="test_d"/>
  <testcase name="test_e[docker]"><error message="no engine"/></testcase>
</testsuite>"""


def test_what_fails_has_got_through_and_what_was_not_made_is_neither() -> None:
    tried, through, left_out, told = counted(list(ElementTree.fromstring(REPORT).iter("testcase")))
    assert tried == {"local": 2, "docker": 1, "gvisor": 0}
    assert through == {"local": 0, "docker": 1, "gvisor": 0}
    assert left_out == {"local": 0, "docker": 1, "gvisor": 1}
    assert any("read /etc/passwd" in line for line in told) and any("needs runsc" in line for line in told)
