"""A genguard's webhooks are told from those of others, also where fields have the wrong type."""

import pytest

from genguard.admission.review import own_phase

LABELLED = {"metadata": {"name": "team", "labels": {"app.kubernetes.io/name": "genguard"}}}
NAMED = {"metadata": {"name": "0--genguard-intent"}}


@pytest.mark.parametrize(
    ("configuration", "hook", "phase"),
    [
        (LABELLED, {"clientConfig": {"service": {"path": "/intent"}}}, "/intent"),
        (LABELLED, {"clientConfig": {"url": "https://h:1/mutate?x=1"}}, "/mutate"),
        (LABELLED, {"clientConfig": {"url": "https://[::1/mutate"}}, "/"),
        (LABELLED, {"clientConfig": {"url": 7}}, "/"),
        (LABELLED, {}, "/"),
        (NAMED, {"clientConfig": {"service": {"path": "/outcome"}}}, "/outcome"),
        (NAMED, {"clientConfig": {"service": {"path": "/else"}}}, ""),
        (NAMED, {"clientConfig": []}, ""),
        ({}, {"name": "a.genguard.io", "clientConfig": {"url": "https://h/mutate"}}, "/mutate"),
        ({"metadata": {"labels": []}}, {"clientConfig": {"service": {"path": "/mutate"}}}, ""),
        ({"metadata": None}, {"name": None}, ""),
    ],
)  # fmt: skip
def test_by_label_or_by_name_and_path(configuration, hook, phase):
    assert own_phase(configuration, hook) == phase
