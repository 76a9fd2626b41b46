"""What is allowed, as text and as addresses, without a socket."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from koda_ray.config import PACKAGE_REGISTRIES, Settings
from koda_ray.errors import InvalidInput
from koda_ray.sandbox.egress.addresses import own_networks, why_forbidden
from koda_ray.sandbox.egress.rules import EgressLimits, EgressRules, Refused, plain_host

_RULES = EgressRules.parse(["one.test", "*.many.test", "Mixed.Test."])
_NAT64_NETWORK = IPv6Network("64:ff9b::/96")


@pytest.mark.parametrize("host", ["one.test", "ONE.test.", "a.many.test", "a.b.many.test", "mixed.test"])
def test_what_is_listed_is_allowed(host: str) -> None:
    _RULES.check(plain_host(host), 443)
    _RULES.check(plain_host(host), 80)


@pytest.mark.parametrize(
    "host", ["a.one.test", "many.test", "amany.test", "one.test.evil.test", "xone.test", "test", "8.8.8.8", "[2606::1]"]
)
def test_what_is_not_listed_is_refused_with_the_way_to_allow_it(host: str) -> None:
    with pytest.raises(Refused) as caught:
        _RULES.check(plain_host(host), 443)
    assert caught.value.code == "HOST_NOT_ALLOWED"
    assert "SANDBOX_EGRESS_HOSTS" in caught.value.words and "one.test" in caught.value.words


def test_nothing_is_allowed_by_default() -> None:
    with pytest.raises(Refused) as caught:
        EgressRules().check("registry.npmjs.org", 443)
    assert "Allowed are: none" in caught.value.words


@pytest.mark.parametrize("port", [0, 22, 25, 53, 79, 81, 442, 6379, 8080, 8265, 65535, 99999])
def test_other_ports_are_refused(port: int) -> None:
    with pytest.raises(Refused) as caught:
        _RULES.check("one.test", port)
    assert caught.value.code == "PORT_NOT_ALLOWED"


@pytest.mark.parametrize(
    "text",
    ["2130706433", "0", "0x7f.1", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.1.5", "017700000001", "1.2.3.04", "a b",
     "", ".", "a..b", "-a.test", "a-.test", "x" * 64 + ".test", "a.test/", "a%2etest", "exam\u200bple.test",
     "one.test\0", "[::1", "[fe80::1%eth0]x", "[1.2.3.4]", "a." * 130 + "test"],
)  # fmt: skip
def test_what_two_readers_could_read_differently_is_no_host(text: str) -> None:
    with pytest.raises(Refused) as caught:
        plain_host(text)
    assert caught.value.code == "BAD_REQUEST"


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
     "169.254.169.254", "169.254.170.2", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1",
     "192.0.2.1", "224.0.0.1", "239.255.255.250", "255.255.255.255", "240.0.0.1", "::", "::1", "::127.0.0.1",
     "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808",
     "2002:7f00:1::", "2002:808:808::1", "2001:0:808:808::1", "fe80::1", "fe80::1%1", "fec0::1", "fc00::1",
     "fd00:ec2::254", "ff02::1", "2001:db8::1", "3fff::1", "4000::1", "100::1"],
)  # fmt: skip
def test_addresses_that_nobody_may_reach(address: str) -> None:
    assert why_forbidden(ip_address(address))
    with pytest.raises(Refused) as caught:
        EgressRules.parse(["one.test"]).check_addresses("one.test", [ip_address("93.184.215.14"), ip_address(address)])
    assert caught.value.code == "ADDRESS_NOT_ALLOWED"
    assert "one.test is " in caught.value.words


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.215.14", "2606:2800:220::1", "64:ff9b::8.8.8.8"])
def test_public_addresses(address: str) -> None:
    assert why_forbidden(ip_address(address)) is None


@given(st.integers(0, 2**32 - 1))
@example(int(IPv4Address("100.64.0.0")))
def test_no_ipv4_address_passes_that_is_not_public(number: int) -> None:
    address = IPv4Address(number)
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert why_forbidden(address)
        assert why_forbidden(IPv6Address(int(IPv6Address("64:ff9b::")) + number))
    assert why_forbidden(IPv6Address(int(IPv6Address("::ffff:0:0")) + number))


@given(st.integers(0, 2**128 - 1) | st.integers(0, 2**64 - 1) | st.integers(2**125, 2**125 + 2**121))
def test_no_ipv6_address_passes_that_is_not_public(number: int) -> None:
    address = IPv6Address(number)
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_site_local:
        assert why_forbidden(address) or address in _NAT64_NETWORK


def test_an_installation_names_what_is_its_own() -> None:
    rules = EgressRules.parse(["one.test"], ["93.184.215.0/24", "2606:2800:220::/48"])
    for address in ("93.184.215.14", "2606:2800:220::1", "64:ff9b::93.184.215.14"):
        with pytest.raises(Refused, match="this installation's own"):
            rules.check_addresses("one.test", [ip_address(address)])
    rules.check_addresses("one.test", [ip_address("93.184.216.14")])


def test_the_machines_own_addresses_are_found() -> None:
    assert any(ip_address("127.0.0.1") in network for network in own_networks())


@pytest.mark.parametrize(
    ("hosts", "denied"),
    [("*", ""), ("*.com", ""), ("*.*", ""), ("http://one.test", ""), ("one.test:443", ""), ("one test", ""),
     ("2130706433", ""), ("*.1.2.3.4", ""), ("one.test", "10.0.0.0/33"), ("one.test", "cluster")],
)  # fmt: skip
def test_settings_that_mean_nothing_or_too_much(hosts: str, denied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_EGRESS_HOSTS", hosts)
    monkeypatch.setenv("SANDBOX_EGRESS_DENIED", denied)
    with pytest.raises(InvalidInput, match=r"SANDBOX_EGRESS_(HOSTS|DENIED) holds"):
        EgressRules.of(Settings())


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert EgressRules.of(Settings()).hosts == PACKAGE_REGISTRIES
    monkeypatch.setenv("SANDBOX_EGRESS_HOSTS", " one.test, *.Two.test. ,")
    monkeypatch.setenv("SANDBOX_EGRESS_DENIED", "93.184.215.14, 2606:2800::/32")
    monkeypatch.setenv("SANDBOX_EGRESS_SENT_MB", "3")
    rules = EgressRules.of(Settings())
    assert rules.hosts == ("one.test", "*.two.test")
    assert [str(network) for network in rules.denied] == ["93.184.215.14/32", "2606:2800::/32"]
    assert EgressLimits.of(Settings()).sent_bytes == 3 * 1024 * 1024
    monkeypatch.setenv("SANDBOX_EGRESS_HOSTS", "")
    assert EgressRules.of(Settings()).hosts == ()
