"""Mutating webhooks beside a fake API server: functions, or servers that run somewhere."""

import base64
import itertools
import json
import ssl
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError

from genguard.admission.decode import decode_review
from genguard.admission.matching import Registration, matched, read_configurations
from genguard.converge.chain import Document, Link, Matches, NotCalledError, Passed, run
from genguard.detection.mutators import Mutators
from genguard.objects.selectors import Truth
from genguard.testing.refusals import denied

Answer = Callable[[dict[str, Any]], Any]
_WRITES: Final = ("CREATE", "UPDATE")
_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class MutatingWebhook:
    """One webhook of a chain.

    name        of its MutatingWebhookConfiguration, as findings name it. FakeApiServer calls
                webhooks in the order in which it is given them, whatever their names are
    answer      a function that is given the AdmissionReview and returns the answer, also as an
                AdmissionReview, or only the operations of a JSON Patch; or the https URL of a
                server
    resources   as kubectl writes them: `deployments.apps`, `widgets.example.org/status`, `*`
    operations  CREATE and UPDATE, or one of them
    reinvoked   its reinvocationPolicy is IfNeeded: after a change by a later webhook it is called
                once more
    ca_file     of a URL: the CA certificates in PEM that its certificate is checked against
    """

    name: str
    answer: Answer | str
    resources: Sequence[str] = ("*",)
    operations: Sequence[str] = _WRITES
    reinvoked: bool = False
    ca_file: Path | str | None = None

    @property
    def configuration(self) -> Document:
        """The MutatingWebhookConfiguration that registers it."""
        hook = {
            "name": self.name,
            "rules": [_rule(resource, self.operations) for resource in self.resources],
            "reinvocationPolicy": "IfNeeded" if self.reinvoked else "Never",
            "sideEffects": "None",
        }
        kind = "MutatingWebhookConfiguration"
        return {"kind": kind, "metadata": {"name": self.name}, "webhooks": [hook]}

    def call(self, review: Document) -> Any:
        """Return the answer as an AdmissionReview. Raises NotCalledError for a URL."""
        if isinstance(self.answer, str):
            return _post(self.answer, review, self.ca_file)
        answer = self.answer(review)
        if not isinstance(answer, list | tuple):
            return answer
        patch = base64.b64encode(json.dumps(list(answer)).encode()).decode()
        return {"response": {"allowed": True, "patchType": "JSONPatch", "patch": patch}}


def every_order(webhooks: Sequence[MutatingWebhook]) -> list[tuple[MutatingWebhook, ...]]:
    """Return the webhooks in each order: the names of others may change that of yours.

    @pytest.mark.parametrize("webhooks", every_order([labels, sidecar]))
    """
    return list(itertools.permutations(webhooks))


def run_at_once(
    links: Sequence[Link],
    review: Mapping[str, Any],
    matches: Matches,
    call: Callable[[str, Document], Any],
) -> Passed:
    """Run without an event loop; `call` returns an answer or raises NotCalledError."""

    async def answer(name: str, asked: Document) -> Any:
        return call(name, asked)

    try:
        run(links, review, matches, answer).send(None)  # it waits for nothing
    except StopIteration as end:
        passed: Passed = end.value
        return passed
    raise AssertionError("a call waits for something")


class Chain:
    """The webhooks of a fake API server."""

    def __init__(self, webhooks: Sequence[MutatingWebhook]) -> None:
        """Take them in the order in which they are called; names must differ, or ValueError."""
        self._webhooks: Final = {webhook.name: webhook for webhook in webhooks}
        if len(self._webhooks) != len(webhooks):
            raise ValueError("two webhooks have one name")
        registered = read_configurations([webhook.configuration for webhook in webhooks])
        self._registered: Final[Mapping[str, Registration]] = {
            registration.configuration: registration for registration in registered
        }
        self._links: Final = [Link(webhook.name, webhook.reinvoked) for webhook in webhooks]

    @property
    def mutators(self) -> Mutators:
        """The webhooks as detectors know them."""
        return Mutators(self._registered.values())

    def admit(self, review: Document) -> Document:
        """Return what the webhooks make of the object of a review.

        Raises RequestRefusedError where one refuses the write, or cannot be called: failurePolicy
        Fail shows it.
        """
        passed = run_at_once(
            self._links, review, self._matches, lambda name, asked: self._webhooks[name].call(asked)
        )
        refused = passed.refused or "; ".join(f"{a}: {b}" for a, b in passed.missed.items())
        if refused:
            name, _, reason = refused.partition(": ")
            raise denied(f'admission webhook "{name}" denied the request: {reason}')
        return passed.object

    def _matches(self, name: str, review: Document) -> bool:
        request = decode_review(json.dumps(review).encode())
        return self._registered[name].covers(matched(request)) is not Truth.FALSE


def _rule(resource: str, operations: Sequence[str]) -> Document:
    named, _, subresource = resource.partition("/")
    plural, _, group = named.partition(".")
    below = f"/{subresource}" if subresource else ""
    return {
        "apiGroups": ["*" if plural == "*" else group],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": ["*/*" if resource == "*" else f"{plural}{below}"],
    }


def _post(url: str, review: Document, ca_file: Path | str | None) -> Any:
    context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    request = urllib.request.Request(  # noqa: S310 - the author of the test names the URL
        url, json.dumps(review).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS, context=context) as answer:  # noqa: S310
            return json.load(answer)
    except (URLError, OSError, ValueError) as error:
        raise NotCalledError(f"{url}: {error}") from error
