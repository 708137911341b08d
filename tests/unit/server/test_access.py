"""Who may see what the ops port shows."""

import base64

import pytest
from aiohttp.test_utils import make_mocked_request

from webhook.server.access import Part, WithinHost, bearer


class Ends:
    """A transport that knows no more than its two addresses."""

    def __init__(self, peer, own) -> None:
        self._ends = {"peername": peer and (peer, 40000), "sockname": own and (own, 8080)}

    def get_extra_info(self, name, default=None):
        return self._ends.get(name, default)


def request(host="localhost:8080", peer="127.0.0.1", own="127.0.0.1", **headers):
    named = {**({"Host": host} if host else {}), **headers}
    return make_mocked_request("GET", "/", headers=named, transport=Ends(peer, own))


@pytest.mark.parametrize(
    ("peer", "own", "may"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.9", "127.0.0.1", True),
        ("::1", "::1", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("10.1.2.3", "10.1.2.4", False),
        ("::ffff:10.1.2.3", "::ffff:10.1.2.4", False),
        ("fe80::1%eth0", "fe80::2%eth0", False),
        # A sidecar of a mesh hands on what comes from anywhere: it dials the pod's own address.
        ("127.0.0.6", "10.1.2.4", False),
        # A route to 127/8 from outside (CVE-2020-8558): the peer says so.
        ("10.1.2.3", "127.0.0.1", False),
        (None, "127.0.0.1", False),
        ("127.0.0.1", None, False),
    ],
)
async def test_only_connections_within_the_host_see_objects(peer, own, may):
    refusal = await WithinHost().refuses(request(peer=peer, own=own), Part.OBSERVED)
    assert (refusal is None) is may
    assert refusal is None or (refusal.status == 403 and "port-forward" in refusal.why)


@pytest.mark.parametrize(
    ("host", "may"),
    [
        ("localhost", True),
        ("LocalHost:8080", True),
        ("127.0.0.1:9999", True),
        ("127.1.2.3", True),
        ("[::1]:8080", True),
        ("[::1]", True),
        ("attacker.example.org:8080", False),
        ("localhost.attacker.example.org", False),
        ("127.0.0.1.attacker.example.org", False),
        ("localhost:8080@attacker.example.org", False),
        ("localhost:", True),
        ("[::1", False),
        ("[::1]x", False),
        ("10.0.0.1:8080", False),
        ("", False),
    ],
)
async def test_a_name_that_others_can_lead_here_is_refused(host, may):
    """DNS rebinding: the connection is a local one, and the name is not."""
    refusal = await WithinHost().refuses(request(host), Part.OBSERVED)
    assert (refusal is None) is may


def basic(text):
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        (basic("anybody:abc"), "abc"),
        (basic(":a:b:c"), "a:b:c"),
        (basic("abc"), ""),
        ("Basic not base64", ""),
        ("Basic /w==", ""),
        ("Basic \udcff", ""),
        ("Digest abc", ""),
        ("abc", ""),
        ("", ""),
    ],
)
def test_a_token_is_a_bearers_or_a_password(header, token):
    assert bearer(header) == token
