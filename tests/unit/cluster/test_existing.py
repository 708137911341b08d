"""Whether an object is there, as an API server answers."""

import logging

import aiohttp
import msgspec
import pytest

from genguard.detection.finding import FoundObject
from tests.cases_loader import table
from webhook.cluster.rest import RefusedError
from webhook.cluster.stored_objects import StoredObjects
from webhook.telemetry.logs import LOGGER

WEB = FoundObject("apps", "v1", "deployments", "shop", "web", "uid-1")


class Api:
    def __init__(self, answer: bytes | Exception) -> None:
        self.answer, self.asked = answer, []

    async def read(self, path: str, **_: str) -> bytes:
        self.asked.append(path)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def call(self, method: str, path: str, body: object) -> None:
        self.asked.append(path)


@pytest.mark.parametrize(
    ("answer", "exists"),
    [
        (b'{"metadata": {"uid": "uid-1"}}', True),
        (b'{"metadata": {"uid": "made again"}}', False),
        (b"{}", False),
        (RefusedError(404, "not found"), False),
        (RefusedError(403, "forbidden"), None),
        (RefusedError(429, "later"), None),
        (aiohttp.ClientConnectionError(), None),
        (TimeoutError(), None),
        (b"no JSON", None),
    ],
)
async def test_an_object_is_there_with_its_uid_and_what_is_not_known_is_not_guessed(answer, exists):
    assert await StoredObjects(Api(answer)).exists(WEB) is exists


@table("cluster/object_paths.yaml", "of", "path")
async def test_it_is_asked_for_where_it_would_be(case):
    api = Api(b"{}")
    await StoredObjects(api).exists(FoundObject(*case["of"], ""))
    assert api.asked == [case["path"]], case.because


@pytest.mark.parametrize("place", ["group", "version", "resource", "namespace", "name"])
async def test_a_part_that_leads_out_of_the_path_names_nothing(place):
    api = Api(b"{}")
    assert await StoredObjects(api).exists(msgspec.structs.replace(WEB, **{place: ".."})) is False
    assert api.asked == []


async def test_a_right_that_is_not_there_is_told_once_for_each_resource(caplog):
    caplog.set_level(logging.INFO, LOGGER.name)
    existing = StoredObjects(Api(RefusedError(403, "forbidden")))
    for name in ("a", "b"):
        await existing.exists(FoundObject("apps", "v1", "deployments", "shop", name, ""))
    assert [one.message for one in caplog.records] == ["objects may not be read"]
