"""The command that puts lost values back by hand, for people whose genguard changes nothing."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from webhook.detection.finding import FoundObject

_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_TYPE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,314}[A-Za-z0-9])?")
"""The type of a condition, as apimachinery pkg/apis/meta/v1/types.go:Condition allows it."""


class Lost(Protocol):
    """An observedGeneration that its writer sent and that is not stored."""

    @property
    def condition(self) -> str | None:
        """The type of its condition; None for status.observedGeneration itself."""

    @property
    def value(self) -> int | str:
        """What the writer sent."""


class Damage(Protocol):
    """What is wrong with a stored object; see webhook/detection/damage.py."""

    @property
    def lost(self) -> Sequence[Lost]:
        """The values that are not stored."""

    @property
    def writer(self) -> str:
        """Who sent them; "" where nobody saw it."""


class Damaged(Protocol):
    """A finding that left damage; see Ledger."""

    @property
    def object(self) -> FoundObject:
        """The object that is damaged."""

    @property
    def subresource(self) -> str:
        """By which it was written: "status", or "" for the object itself."""

    @property
    def damage(self) -> Damage:
        """What is wrong with it."""


def repair_command(damaged: Damaged) -> str:
    """A command line for a shell; "" where nothing is to be put back, or not known whose it was.

    A JSON Patch names a condition by its index, which may be another one by now. So conditions
    are found by their type, by jq, and the object is replaced with the resourceVersion it had.
    """
    where, damage = damaged.object, damaged.damage
    values = list(_values(damage.lost))
    if not damage.writer or not values or not _is_pasted_safely(where):
        return ""
    resource = f"{where.resource}.{where.group}" if where.group else where.resource
    target = [resource, where.name, *(("-n", where.namespace) if where.namespace else ())]
    subresource = ["--subresource=status"] if damaged.subresource else []
    if [condition for condition, _ in values] == [None]:
        patch = json.dumps({"status": {"observedGeneration": values[0][1]}}, separators=(",", ":"))
        return shlex.join(["kubectl", "patch", *target, *subresource, "--type=merge", "-p", patch])
    filters = " | ".join(
        f"{_field(condition)} = {json.dumps(value)}" for condition, value in values
    )
    return (
        f"{shlex.join(['kubectl', 'get', *target, '-o', 'json'])} | {shlex.join(['jq', filters])}"
        f" | {shlex.join(['kubectl', 'replace', *subresource, '-f', '-'])}"
    )


def _values(lost: Sequence[Lost]) -> Iterator[tuple[str | None, int | str]]:
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
