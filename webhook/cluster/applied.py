"""Objects as they are wanted: server-side apply, and deletion of what was applied.

Source: kubernetes.io/docs/reference/using-api/server-side-apply. Fields that genguard no longer
sends and nobody else owns go away; fields of others are taken over, since the person who installs
has seen them in the plan.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from webhook.cluster.rest import RefusedError, Rest
from webhook.install.plan import Action, Step, compare
from webhook.install.where import collection_of, path_of
from webhook.manifest.kustomize import Document

MANAGER: Final = "genguard"
_IDENTITY: Final = ("uid", "resourceVersion")
_APPLY: Final = "application/apply-patch+yaml"
_PARAMS: Final = {"fieldManager": MANAGER, "force": "true"}


async def find(rest: Rest, document: Mapping[str, Any]) -> Document | None:
    """What there is of this kind and name. Raises RefusedError or UNREACHED."""
    try:
        found: Document = await rest.get(path_of(document))
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None
    return found


async def apply(rest: Rest, document: Document, *, dry_run: bool = False) -> Document:
    """Apply it; gives the object as it then is. Raises RefusedError or UNREACHED."""
    params = {**_PARAMS, "dryRun": "All"} if dry_run else _PARAMS
    applied: Document = await rest.call(
        "PATCH", path_of(document), document, params=params, content_type=_APPLY
    )
    return applied


async def plan_step(rest: Rest, document: Document) -> Step:
    """What applying it would do. Raises RefusedError or UNREACHED."""
    live = await find(rest, document)
    try:
        would = await apply(rest, document, dry_run=True)
    except RefusedError as error:
        # In a namespace that the plan itself creates.
        if live is not None or error.status != HTTPStatus.NOT_FOUND:
            raise
        return Step(Action.CREATE, document)
    return compare(document, live, would)


async def remove(rest: Rest, document: Mapping[str, Any]) -> None:
    """Delete it, if it is there. Raises RefusedError or UNREACHED."""
    try:
        await rest.call("DELETE", path_of(document), {"propagationPolicy": "Background"})
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


async def put_back(rest: Rest, document: Document) -> None:
    """Make it as it was, whatever it is by now. Raises RefusedError or UNREACHED."""
    now = await find(rest, document)
    metadata = {key: value for key, value in document["metadata"].items() if key not in _IDENTITY}
    if now is None:
        await rest.call("POST", collection_of(document), {**document, "metadata": metadata})
        return
    metadata |= {key: now["metadata"][key] for key in _IDENTITY}
    await rest.call("PUT", path_of(document), {**document, "metadata": metadata})


async def listed(rest: Rest, like: Mapping[str, Any], selector: str = "") -> list[Document]:
    """All of the kind, and namespace, of a document, with the kind that lists leave out."""
    params = {"labelSelector": selector} if selector else {}
    found = await rest.get(collection_of(like), **params)
    told = {"apiVersion": like["apiVersion"], "kind": like["kind"]}
    return [{**one, **told} for one in found["items"]]
