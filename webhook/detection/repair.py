"""The command that puts lost values back by hand, for people whose genguard changes nothing."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from webhook.detection.damage import Damage, LostValue
from webhook.detection.finding import FoundObject

_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_TYPE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,314}[A-Za-z0-9])?")
"""The type of a condition, as apimachinery pkg/apis/meta/v1/types.go:Condition allows it."""


def repair_command(where: FoundObject, subresource: str, damage: Damage) -> str:
    """A command line for a shell that puts lost values back into an object's status.

    "" where nothing is to be put back, or nobody saw whose the values were. `subresource` is the
    one that the object was written by: "status", or "" for the object itself.

    A JSON Patch names a condition by its index, which may be another one by now. So conditions
    are found by their type, by jq, and the object is replaced with the resourceVersion it had.
    """
    values = list(_values(damage.lost))
    if not damage.writer or not values or not _is_pasted_safely(where):
        return ""
    resource = f"{where.resource}.{where.group}" if where.group else where.resource
    target = [resource, where.name, *(("-n", where.namespace) if where.namespace else ())]
    flags = ["--subresource=status"] if subresource else []
    if [condition for condition, _ in values] == [None]:
        patch = json.dumps({"status": {"observedGeneration": values[0][1]}}, separators=(",", ":"))
        return shlex.join(["kubectl", "patch", *target, *flags, "--type=merge", "-p", patch])
    filters = " | ".join(
        f"{_field(condition)} = {json.dumps(value)}" for condition, value in values
    )
    return (
        f"{shlex.join(['kubectl', 'get', *target, '-o', 'json'])} | {shlex.join(['jq', filters])}"
        f" | {shlex.join(['kubectl', 'replace', *flags, '-f', '-'])}"
    )


def _values(lost: Sequence[LostValue]) -> Iterator[tuple[str | None, int | str]]:
    """Conditions and values that may stand in a command: numbers and digits, nothing else."""
    for one in lost:
        is_number = type(one.value) is int or _DIGITS.fullmatch(str(one.value)) is not None
        if is_number and (one.condition is None or _TYPE.fullmatch(one.condition)):
            yield one.condition, one.value


def _field(condition: str | None) -> str:
    if condition is None:
        return ".status.observedGeneration"
    return f'(.status.conditions[] | select(.type == "{condition}")).observedGeneration'


def _is_pasted_safely(where: FoundObject) -> bool:
    """Whoever forges a review chooses names: none may be a flag, or steer a terminal."""
    parts = (where.group, where.resource, where.namespace, where.name)
    return all(part.isprintable() and not part.startswith("-") for part in parts)
