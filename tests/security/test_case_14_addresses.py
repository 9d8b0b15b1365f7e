"""Numbers that are not spelled as addresses, given to the system's own resolver, which would take them for some."""

from __future__ import annotations

import pytest

from agent.tool_support.safe_http import AddressRefused, CheckedResolver


@pytest.mark.parametrize(
    "spelled",
    ["2130706433", "017700000001", "0x7f000001", "127.1", "0177.0.0.1", "0x7f.1", "0", "2852039166"],
)
async def test_a_number_is_resolved_and_refused(spelled: str) -> None:
    """Decimal, octal and hexadecimal; loopback, no address at all, and a cloud's metadata service. Should a library
    let such a host pass, the resolver does not."""
    with pytest.raises(AddressRefused):
        await CheckedResolver().resolve(spelled, 80)
