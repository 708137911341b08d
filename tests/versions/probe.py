"""Writes to every kind of an API server, and holds what is stored against the library."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.controlplane.client import Client
from tests.controlplane.discovery import ServedResource
from tests.controlplane.options import Options
from tests.differential.samples import Filler, load_samples, notation
from tests.differential.tally import compare, predicted_by_library
from tests.differential.writes import Target
from tests.versions.contract import NAMESPACE, live
from tools.versions.published import Release


@dataclass(frozen=True, slots=True)
class Probed:
    """What the writes to one server showed."""

    writes: int
    kinds: frozenset[str]
    disagreements: tuple[str, ...]
    without_sample: tuple[str, ...]
    """Kinds that tests/differential/samples.yaml has no object of."""
    refused: tuple[str, ...]
    """Kinds of which the server did not store the sample."""


def every_api(release: Release) -> Options:
    """An API server of the release's minor that serves whatever a gate or a flag can turn on."""
    return Options(
        minor=release.minor,
        runtime_config={"api/all": "true"},
        feature_gates=release.gates_of_kinds,
        start_timeout=180.0,
    )


def probe(client: Client, served: Sequence[ServedResource], version: str) -> Probed:
    """Create, change and delete an object of each kind, in every version that it is served in."""
    client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}, check=False)
    samples = load_samples()
    known = [one for one in served if notation(one) in samples]
    targets = [
        Target(client, one, samples[notation(one)], Filler(number, NAMESPACE), NAMESPACE)
        for number, one in enumerate(known)
    ]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(live, targets))
    found = []
    for target in targets:
        for written in target.written:
            predicted = predicted_by_library(written, version)
            name = f"{written.resource.api_version} {notation(written.resource)}"
            found += [
                f"{name} {written.subresource} {written.what}: {text}"
                for text in compare(predicted, written, alone=True)
            ]
    stored = {notation(one.resource) for one in targets if one.written}
    return Probed(
        writes=sum(len(one.written) for one in targets),
        kinds=frozenset(stored),
        disagreements=tuple(found),
        without_sample=tuple(sorted({notation(one) for one in served} - samples.keys())),
        refused=tuple(
            sorted(
                f"{one.resource.api_version} {notation(one.resource)}"
                for one in targets
                if not one.written
            )
        ),
    )
