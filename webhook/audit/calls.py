"""The API server's own record of its calls to mutating webhooks, in the annotations of an event.

mutation.webhook.admission.k8s.io/round_R_index_I   {"configuration","webhook","mutated"}, any level
patch.webhook.admission.k8s.io/round_R_index_I      {..., "patch":[RFC 6902]}, from level Request on
failed-open.mutation.webhook.admission.k8s.io/...   the name of a webhook that could not be asked
failed-open.validating.webhook.admission.k8s.io/... the same

Source: apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go. Round 1 is the reinvocation;
there is no round 2.
"""

import re
from collections.abc import Iterator, Mapping
from sys import intern
from typing import Any, Final, NamedTuple

import msgspec

_MUTATION: Final = "mutation.webhook.admission.k8s.io/"
_PATCH: Final = "patch.webhook.admission.k8s.io/"
_FAILED_OPEN: Final = (
    "failed-open.mutation.webhook.admission.k8s.io/",
    "failed-open.validating.webhook.admission.k8s.io/",
)
_PLACE: Final = re.compile(r"round_([0-9]{1,3})_index_([0-9]{1,6})")
_OWN_WEBHOOKS: Final = ".genguard.io"


class Operation(msgspec.Struct, frozen=True):
    """One of a JSON Patch; the value is looked at and never told."""

    op: str
    path: str
    value: Any = msgspec.UNSET
    source: str = msgspec.field(default="", name="from")


class Call(NamedTuple):
    """One call of a mutating webhook; `position` is the index among all webhooks.

    `operations` is None where the level shows no patch.
    """

    round: int
    position: int
    configuration: str
    webhook: str
    mutated: bool
    operations: tuple[Operation, ...] | None

    @property
    def name(self) -> str:
        """As findings name a webhook."""
        return intern(f"{self.configuration}/{self.webhook}")

    @property
    def is_own(self) -> bool:
        """One of genguard's own, which are never suspects."""
        return self.webhook.endswith(_OWN_WEBHOOKS)


class _Mutation(msgspec.Struct):
    configuration: str = ""
    webhook: str = ""
    mutated: bool = False


class _Patch(msgspec.Struct):
    patch: tuple[Operation, ...] | None = None


_mutations: Final = msgspec.json.Decoder(_Mutation)
_patches: Final = msgspec.json.Decoder(_Patch)


def read_calls(annotations: Mapping[str, str]) -> tuple[Call, ...]:
    """Every call in its order.

    Raises msgspec.MsgspecError and RecursionError for what no API server writes.
    """
    calls = []
    for key, value in annotations.items():
        if not key.startswith(_MUTATION):
            continue
        place = key[len(_MUTATION) :]
        numbers = _PLACE.fullmatch(place)
        if numbers is None:
            continue
        found = _mutations.decode(value)
        patch = annotations.get(_PATCH + place)
        operations = None if patch is None else _patches.decode(patch).patch or ()
        calls.append(
            Call(
                int(numbers[1]),
                int(numbers[2]),
                found.configuration,
                found.webhook,
                found.mutated,
                operations,
            )
        )
    return tuple(sorted(calls, key=lambda call: call[:2]))


def failed_open(annotations: Mapping[str, str]) -> Iterator[str]:
    """The webhooks that could not be asked and whose failurePolicy let the request pass."""
    for key, value in annotations.items():
        if key.startswith(_FAILED_OPEN):
            yield value
