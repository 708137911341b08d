"""The address by which the API server itself is known, behind a forwarded port."""

from typing import Any

import pytest

from webhook.cluster.rest import RefusedError
from webhook.cluster.tracing import advertised_url

FORWARDED = "https://127.0.0.1:36341"


class Api:
    """Answers with the EndpointSlice, or raises."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def get(self, path: str) -> Any:
        assert path.endswith("/namespaces/default/endpointslices/kubernetes")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def advertised(address: str, port: int = 6443) -> Any:
    return {"endpoints": [{"addresses": [address]}], "ports": [{"port": port}]}


@pytest.mark.parametrize("url", [FORWARDED, "https://localhost:6443", "https://[::1]:6443"])
async def test_behind_a_port_of_this_machine_it_is_the_advertised_one(url):
    assert await advertised_url(Api(advertised("172.18.0.2")), url) == "https://172.18.0.2:6443"
    assert await advertised_url(Api(advertised("fd00::2", 1)), url) == "https://[fd00::2]:1"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (RefusedError(403, "no"), "the user may not read it"),
        ({"endpoints": None, "ports": None}, "no API server has advertised itself"),
        ({"endpoints": [], "ports": []}, "no API server has advertised itself"),
        (advertised("api.example.org"), "no address"),
        ([], "no EndpointSlice"),
    ],
)
async def test_where_nothing_better_is_known_it_is_the_given_one(answer, reason):
    assert await advertised_url(Api(answer), FORWARDED) == FORWARDED, reason


@pytest.mark.parametrize("url", ["https://10.0.0.1:443", "https://api.example.org"])
async def test_an_address_that_others_reach_is_not_looked_up(url):
    assert await advertised_url(Api(AssertionError("was asked")), url) == url
