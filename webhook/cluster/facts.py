"""What is asked of a cluster: its version, custom resources, mutating webhooks and policies.

Everything is listed and watched, so that a new custom resource is judged right from its first
object on. The admission path never waits for any of this.
"""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec

from webhook.cluster.rest import RefusedError, Rest
from webhook.cluster.watched import watched
from webhook.detection.policies import BINDING, POLICY
from webhook.detection.suspects import Registered, read_configurations
from webhook.generation.custom import BadDefinitionError, CustomResource, from_definition

_UNSERVED_SECONDS: Final = 600.0
"""Until a server without policies is asked again: it may have been upgraded."""
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io"
_WEBHOOKS: Final = f"{_ADMISSION}/v1/mutatingwebhookconfigurations"
_PLURALS: Final = {
    POLICY: "mutatingadmissionpolicies",
    BINDING: "mutatingadmissionpolicybindings",
}


class ClusterFacts(NamedTuple):
    """What the engine needs to know of a cluster."""

    server_version: str
    custom_resources: tuple[CustomResource, ...]


async def cluster_facts(rest: Rest) -> AsyncIterator[ClusterFacts]:
    """Version and custom resources, now and at each change, until the server ends the watch."""
    version = await server_version(rest)
    async for known in watched(rest, _DEFINITIONS, _versions):
        yield ClusterFacts(version, tuple(one for versions in known for one in versions))


async def definitions(rest: Rest) -> list[dict[str, Any]]:
    """Every CustomResourceDefinition of now. Raises RefusedError or one of UNREACHED."""
    found: list[dict[str, Any]] = msgspec.json.decode(await rest.read(_DEFINITIONS))["items"]
    return found


async def mutating_webhooks(rest: Rest) -> AsyncIterator[tuple[Registered, ...]]:
    """Every mutating webhook, now and at each change, until the server ends the watch."""
    async for known in watched(rest, _WEBHOOKS, dict):
        yield read_configurations(known)


async def policies(rest: Rest, kind: str) -> AsyncIterator[tuple[dict[str, Any], ...]]:
    """Every MutatingAdmissionPolicy, or every binding of one, by `kind`, as `mutating_webhooks`.

    In the newest version that is served: v1 since 1.36, before that none by default. Where none is
    there are no policies, for a while.
    """
    for version in ("v1", "v1beta1", "v1alpha1"):
        try:
            async for known in watched(rest, f"{_ADMISSION}/{version}/{_PLURALS[kind]}", dict):
                yield known
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        else:
            return
    yield ()
    await asyncio.sleep(_UNSERVED_SECONDS)


class _Version(msgspec.Struct, rename="camel"):
    git_version: str
    emulation_major: str = ""
    emulation_minor: str = ""


async def server_version(rest: Rest) -> str:
    """The version whose rules hold: the emulated one where the server says so (KEP-4330).

    Raises RefusedError or one of UNREACHED.
    """
    version = msgspec.json.decode(await rest.read("/version"), type=_Version)
    if version.emulation_major and version.emulation_minor:
        return f"{version.emulation_major}.{version.emulation_minor}"
    return version.git_version


def _versions(definition: dict[str, Any]) -> tuple[CustomResource, ...]:
    try:
        return from_definition(definition)
    except BadDefinitionError:
        return ()  # the API server checks them; what it lets through and we cannot read is unknown
