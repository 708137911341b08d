"""Reads, applies, restores and deletes the objects of an installation.

The server's objects are applied (kubernetes.io/docs/reference/using-api/server-side-apply), so that
fields of others stay. Registrations are replaced as a whole, except for rules of other resources:
one more matchCondition or an objectSelector would decide whether genguard is called at all.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from genguard.linting.hook import FOLLOWED, GENGUARD
from webhook.cluster.rest import APPLY_PATCH, RefusedError, Rest
from webhook.install.plan import Action, Step, compare
from webhook.install.registering import RUN, merged
from webhook.manifest.documents import Document, collection_of, path_of
from webhook.manifest.rendering import is_registration

_IDENTITY: Final = ("uid", "resourceVersion")
_PARAMS: Final = {"fieldManager": GENGUARD, "force": "true"}
_KINDS: Final = (
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("v1", "Namespace"),
)


async def find(rest: Rest, document: Mapping[str, Any]) -> Document | None:
    """Return the stored object of this kind and name, if any. Raises RefusedError or UNREACHED."""
    try:
        found: Document = await rest.get(path_of(document))
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None
    return found


async def apply(rest: Rest, document: Document, *, dry_run: bool = False) -> Document:
    """Apply an object, and return it as it is stored then. Raises RefusedError or UNREACHED."""
    dry = {"dryRun": "All"} if dry_run else {}
    if is_registration(document):
        return await _replace(rest, document, dry)
    applied: Document = await rest.call(
        "PATCH", path_of(document), document, params=_PARAMS | dry, content_type=APPLY_PATCH
    )
    return applied


async def _replace(rest: Rest, document: Document, dry: dict[str, str]) -> Document:
    live = await find(rest, document)
    params = {"fieldManager": GENGUARD} | dry
    if live is None:
        made: Document = await rest.call("POST", collection_of(document), document, params=params)
        return made
    metadata = live["metadata"] | {
        key: {**(live["metadata"].get(key) or {}), **document["metadata"].get(key, {})}
        for key in ("labels", "annotations")
    }
    metadata["annotations"].pop(FOLLOWED, None)  # its server says so once it has narrowed the rules
    body = merged(document, live) | {"metadata": metadata}
    replaced: Document = await rest.call("PUT", path_of(document), body, params=params)
    return replaced


async def plan_step(rest: Rest, document: Document) -> Step:
    """Return what applying an object would change. Raises RefusedError or UNREACHED."""
    live = await find(rest, document)
    try:
        would = await apply(rest, document, dry_run=True)
    except RefusedError as error:
        # The namespace is created by the plan itself.
        if live is not None or error.status != HTTPStatus.NOT_FOUND:
            raise
        return Step(Action.CREATE, document)
    return compare(document, live, would)


async def remove(rest: Rest, document: Mapping[str, Any]) -> None:
    """Delete an object, if it exists. Raises RefusedError or UNREACHED."""
    try:
        await rest.call("DELETE", path_of(document), {"propagationPolicy": "Background"})
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


async def put_back(rest: Rest, document: Document, before: Document | None) -> None:
    """Restore an object to what it was, None if it did not exist; unchanged ones are left alone.

    Raises RefusedError or UNREACHED.
    """
    now = await find(rest, document)
    if before is None:
        if now is not None:
            await remove(rest, document)
        return
    old = before["metadata"]
    metadata = {key: value for key, value in old.items() if key not in _IDENTITY}
    if now is None:
        await rest.call("POST", collection_of(document), {**before, "metadata": metadata})
    elif now["metadata"]["resourceVersion"] != old["resourceVersion"]:
        metadata |= {key: now["metadata"][key] for key in _IDENTITY}
        await rest.call("PUT", path_of(document), {**before, "metadata": metadata})


async def list_objects(rest: Rest, like: Mapping[str, Any], selector: str = "") -> list[Document]:
    """Return all objects of the kind and namespace of `like`, with the kind that lists omit."""
    params = {"labelSelector": selector} if selector else {}
    return await rest.list_all(collection_of(like), params, kind=like["kind"])


async def leftovers(rest: Rest) -> list[Document]:
    """Return what unfinished installations left: trial namespaces and test configurations.

    Raises RefusedError or UNREACHED.
    """
    found = []
    for version, kind in _KINDS:
        found += await list_objects(rest, {"apiVersion": version, "kind": kind}, RUN)
    return [one for one in found if "deletionTimestamp" not in one["metadata"]]
