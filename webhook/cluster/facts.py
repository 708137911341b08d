"""What the engine needs to know of a cluster: its version, and its custom resources.

Lists and watches CustomResourceDefinitions, so that a new one is judged right from its first
object on. The admission path never waits for any of this.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec
from kubernetes.aio import client, config
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.config import ConfigException

from webhook.generation.custom import BadDefinitionError, CustomResource, from_definition

IN_CLUSTER: Final = "in-cluster"
# Below the client's own limit of 300 s for a whole call: the server ends the watch, not an error.
_WATCH_SECONDS: Final = 240
_SHORTEST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0


class NoClusterError(Exception):
    """The kubeconfig cannot be used; the message says why."""


class ClusterFacts(NamedTuple):
    """A cluster as seen now."""

    server_version: str
    custom_resources: tuple[CustomResource, ...]


async def connect(kubeconfig: str) -> client.ApiClient:
    """A client for a kubeconfig file, or for the pod's own cluster: "in-cluster".

    Raises NoClusterError. The connection itself is made by the first call.
    """
    settings = client.Configuration()
    try:
        if kubeconfig == IN_CLUSTER:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=kubeconfig, client_configuration=settings
            )
    except (ConfigException, OSError, ValueError) as error:
        raise NoClusterError(f"--kubeconfig {kubeconfig}: {error}") from error
    return client.ApiClient(configuration=settings)


async def follow(
    api: client.ApiClient,
    on_facts: Callable[[ClusterFacts], None],
    on_trouble: Callable[[str], None],
) -> None:
    """Report the cluster now and at each change, for ever; trouble is reported and waited out."""
    wait = _SHORTEST_WAIT
    while True:
        try:
            async for facts in _facts(api):
                on_facts(facts)
                wait = _SHORTEST_WAIT
        except (
            ApiException,
            aiohttp.ClientError,
            TimeoutError,
            OSError,
            msgspec.MsgspecError,
        ) as error:
            status = getattr(error, "status", None)
            on_trouble(f"{type(error).__name__} {status}" if status else type(error).__name__)
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


async def _facts(api: client.ApiClient) -> AsyncIterator[ClusterFacts]:
    """One list, then its watch until the server ends it."""
    version = await _server_version(api)
    definitions = client.ApiextensionsV1Api(api)
    listed = msgspec.json.decode(
        await _read(await definitions.list_custom_resource_definition_without_preload_content())
    )
    known = {item["metadata"]["name"]: _versions(item) for item in listed["items"]}
    yield ClusterFacts(version, _flat(known))
    stream = await definitions.list_custom_resource_definition_without_preload_content(
        watch=True,
        resource_version=listed["metadata"]["resourceVersion"],
        timeout_seconds=_WATCH_SECONDS,
    )
    async for line in _lines(stream.content):
        event = msgspec.json.decode(line)
        if event["type"] == "ERROR":
            return  # the resourceVersion is too old: list again
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            known.pop(name, None)
        else:
            known[name] = _versions(event["object"])
        yield ClusterFacts(version, _flat(known))


class _Version(msgspec.Struct, rename="camel"):
    git_version: str
    emulation_major: str = ""
    emulation_minor: str = ""


async def _server_version(api: client.ApiClient) -> str:
    """The version whose rules hold: the emulated one where the server says so (KEP-4330)."""
    response = await client.VersionApi(api).get_code_without_preload_content()
    version = msgspec.json.decode(await _read(response), type=_Version)
    if version.emulation_major and version.emulation_minor:
        return f"{version.emulation_major}.{version.emulation_minor}"
    return version.git_version


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = await response.read()
    if response.status != HTTPStatus.OK:
        raise ApiException(status=response.status, reason=response.reason)
    return body


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    # Not readline(): a definition is often longer than the reader's limit for a line.
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


def _versions(definition: dict[str, Any]) -> tuple[CustomResource, ...]:
    try:
        return from_definition(definition)
    except BadDefinitionError:
        return ()  # the API server checks them; what it lets through and we cannot read is unknown


def _flat(known: dict[str, tuple[CustomResource, ...]]) -> tuple[CustomResource, ...]:
    return tuple(one for name in sorted(known) for one in known[name])
