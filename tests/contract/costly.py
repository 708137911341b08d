"""Small bodies of many values: less than 512 KiB each, and costly to examine or to compare."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tests.contract.hoard import Request
from tests.reviews import make_review

_PHASES: Final = ("/intent", "/mutate", "/outcome")


def _sent(number: int, new: Any, old: Any, resource: str, **more: Any) -> list[Request]:
    """Every phase of one write of an object of its own."""
    asked = make_review("UPDATE", resource, new, old, name=f"thing-{number}", **more)
    for each in (asked["request"]["object"], asked["request"]["oldObject"]):
        each["metadata"] |= {"uid": f"uid-{number % 50}", "name": f"thing-{number % 50}"}
    body = json.dumps(asked, separators=(",", ":")).encode()
    return [(path, body) for path in _PHASES]


def _reported(number: int, new: list[Any], old: list[Any]) -> list[Request]:
    """Conditions of a pod."""
    after, before = ({"status": {"conditions": each}} for each in (new, old))
    return _sent(number, after, before, "pods", subresource="status")


def _quantities(number: int) -> list[Request]:
    """Limits in another order: every quantity is parsed before they are known to be equal."""
    limits = {f"r{index}": f"{index}m" for index in range(8_000)}
    turned = dict(reversed(limits.items()))
    old, new = (
        {"spec": {"containers": [{"name": "a", "resources": {"limits": each}}]}}
        for each in (limits, turned)
    )
    return _sent(number, new, old, "pods")


def _containers(number: int) -> list[Request]:
    """A resize of 2,500 containers."""
    old, new = (
        {
            "spec": {
                "containers": [
                    {"name": f"c{index}", "resources": {"limits": {"cpu": f"{cpu}m"}}}
                    for index in range(2_500)
                ]
            }
        }
        for cpu in ("1000", "1000.0")
    )
    return _sent(number, new, old, "pods", subresource="resize")


def _cleared_conditions(number: int) -> list[Request]:
    """As many conditions as are restored, each with its observedGeneration cleared."""
    old = [{"type": f"t{index}", "observedGeneration": 3} for index in range(999)]
    new = [{"type": f"t{index}"} for index in range(999)]
    return _reported(number, new, old)


def _same_conditions(number: int) -> list[Request]:
    """Conditions of one type, so that each is paired by its position."""
    old = [{"type": "t", "observedGeneration": 3} for _ in range(999)]
    new = [{"type": "t"} for _ in range(999)]
    return _reported(number, new, old)


def _changed_conditions(number: int) -> list[Request]:
    """More conditions than are restored, each changed and in another place."""
    old = [{"type": f"t{index}", "status": "True"} for index in range(5_000)]
    new = [{"type": f"t{index}", "status": "False"} for index in reversed(range(5_000))]
    return _reported(number, new, old)


def _owners(number: int) -> list[Request]:
    old, new = (
        {
            "metadata": {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "A", "name": f"{turn}{index}",
                     "uid": f"{turn}{index}"}
                    for index in range(2_500)
                ]
            },
            "spec": {"replicas": 1},
        }
        for turn in "ab"
    )  # fmt: skip
    return _sent(number, new, old, "deployments")


def _env(number: int) -> list[Request]:
    """Environments of 8,000 variables each, with names that move."""
    env = [{"name": f"V{index}", "value": str(index + number)} for index in range(5_000)]
    old, new = (
        {"spec": {"template": {"spec": {"containers": [{"name": "a", "env": each}]}}}}
        for each in (env, env[::-1])
    )
    return _sent(number, new, old, "deployments")


def _annotations(number: int) -> list[Request]:
    old, new = (
        {"metadata": {"annotations": {f"{turn}{index}": "" for index in range(12_000)}}}
        for turn in "ab"
    )
    return _sent(number, new, old, "deployments")


def _managed_fields(number: int) -> list[Request]:
    old, new = (
        {
            "metadata": {
                "managedFields": [
                    {"manager": f"m{turn}{index}", "operation": "Update", "time": "x",
                     "fieldsV1": {f"f:{index}": {}}}
                    for index in range(2_000)
                ]
            },
            "spec": {"replicas": turn},
        }
        for turn in (1, 2)
    )  # fmt: skip
    return _sent(number, new, old, "deployments")


def _keys(number: int, count: int = 12_000) -> list[Request]:
    """Fields that no other write had."""
    old, new = ({"spec": {f"{number}{turn}{index}": 0 for index in range(count)}} for turn in "ab")
    return _sent(number, new, old, "widgets")


def _finalizers(number: int) -> list[Request]:
    old, new = (
        {"metadata": {"finalizers": [f"{turn}{index}" for index in range(15_000)]}} for turn in "ab"
    )
    return _sent(number, new, old, "deployments")


def _numbers(number: int) -> list[Request]:
    old, new = ({"spec": {"a": list(range(turn, 40_000 + turn))}} for turn in (0, 1))
    return _sent(number, new, old, "widgets")


def _containers_reported(number: int) -> list[Request]:
    """Statuses of 1,200 containers, which tracking reads."""
    old, new = (
        {
            "spec": {"containers": [{"name": f"c{index}"} for index in range(1_200)]},
            "status": {
                "phase": "Running",
                "containerStatuses": [
                    {"name": f"c{index}", "ready": turn, "restartCount": 1, "image": "i",
                     "imageID": "", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
                    for index in range(1_200)
                ],
            },
        }
        for turn in (True, False)
    )  # fmt: skip
    return _sent(number, new, old, "pods", subresource="status")


COSTLY: Final[dict[str, Callable[[int], list[Request]]]] = {
    "reordered quantities": _quantities,
    "containers resized": _containers,
    "conditions cleared": _cleared_conditions,
    "conditions of one type": _same_conditions,
    "conditions changed": _changed_conditions,
    "owners": _owners,
    "environments": _env,
    "annotations": _annotations,
    "managed fields": _managed_fields,
    "keys": _keys,
    "finalizers": _finalizers,
    "numbers": _numbers,
    "container statuses": _containers_reported,
}
NEARLY_LARGE: Final[dict[str, Callable[[int], list[Request]]]] = {
    "keys, nearly too many": partial(_keys, count=970)
}
"""As many values as the event loop examines itself; of all bodies above these cost it most."""
