"""Call mutating webhooks one after the other for a write, as an API server does, and see each step.

Source  apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go and reinvocationcontext.go:
        after a webhook that changed the object, those with reinvocationPolicy IfNeeded that were
        called before it are called once more, when all have been called
"""

import base64
import binascii
import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import jsonpatch
import msgspec

Document = dict[str, Any]


class NotCalledError(Exception):
    """A webhook could not be called, or its answer is none; the message says why."""


class Link(NamedTuple):
    """One webhook of a chain.

    name       as findings name it: CONFIGURATION/WEBHOOK
    reinvoked  its reinvocationPolicy is IfNeeded
    """

    name: str
    reinvoked: bool = False


class Step(NamedTuple):
    """What one call of a webhook made of an object."""

    webhook: str
    before: Document
    after: Document

    @property
    def has_changed(self) -> bool:
        """Whether the webhook changed anything."""
        return self.before != self.after


@dataclass(slots=True)
class Passed:
    """How a write came through a chain.

    object   what the chain made of it
    refused  who refused the write, and why; "" where nobody did
    missed   the webhooks that could not be called, with the reason
    """

    object: Document
    steps: list[Step] = field(default_factory=list)
    refused: str = ""
    missed: dict[str, str] = field(default_factory=dict)


Call = Callable[[str, Document], Awaitable[Any]]
"""Sends a webhook an AdmissionReview; returns its answer or raises NotCalledError."""
Matches = Callable[[str, Document], bool]
"""Whether the API server calls a webhook for a review."""


async def run(
    links: Sequence[Link], review: Mapping[str, Any], matches: Matches, call: Call
) -> Passed:
    """Send a write through all webhooks that match it. The review stays as it is."""
    passed = Passed(copy.deepcopy(review["request"]["object"]))
    called: list[Link] = []  # before the last change, and to be reinvoked if there is another one
    again: list[Link] = []
    for is_again in (False, True):
        for link in links:
            if is_again and link not in again:
                continue
            asked = {**review, "request": {**review["request"], "object": passed.object}}
            has_changed = False
            if matches(link.name, asked):
                has_changed = await _step(link.name, asked, passed, call)
            if passed.refused:
                return passed
            if has_changed:
                again += called
                called.clear()
            if link.reinvoked:
                called.append(link)
    return passed


async def _step(name: str, asked: Document, passed: Passed, call: Call) -> bool:
    """Call one webhook; return whether it changed the object."""
    try:
        refused, after = _answer(await call(name, asked), passed.object)
    except NotCalledError as error:
        passed.missed[name] = str(error)
        return False
    if refused is not None:
        passed.refused = f"{name}: {refused}"
        return False
    step = Step(name, passed.object, after)
    passed.steps.append(step)
    passed.object = after
    return step.has_changed


class _Status(msgspec.Struct):
    message: str | None = None


class _Response(msgspec.Struct, rename="camel"):
    allowed: bool
    patch: str | None = None
    status: _Status | None = None


class _Answer(msgspec.Struct):
    response: _Response


_NO_REASON: Final = "refused without a reason"


def _answer(answer: Any, document: Document) -> tuple[str | None, Document]:
    """Return why a webhook refuses a write, or None, and what it makes of the object."""
    try:
        response = msgspec.convert(answer, _Answer).response
        if not response.allowed:
            said = response.status.message if response.status else ""
            return said or _NO_REASON, document
        if not response.patch:
            return None, document
        encoded = response.patch.replace("\n", "").replace("\r", "")  # as Go's decoder
        patch = jsonpatch.JsonPatch.from_string(base64.b64decode(encoded, validate=True))
        after = patch.apply(document)
    except (msgspec.MsgspecError, binascii.Error, ValueError, RecursionError) as error:
        raise NotCalledError(f"its answer is not valid: {error}") from error
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        # The library's own text has values of the object.
        raise NotCalledError(f"its patch does not apply: {type(error).__name__}") from error
    if not isinstance(after, dict):
        raise NotCalledError("its patch leaves no object")
    return None, after
