"""The three registrations: in the right order, of the right writes, and never in anybody's way."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genguard.generation.table import load_rows
from genguard.objects.fields import fields_of
from genguard.objects.observed import read_observed, restorations
from genguard.objects.selectors import Truth
from tests.cases_loader import read_beside, table
from tests.reviews import make_review
from tests.unit.detection.builders import INTENT, reviewed
from tests.unit.detection.evaluating import CONDITIONS
from tests.unit.manifest_files import MANIFESTS, registrations, server_objects, webhook_of

ALL = registrations()
ACCOUNT = server_objects()["ServiceAccount"]["metadata"]
GENGUARD = f"system:serviceaccount:{ACCOUNT['namespace']}:{ACCOUNT['name']}"
EACH = pytest.mark.parametrize("name", ALL)
HOOKS = {hook["name"]: hook for one in ALL.values() for hook in one["webhooks"]}
EACH_HOOK = pytest.mark.parametrize("hook", HOOKS)
LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = re.compile(rf"{LABEL}(\.{LABEL})*")  # RFC 1123, what the API server demands of a name

FIRST, LAST = (ALL[name]["metadata"]["name"] for name in ("intent", "mutate"))
OF_OTHER_PRODUCTS = read_beside(__file__, "other_registrations.yaml")


def rules(name):
    return webhook_of(ALL[name])["rules"]


def watched(name, operation):
    """(group, version, resource) of every rule for an operation."""
    return {
        (group, version, resource)
        for rule in rules(name)
        if operation in rule["operations"]
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for resource in rule["resources"]
    }


@pytest.mark.parametrize("other", OF_OTHER_PRODUCTS)
def test_intent_comes_before_and_mutate_after_the_products_that_people_run(other):
    assert FIRST.encode() < other.encode() < LAST.encode()


@given(st.from_regex(SUBDOMAIN, fullmatch=True).filter(lambda name: len(name) <= 253))
def test_only_a_name_chosen_to_be_first_or_last_is_outside_the_two(other):
    assert other > FIRST or other == "0" or other.startswith("0--")
    assert other < LAST or other.startswith("zzzzzz")


@pytest.mark.parametrize(
    ("name", "kind", "webhook", "path", "reinvocation"),
    [
        ("intent", "Mutating", "intent.genguard.io", "/intent", "Never"),
        ("mutate", "Mutating", "mutate.genguard.io", "/mutate", "IfNeeded"),
        ("outcome", "Validating", "outcome.genguard.io", "/outcome", None),
    ],
)
def test_each_is_called_where_and_as_often_as_its_phase_needs(
    name, kind, webhook, path, reinvocation
):
    registration = ALL[name]
    found = webhook_of(registration)
    assert registration["kind"] == f"{kind}WebhookConfiguration"
    assert found["name"] == webhook
    assert found.get("reinvocationPolicy") == reinvocation
    service, metadata = found["clientConfig"]["service"], server_objects()["Service"]["metadata"]
    assert (service["name"], service["namespace"]) == (metadata["name"], metadata["namespace"])
    assert service["path"] == path
    assert service["port"] == server_objects()["Service"]["spec"]["ports"][0]["port"]


@EACH_HOOK
@table("manifests/registration_fields.yaml", "field", "value")
def test_nothing_stands_in_a_writer_s_way(hook, case):
    assert HOOKS[hook].get(case["field"]) == case["value"], case.because


@EACH_HOOK
def test_namespaces_that_the_cluster_or_genguard_lives_by_are_left_out(hook):
    assert HOOKS[hook]["namespaceSelector"] == {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",  # set by the API server, not by the author
                "operator": "NotIn",
                "values": ["genguard-system", "kube-system", "kube-node-lease", "kube-public"],
            }
        ]
    }


@EACH
@pytest.mark.parametrize(
    ("user", "subresource", "called", "because"),
    [
        (GENGUARD, None, Truth.FALSE, "it would wait for itself"),
        (GENGUARD, "scale", Truth.FALSE, "the same"),
        (GENGUARD, "status", Truth.TRUE, "what it puts back is protected from other webhooks"),
        ("system:serviceaccount:default:genguard", None, Truth.TRUE, "somebody else"),
        ("alice", "status", Truth.TRUE, "somebody else"),
    ],
)
def test_of_genguard_s_own_writes_those_of_status_alone_are_seen(
    name, user, subresource, called, because
):
    stored = {"metadata": {"name": "web"}}
    asked = make_review(new=stored, old=stored, user=user, subresource=subresource)
    (condition,) = webhook_of(ALL[name])["matchConditions"]
    expression, request = condition["expression"], reviewed(asked, INTENT).request
    assert CONDITIONS.evaluate([expression], request) == {expression: called}, because


def clears(old, new):
    """Whether the API server calls /repair."""
    (condition,) = HOOKS["repair.genguard.io"]["matchConditions"]
    request = reviewed(make_review(new=new, old=old, subresource="status"), INTENT).request
    expression = condition["expression"]
    return CONDITIONS.evaluate([expression], request)[expression] is Truth.TRUE


def repairs(old, new):
    """Whether genguard restores something, by the same two objects."""
    wanted, found = (read_observed(fields_of(one).get("status")) for one in (old, new))
    return wanted is not None and found is not None and any(restorations(wanted, found))


@table("manifests/cleared.yaml", "old", "new", "called")
def test_what_clears_an_observed_generation_is_sent_for_repair(case):
    old, new = case["old"], case["new"]
    assert (clears(old, new), repairs(old, new)) == (case["called"],) * 2, case.because


GENERATIONS = st.sampled_from([0, 1, 7, -1, None, "", "4", "0", "hash"])
CONDITION = st.fixed_dictionaries(
    {"type": st.sampled_from(["Ready", "Synced", "Other"])},
    optional={"observedGeneration": GENERATIONS},
)
DIFFERENT = st.lists(CONDITION, max_size=3, unique_by=lambda one: one["type"])
STATUS = st.fixed_dictionaries(
    {}, optional={"observedGeneration": GENERATIONS, "conditions": st.none() | DIFFERENT}
)
OBJECT = st.fixed_dictionaries({}, optional={"status": st.none() | STATUS})


@given(OBJECT, OBJECT)
def test_the_condition_is_as_wide_as_what_is_repaired(old, new):
    assert clears(old, new) == repairs(old, new)


@EACH
def test_there_is_no_wildcard(name):
    """`*/*` sees Leases and access reviews, and slows what the cluster lives by."""
    for rule in rules(name):
        for field in ("apiGroups", "apiVersions", "resources", "operations"):
            assert rule[field]
            assert not any("*" in value for value in rule[field]), rule


def test_all_three_see_the_same_writes():
    for operation in ("CREATE", "UPDATE"):
        assert watched("intent", operation) == watched("mutate", operation)
        assert watched("mutate", operation) == watched("outcome", operation)


def test_only_the_registration_that_can_send_no_patch_hears_of_deletions():
    """A patch in answer to a DELETE fails the request, whatever the failurePolicy."""
    assert watched("intent", "DELETE") == watched("mutate", "DELETE") == set()
    assert watched("outcome", "DELETE") == watched("outcome", "CREATE")


ROWS = {(row.group, row.resource): row for row in load_rows()}


def test_every_rule_names_what_the_api_server_serves():
    for group, version, resource in watched("mutate", "UPDATE"):
        main, _, subresource = resource.partition("/")
        row = ROWS[group, main]
        assert version in row.versions
        assert not subresource or subresource in row.subresources, resource


def test_every_status_and_scale_of_a_watched_kind_is_watched():
    found = {(group, resource) for group, _, resource in watched("mutate", "UPDATE")}
    wanted = {"status", "scale", "resize", "ephemeralcontainers"}
    for group, resource in {pair for pair in found if "/" not in pair[1]}:
        for subresource in wanted & set(ROWS[group, resource].subresources):
            assert (group, f"{resource}/{subresource}") in found


def left_out():
    """The first cells of the table in manifests/README.md."""
    table = (MANIFESTS / "README.md").read_text().split("Excluded, although", 1)[1].split("\n\n")[1]
    rows = table.splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`([a-z]+)`", row.split("|")[1])}


def test_what_is_not_watched_is_left_out_for_a_reason_or_has_nothing_to_watch():
    found = {(group, resource) for group, _, resource in watched("mutate", "UPDATE")}
    worth_watching = {
        (row.group, row.resource)
        for row in load_rows()
        if row.persisted
        and row.enabled_by_default
        and not row.served_until
        and ("status" in row.subresources or row.behaviour[-1].compare)
    }
    unwatched = {resource for _, resource in worth_watching - found}
    assert unwatched == left_out()


@pytest.mark.parametrize(
    "resource",
    ["secrets", "leases", "events", "nodes", "pods/binding", "pods/exec", "tokenreviews"],
)
def test_what_must_never_be_asked_for(resource):
    assert resource not in {name for _, _, name in watched("outcome", "UPDATE")}
    assert resource not in {name for _, _, name in watched("outcome", "CREATE")}
