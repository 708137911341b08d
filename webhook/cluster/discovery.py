"""What the API server serves."""

import asyncio
from http import HTTPStatus

from webhook.cluster.rest import RefusedError, Rest
from webhook.objects.served import Served, read_resources


async def discover(rest: Rest) -> list[Served]:
    """Every resource: the core first, then groups as the server orders them, preferred first.

    Raises RefusedError or one of UNREACHED.
    """
    groups = (await rest.get("/apis"))["groups"]
    versions = ["v1"]
    for group in groups:
        preferred = group["preferredVersion"]["groupVersion"]
        others = [one["groupVersion"] for one in group["versions"]]
        versions += [preferred, *(one for one in others if one != preferred)]
    lists = await asyncio.gather(*(_resources(rest, version) for version in versions))
    return [one for resources in lists for one in resources]


async def _resources(rest: Rest, version: str) -> list[Served]:
    path = f"/apis/{version}" if "/" in version else f"/api/{version}"
    try:
        return list(read_resources(version, await rest.get(path)))
    except RefusedError as error:
        if error.is_passing or error.status == HTTPStatus.NOT_FOUND:
            return []  # an aggregated API whose server is down hides nobody else's kinds
        raise
