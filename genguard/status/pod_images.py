"""Tells containers that still run the image of an earlier spec of their pod.

A kubelet writes the new observedGeneration before it replaces the container whose image changed
(pkg/kubelet/kubelet.go:SyncPod), and a container has up to terminationGracePeriodSeconds to end.
Meanwhile the old container is shown, and may be Ready.

The names of images do not tell: containerd reports the first tag of an image, which may be another
tag or another registry than spec names, for ever. The container itself tells: a kubelet starts
another one for another image, whatever the restartPolicy (kuberuntime_manager.go:containerChanged).
So it is remembered which image spec asked for when a container was first seen. A container is old
when spec asks for another image now and status does not show that image.

Not evaluated: containers without an ID (kwok), init containers that run to their end, and pods that
were not seen before the change. For these only the kubelet's own words count.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from genguard.objects.fields import items
from genguard.status.view import Blocks, Reason

MOST_CONTAINERS: Final = 20
"""Of one pod: the images of more are not remembered."""
_DIGEST: Final = 6
_ENTRY: Final = 2 * _DIGEST
MOST_BYTES: Final = MOST_CONTAINERS * _ENTRY
_LISTS: Final = (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses"))
_LONGEST_LABEL: Final = 63
_NOTE: Final = "the container was started for another image and is not replaced yet"


class _Shown(NamedTuple):
    """One container in status, and the image that spec asks for."""

    path: str
    key: bytes
    wanted: str
    status: Mapping[str, Any]


def remember_images(known: bytes, document: Mapping[str, Any]) -> bytes:
    """Return for each container in status which image spec asked for when it was first seen.

    known     what this function returned for an earlier state of the same pod
    document  a decoded pod; nothing is remembered of other kinds
    """
    if not _is_pod(document):
        return b""
    images = _images_of(known)
    return b"".join(
        shown.key + images.get(shown.key, _digest(canonical_image(shown.wanted)))
        for shown in _containers(document)
    )[:MOST_BYTES]


def find_old_containers(known: bytes, document: Mapping[str, Any]) -> Iterator[Reason]:
    """Yield a reason against settled for each container that surely runs an earlier image."""
    images = _images_of(known)
    for shown in _containers(document) if images and _is_pod(document) else ():
        first = images.get(shown.key)
        if first is None or first == _digest(canonical_image(shown.wanted)):
            continue
        if not _shows(shown.status, shown.wanted):
            yield Reason(shown.path, "earlier", "that of spec", _NOTE, Blocks.SETTLED)


def canonical_image(reference: str) -> str:
    """Return the full name of an image: `nginx` becomes `docker.io/library/nginx:latest`.

    A digest tells an image whatever its name and tag, so it is all that is returned of
    `nginx:1@sha256:ab`. Source: github.com/distribution/reference, normalize.go.
    """
    name, _, digest = reference.partition("@")
    if digest:
        return f"@{digest}"
    host, slash, rest = name.partition("/")
    is_registry = bool(slash) and (
        host == "localhost" or host != host.lower() or "." in host or ":" in host
    )
    registry, path = (host, rest) if is_registry else ("docker.io", name)
    if registry == "index.docker.io":
        registry = "docker.io"
    if registry == "docker.io" and "/" not in path:
        path = f"library/{path}"
    tag = "" if ":" in path.rpartition("/")[2] else ":latest"
    return f"{registry}/{path}{tag}"


def container_key(item: Mapping[str, Any], index: int) -> str:
    """Return a container's name, or its index when the name is not a DNS label."""
    name = item.get("name")
    is_label = isinstance(name, str) and name.isascii() and name.replace("-", "").isalnum()
    return str(name) if is_label and len(str(name)) <= _LONGEST_LABEL else str(index)


def _shows(status: Mapping[str, Any], wanted: str) -> bool:
    """Whether image or imageID of a container's status is the image that spec asks for."""
    canonical = canonical_image(wanted)
    for key in ("image", "imageID"):
        text = status.get(key)
        # Docker wrote imageID as docker-pullable://NAME@DIGEST.
        if isinstance(text, str) and canonical_image(text.rpartition("://")[2]) == canonical:
            return True
    return False


def _containers(document: Mapping[str, Any]) -> Iterator[_Shown]:
    """Yield the containers that status shows with an ID, and of which spec names the image."""
    spec, status = document.get("spec"), document.get("status")
    if not isinstance(spec, Mapping) or not isinstance(status, Mapping):
        return
    for in_spec, in_status in _LISTS:
        started = [
            (index, item, item["containerID"])
            for index, item in enumerate(_objects(status.get(in_status)))
            if item.get("containerID")
        ]
        if not started:
            continue
        wanted = {
            declared["name"]: declared["image"]
            for declared in _objects(spec.get(in_spec))
            if isinstance(declared.get("name"), str)
            and isinstance(declared.get("image"), str)
            and (in_spec == "containers" or declared.get("restartPolicy") == "Always")
        }
        for index, item, container in started:
            name = item.get("name")
            image = wanted.get(name) if isinstance(name, str) else None
            if image is not None and isinstance(container, str):
                path = f"status.{in_status}[{container_key(item, index)}].image"
                yield _Shown(path, _digest(f"{name}\0{container}"), image, item)


def _is_pod(document: Mapping[str, Any]) -> bool:
    return document.get("kind") == "Pod" and document.get("apiVersion") == "v1"


def _objects(listed: object) -> Iterator[Mapping[str, Any]]:
    return (item for item in items(listed) if isinstance(item, dict))


def _images_of(known: bytes) -> dict[bytes, bytes]:
    starts = range(0, len(known), _ENTRY)
    return {known[at : at + _DIGEST]: known[at + _DIGEST : at + _ENTRY] for at in starts}


def _digest(text: str) -> bytes:
    return blake2b(text.encode(errors="replace"), digest_size=_DIGEST).digest()
