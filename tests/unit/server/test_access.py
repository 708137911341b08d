"""Who may see what the ops port shows."""

import base64

from aiohttp.test_utils import make_mocked_request

from tests.cases_loader import Case, table
from webhook.server.access import Part, bearer, within_host


class Ends:
    """A transport that knows no more than its two addresses."""

    def __init__(self, peer, own) -> None:
        self._ends = {"peername": peer and (peer, 40000), "sockname": own and (own, 8080)}

    def get_extra_info(self, name, default=None):
        return self._ends.get(name, default)


def request(host="localhost:8080", peer="127.0.0.1", own="127.0.0.1", **headers):
    named = {**({"Host": host} if host else {}), **headers}
    return make_mocked_request("GET", "/", headers=named, transport=Ends(peer, own))


@table("server/connections.yaml", "peer", "own", "may")
async def test_only_connections_within_the_host_see_objects(case: Case) -> None:
    asked = request(peer=case["peer"], own=case["own"])
    refusal = await within_host(asked, Part.OBSERVED)
    assert (refusal is None) is case["may"], case.because
    assert refusal is None or (refusal.status == 403 and "port-forward" in refusal.why)


@table("server/hosts.yaml", "host", "may")
async def test_a_name_that_others_can_lead_here_is_refused(case: Case) -> None:
    refusal = await within_host(request(case["host"]), Part.OBSERVED)
    assert (refusal is None) is case["may"], case.because


@table("server/tokens.yaml", "header", "password", "token")
def test_a_token_is_a_bearers_or_a_password(case: Case) -> None:
    basic = base64.b64encode(case.get("password", "").encode()).decode()
    header = case.get("header", f"Basic {basic}")
    assert bearer(header) == case["token"], case.because


def test_a_header_that_is_not_ascii_has_no_token():
    assert bearer("Basic \udcff") == ""
