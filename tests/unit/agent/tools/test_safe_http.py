"""Fetching: public addresses only, after every spelling, redirect and name change; bounded."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from agent.errors import ToolError
from agent.tool_support.safe_http import AddressRefused, CheckedResolver, Fetcher, is_public
from tests.support.tool_site import Site, open_site

LOOPBACK = "127.0.0.1/32"
REFUSED = "is not on the public internet"

NOT_PUBLIC = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%lo",
    "fec0::1",
    "ff02::1",
]
PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_addresses_that_are_not_public(address: str) -> None:
    """Private, local, reserved, shared and multicast addresses, and addresses that embed one."""
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    """The rest of the internet is reached, also through the gateways of networks without IPv4."""
    assert is_public(ipaddress.ip_address(address))


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as site:
        yield site


@pytest.fixture
def fetcher() -> Fetcher:
    """One that may reach the loopback server, and nothing else that is not public."""
    return Fetcher(CheckedResolver(allow=[LOOPBACK]))


async def refusal(fetcher: Fetcher, url: str) -> str:
    with pytest.raises(ToolError) as raised:
        await fetcher.get(url)
    return raised.value.detail


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "169.254.169.254",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[fe80::1]",
        "0x7f.1",
        "0x7f000001",
        "１２７.0.0.1",
        "192.168.0.1",
        "100.64.0.1",
    ],
)
async def test_places_that_are_not_visited(site: Site, host: str) -> None:
    """Not one of them gets a connection, though a server is listening."""
    assert REFUSED in await refusal(Fetcher(), site.url(host=host))
    assert site.visits == []


@pytest.mark.parametrize("host", ["2130706433", "017700000001", "127.1", "0177.0.0.1"])
async def test_odd_spellings_of_loopback(site: Site, host: str) -> None:
    """Numbers that the system would take for 127.0.0.1 are refused, as an address or as no URL at all."""
    detail = await refusal(Fetcher(), site.url(host=host))
    assert REFUSED in detail or "is not a valid URL" in detail
    assert site.visits == []


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("file:///etc/passwd", "must begin with http:// or https://"),
        ("ftp://example.org/", "must begin with http:// or https://"),
        ("gopher://127.0.0.1/", "must begin with http:// or https://"),
        ("//example.org", "must begin with http:// or https://"),
        ("example.org", "must begin with http:// or https://"),
        ("http://", "http://"),
        ("http://user:pw@example.org/", "user name or a password"),
        ("http://[::1", "is not a valid URL"),
        ("http://example.org:99999/", "is not a valid URL"),
    ],
)
async def test_urls_that_are_refused(url: str, sentence: str) -> None:
    """Other schemes, credentials, nonsense."""
    assert sentence in await refusal(Fetcher(), url)


async def test_an_allowed_network_is_reached(site: Site, fetcher: Fetcher) -> None:
    """The owner may open a network of their own, by address or by name."""
    assert (await fetcher.get(site.url("/a"))).text == "you are at /a"
    assert (await fetcher.get(site.url("/b", host="localhost"))).text == "you are at /b"


@pytest.mark.parametrize(
    "target", ["http://127.0.0.2/", "http://[::1]/", "http://169.254.169.254/latest/", "//0.0.0.0/"]
)
async def test_a_redirect_is_checked_again(site: Site, fetcher: Fetcher, target: str) -> None:
    """A harmless page cannot send us to a harmful one."""
    site.serve("/", status=302, headers={"Location": target})
    assert REFUSED in await refusal(fetcher, site.url())


async def test_a_redirect_to_another_scheme(site: Site, fetcher: Fetcher) -> None:
    """Nor to a file of this machine."""
    site.serve("/", status=301, headers={"Location": "file:///etc/passwd"})
    assert "must begin with http" in await refusal(fetcher, site.url())


async def test_redirects_are_followed_and_counted(site: Site, fetcher: Fetcher) -> None:
    """Five are followed, a sixth is not."""
    for number in range(1, 7):
        site.serve(f"/{number}", status=307, headers={"Location": f"{number - 1}"})
    page = await fetcher.get(site.url("/5"))
    assert (page.url, page.text) == (site.url("/0"), "you are at /0")
    assert "more than 5 redirects" in await refusal(fetcher, site.url("/6"))


class ChangingName(AbstractResolver):
    """A name server that answers each question differently."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = iter(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
            for address in next(self._answers)
        ]

    async def close(self) -> None:
        pass


async def test_a_name_that_turns_to_loopback() -> None:
    """Public when first asked, loopback when asked again: each answer is checked, the second is refused."""
    resolver = CheckedResolver(ChangingName(["93.184.216.34"], ["127.0.0.1"]))
    assert (await resolver.resolve("example.org", 80))[0]["host"] == "93.184.216.34"
    with pytest.raises(AddressRefused):
        await resolver.resolve("example.org", 80)


async def test_one_bad_address_among_good_ones() -> None:
    """A name with such an address is refused altogether: the connection could go to any of them."""
    with pytest.raises(AddressRefused):
        await CheckedResolver(ChangingName(["93.184.216.34", "127.0.0.1"])).resolve("example.org", 80)


async def test_a_name_that_changes_between_two_requests(site: Site) -> None:
    """The client connects to the checked address; the next request is checked again."""
    names = ChangingName(["127.0.0.1"], ["127.0.0.2"])
    fetcher = Fetcher(CheckedResolver(names, allow=[LOOPBACK]))
    site.serve("/", status=302, headers={"Location": "/next"})
    assert REFUSED in await refusal(fetcher, site.url(host="rebinding.example"))
    assert site.visits == ["/"]


def test_the_last_door_checks_the_socket() -> None:
    """Should an address come past the resolver, no socket is made for it."""
    with pytest.raises(AddressRefused):
        CheckedResolver().open_socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80)))


async def test_an_unknown_name() -> None:
    """A name that does not exist is a sentence."""

    class NoNames(ChangingName):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            raise socket.gaierror("unknown")

    assert await refusal(Fetcher(CheckedResolver(NoNames())), "http://nowhere.example/") == (
        "nowhere.example cannot be reached."
    )


async def test_a_large_page_is_cut(site: Site) -> None:
    """What is read is bounded, and said to be."""
    site.serve("/", text="x" * 5_000_000)
    page = await Fetcher(CheckedResolver(allow=[LOOPBACK]), max_bytes=1_000).get(site.url())
    assert (page.text, page.complete) == ("x" * 1_000, False)


async def test_a_compressed_bomb_is_cut(site: Site, fetcher: Fetcher) -> None:
    """The bound counts what comes out of it."""
    headers = {"Content-Encoding": "gzip", "Content-Type": "text/plain"}
    site.serve("/", body=gzip.compress(b"x" * 50_000_000), headers=headers)
    page = await fetcher.get(site.url())
    assert (len(page.text), page.complete) == (2_000_000, False)


async def test_a_page_that_never_comes(site: Site) -> None:
    """Waiting is bounded."""
    fetcher = Fetcher(CheckedResolver(allow=[LOOPBACK]), seconds=0.2)
    assert "did not answer within 0.2 s" in await refusal(fetcher, site.url("/hang"))
    assert site.visits == ["/hang"]


async def test_what_is_not_text_is_refused(site: Site, fetcher: Fetcher) -> None:
    """A picture would be noise."""
    site.serve("/", body=b"\x89PNG", content_type="image/png")
    assert await refusal(fetcher, site.url()) == f"{site.url()} is image/png, not text."


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("iso-8859-1", b"caf\xe9", "café"),
        ("shift_jis", "世界".encode("shift_jis"), "世界"),
        ("utf-8", b"caf\xe9", "caf\N{REPLACEMENT CHARACTER}"),
        ("no-such-thing", "é".encode(), "é"),
        ("zip", b"abc", "abc"),
        ("punycode", b"abc-", "abc-"),
        ("unicode_escape", b"\\u0041", "\\u0041"),
    ],
)
async def test_character_sets(site: Site, fetcher: Fetcher, charset: str, data: bytes, text: str) -> None:
    """The page's own is used, unless it is none or one that could be abused."""
    site.serve("/", body=data, headers={"Content-Type": f"text/plain; charset={charset}"})
    assert (await fetcher.get(site.url())).text == text


async def test_an_answer_that_is_no_http() -> None:
    """A server that speaks something else is a sentence."""

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    async with await asyncio.start_server(babble, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        detail = await refusal(Fetcher(CheckedResolver(allow=[LOOPBACK])), f"http://127.0.0.1:{port}/")
    assert "did not give a proper answer" in detail


async def test_nothing_of_this_machine_goes_along(
    site: Site, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cookie comes back, and no proxy from the environment is used."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")
    site.serve("/", status=302, headers={"Location": "/2", "Set-Cookie": "a=b"})
    await fetcher.get(site.url(host="localhost"))
    assert site.visits == ["/", "/2"]
    assert "Cookie" not in site.headers[1]
