"""What may be reached: each forbidden range, each odd spelling, and the policy's few openings."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from tests.support.net.clients import Visit, visit
from tests.support.net.hostile_server import Exchange
from trawlnet.engine.outcome import Reason
from trawlnet.net.client.dial import GuardedResolver, Pools, permitted
from trawlnet.net.guard import AddressRefused, Guard, address_verdict
from trawlnet.net.lane import lane_of
from trawlnet.net.trouble import Trouble

PUBLIC = ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1"]
PUBLIC += ["192.0.1.1", "198.17.0.1", "223.255.255.255", "2606:4700::1111", "2a00::1", "2003::1"]
PUBLIC += ["::ffff:8.8.8.8"]

PRIVATE = ["10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "172.16.0.1", "172.31.9.9"]
PRIVATE += ["192.168.1.1", "::1", "fc00::1", "fdff::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"]

NEVER = ["0.0.0.0", "0.1.2.3", "169.254.169.254", "192.0.0.8", "192.0.2.1", "192.88.99.1"]
NEVER += ["198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1"]
NEVER += ["240.0.0.1", "255.255.255.255", "::", "::127.0.0.1", "fe80::1", "fe80::1%1", "fec0::1"]
NEVER += ["ff02::1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:2::1", "4000::1"]
NEVER += ["2001:20::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "5f00::1", "::ffff:0.0.0.0"]
NEVER += ["::ffff:169.254.169.254", "::ffff:224.0.0.1", "::1%lo", "not an address", ""]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_fine(address: str) -> None:
    assert address_verdict(address) is None


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_refused_unless_the_policy_opens_it(address: str) -> None:
    assert address_verdict(address)
    assert address_verdict(address, allow_private=True) is None


@pytest.mark.parametrize("address", NEVER)
def test_some_addresses_are_refused_under_every_policy(address: str) -> None:
    assert address_verdict(address)
    assert address_verdict(address, allow_private=True)


@given(st.ip_addresses(v=4))
def test_no_address_that_python_calls_special_is_fine(ip: ipaddress.IPv4Address) -> None:
    special = ip.is_private or ip.is_multicast or ip.is_reserved or ip.is_link_local
    if special:
        assert address_verdict(str(ip))


@given(st.ip_addresses(v=4))
def test_wrapping_an_address_in_ipv6_changes_nothing(ip: ipaddress.IPv4Address) -> None:
    assert address_verdict(f"::ffff:{ip}") == address_verdict(str(ip))


@given(st.ip_addresses(v=6))
def test_only_global_ipv6_is_fine(ip: ipaddress.IPv6Address) -> None:
    if ip.ipv4_mapped is None and address_verdict(str(ip)) is None:
        assert int(ip) >> 125 == 1


FORBIDDEN_URLS = [
    "ftp://example.org/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "data:text/plain,x",
    "//example.org/",
    "/path",
    "",
    "http://",
    "http:///path",
    "http://user@example.org/",
    "http://user:secret@example.org/",
    "http://@example.org/",
    "http://example.org@10.0.0.1/",
    "http://example.org\\@10.0.0.1/",
    "http://example.org:22/",
    "http://example.org:0/",
    "http://example.org:99999/",
    "http://example.org:-1/",
    "http://exa mple.org/",
    "http://example.org/\r\nHost: other",
    "http://exam\tple.org/",
    "http://exam\x00ple.org/",
    "http://a..b/",
    "http://.a/",
    "http://" + "a" * 64 + ".org/",
    "http://" + "a." * 127 + "org/",
    "http://example.org/" + "a" * 9000,
    "http://example.org/\ud800",
    "http://[::1/",
    "http://[v1.a]/",
    "http://[]@/",
    "http://ex%61mple.org/",
]


@pytest.mark.parametrize("url", FORBIDDEN_URLS)
def test_a_url_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        Guard().destination(url)


def test_path_and_query_are_sent_exactly_as_given() -> None:
    text = "https://example.org/a%2Fb/%7e/../c;d?cursor=%2C%2F+x&y=%C3%A4&&"
    assert Guard().destination(text).url == text


def test_a_host_is_sent_in_one_spelling_and_the_path_still_untouched() -> None:
    url = Guard().destination("HTTPS://EXAMPLE.org:443/%2C?x=%2c")
    assert (url.origin.host, url.target) == ("example.org", "/%2C?x=%2c")
    odd = Guard().destination("http://bücher.example/")
    assert odd.origin.host == "xn--bcher-kva.example"


@given(
    st.from_regex(r"https?://(a\.example|127\.1|\[::1\]|A|h_)(:[0-9]{1,5})?[!-~]*", fullmatch=True)
)
def test_what_is_sent_is_what_the_parser_of_urls_reads(text: str) -> None:
    """Most URLs take a short way past it."""
    guard = Guard(allow_private=True)
    try:
        to = guard.destination(text)
    except AddressRefused:
        return
    url = URL(text, encoded=True)
    host, port = (url.raw_host or "").lower(), url.port
    assert (to.origin.scheme, to.origin.host, to.origin.port) == (url.scheme, host, port)
    assert (to.target, to.origin.lane) == (url.raw_path_qs, lane_of(text))


def test_a_policy_may_insist_on_tls() -> None:
    guard = Guard(schemes=frozenset({"https"}))
    assert guard.destination("https://example.org/")
    with pytest.raises(AddressRefused):
        guard.destination("http://example.org/")


def test_opening_private_hosts_opens_every_port_and_plain_http() -> None:
    guard = Guard(allow_private=True, schemes=frozenset({"https"}))
    assert guard.destination("http://127.0.0.1:8081/").origin.port == 8081
    with pytest.raises(AddressRefused):
        guard.destination("http://169.254.169.254/latest/meta-data/")


def test_an_exemption_is_for_one_address_and_one_port() -> None:
    guard = Guard(exempt=frozenset({("127.0.0.1", 8081)}))
    assert guard.destination("http://127.0.0.1:8081/")
    for url in ("http://127.0.0.1:8082/", "http://127.0.0.2:8081/", "http://127.0.0.1/"):
        with pytest.raises(AddressRefused):
            guard.destination(url)


def info(address: str) -> tuple[object, ...]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return (family, socket.SOCK_STREAM, 6, "", (address, 80))


def test_of_a_names_addresses_only_the_permitted_are_told() -> None:
    found = permitted(Guard(), "x.test", 80, [info("10.0.0.1"), info("1.1.1.1"), info("::1")])
    assert [result[4] for result in found] == [("1.1.1.1", 80)]


def test_a_name_with_only_forbidden_addresses_is_refused() -> None:
    with pytest.raises(AddressRefused, match="private"):
        permitted(Guard(), "x.test", 80, [info("10.0.0.1")])


def test_a_name_with_hundreds_of_addresses_is_tried_at_a_few() -> None:
    infos = [info(f"1.1.{n // 256}.{n % 256}") for n in range(500)]
    assert len(permitted(Guard(), "x.test", 80, infos)) == 8


def test_a_lookup_without_an_answer_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        resolver = GuardedResolver(Guard(), Pools(lookups=1), deadline=0.05)
        released = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hang(*_: object, **__: object) -> list[object]:
            asyncio.run_coroutine_threadsafe(released.wait(), loop).result()
            return []

        monkeypatch.setattr(socket, "getaddrinfo", hang)
        with pytest.raises(OSError, match="no address"):
            await resolver.resolve("x.test", 80)
        released.set()
        await resolver.close()

    asyncio.run(run())


async def hello(exchange: Exchange) -> None:
    await exchange.answer(body=b"hello")


ODD_SPELLINGS = [
    "127.0.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "127.1",
    "127.0.1",
    "0177.0.0.1",
    "0177.0.0.01",
    "127.0.0.1.",
    "127.0.0.1..",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "[::1]",
    "[::1%25lo]",
    "[::1%lo]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "0",
    "0.0.0.0",
    "localhost",
    "LOCALHOST",
    "127。0。0。1",
    "①②⑦.⓪.⓪.①",
    "ⓛocalhost",
    "%31%32%37.0.0.1",
    "127%2e0.0.1",
    "127.0.0.1%00.example.org",
    "user@127.0.0.1",
]


@pytest.mark.parametrize("host", ODD_SPELLINGS)
def test_no_spelling_of_loopback_gets_through(host: str) -> None:
    async def act(v: Visit) -> tuple[Trouble, int]:
        answer = await v.http.get(v.server.url(host=host))
        return answer, v.server.connections

    # Every port is open, so that nothing but the address can be the obstacle.
    answer, connections = visit(hello, act, guard=Guard(ports=frozenset(range(65536))))
    assert isinstance(answer, Trouble)
    assert answer.reason in (Reason.REFUSED, Reason.DNS_ERROR)
    assert connections == 0


@pytest.mark.parametrize("host", ["rebind.test", "rebind.test.", "REBIND.test"])
def test_a_name_that_leads_to_loopback_is_refused_without_a_packet(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [info("127.0.0.1")])

    async def act(v: Visit) -> tuple[Trouble, int]:
        return await v.http.get(v.server.url(host=host)), v.server.connections

    answer, connections = visit(hello, act, guard=Guard(ports=frozenset(range(65536))))
    assert answer.reason is Reason.REFUSED
    assert connections == 0


def test_a_literal_that_slips_past_the_url_check_is_stopped_at_the_socket() -> None:
    class Blind(Guard):
        def _check_host(self, url: object) -> None:
            """As if the check of the URL had a hole."""

    async def act(v: Visit) -> tuple[Trouble, int]:
        return await v.get(), v.server.connections

    answer, connections = visit(hello, act, guard=Blind(ports=frozenset(range(65536))))
    assert answer.reason is Reason.REFUSED
    assert connections == 0


def test_the_same_listener_is_reached_when_the_policy_opens_it() -> None:
    async def act(v: Visit) -> list[bytes]:
        bodies = []
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
            bodies.append((await v.http.get(v.server.url(host=host))).body)
        return bodies

    assert visit(hello, act, guard=Guard(allow_private=True)) == [b"hello"] * 3


@pytest.mark.parametrize(
    ("url", "lane"),
    [
        ("https://Example.ORG/x", "example.org"),
        ("https://example.org:443/", "example.org"),
        ("http://example.org:443/", "example.org:443"),
        ("http://example.org.:8080/", "example.org:8080"),
        ("http://[::1]:8080/", "[::1]:8080"),
        ("http://[::1]/", "[::1]"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
    ],
)
def test_a_lane_is_the_host_and_an_unusual_port(url: str, lane: str) -> None:
    assert lane_of(url) == lane


def test_what_has_no_host_has_no_lane() -> None:
    with pytest.raises(ValueError, match="no host"):
        lane_of("/path")
