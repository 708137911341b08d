"""A probe: a dry run that asks whether genguard sees it, and is answered in a warning.

Asks    a dry run of an object with the annotation genguard.io/probe, whose value is hex digits
Answer  one warning a phase, which the API server hands to whoever sent the write (the header
        Warning, apiserver pkg/endpoints/filters/warning.go): the same value, then more
Relies  on dry runs being nobody's real write: no other request is answered so

It is the only proof from end to end: it went through the API server, over TLS, by the caBundle.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from genguard.admission.review import AdmissionRequest, Phase

PROBE: Final = "genguard.io/probe"
_VALUE: Final = re.compile(r"[0-9a-f]{8,32}")
_WORD: Final = re.compile(r"[^\s=]+")
_NAME: Final = "genguard-probe"
_annotations: Final = msgspec.json.Decoder(dict[str, str])
Seen = Mapping[str, Mapping[str, str]]
"""The phases that have seen a probe, and what the server said of itself in each."""


def warnings(
    request: AdmissionRequest, phase: Phase, about: Callable[[], Mapping[str, str]]
) -> tuple[str, ...]:
    """The warnings that answer a probe; none for every other request."""
    raw = msgspec.UNSET if request.object is None else request.object.metadata.annotations
    if not request.wire.dry_run or raw is msgspec.UNSET:
        return ()
    try:
        value = _annotations.decode(raw).get(PROBE, "")
    except msgspec.MsgspecError:
        return ()
    return (answer(value, phase, about()),) if _VALUE.fullmatch(value) else ()


def answer(value: str, phase: Phase, about: Mapping[str, str]) -> str:
    """The text of the warning; what is not a single word is left out."""
    said = {"phase": phase.value, **about}
    words = [f"{key}={word}" for key, word in said.items() if _WORD.fullmatch(word)]
    return " ".join((_NAME, value, *words))


def read_answers(warnings: Iterable[str], value: str) -> Seen:
    """Read from the warnings of a response which phases have seen a probe."""
    found = {}
    for warning in warnings:
        name, _, rest = warning.partition(" ")
        answered, *words = rest.split(" ")
        if name == _NAME and answered == value:
            about = dict(word.split("=", 1) for word in words if "=" in word)
            found[about.pop("phase", "")] = about
    return found
