"""What is said of something that nothing can be found about."""

from genguard.generation.custom import CustomResource, StatusSubresource
from tests.cases_loader import table
from webhook.cluster.coverage import Coverage

LEFT_OUT = ("kube-system", "kube-public")
OUTCOME = {
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "zzzzzz-genguard-outcome"},
    "webhooks": [
        {
            "name": "outcome.genguard.io",
            "clientConfig": {"service": {"path": "/outcome"}},
            "rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "operations": ["*"]}],
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": LEFT_OUT}
                ]
            },
        }
    ],
}


def known() -> Coverage:
    found = Coverage(watched={"gadgets.example.org": True, "gears.example.org": False})
    found.custom = tuple(
        CustomResource("example.org", "v1", f"{name}s", name.title(), StatusSubresource.PRESENT)
        for name in ("widget", "gadget", "gear")
    )
    names = (*LEFT_OUT, "shop")
    found.learn_namespaces({"kubernetes.io/metadata.name": one} for one in names)
    found.learn_hooks([OUTCOME])
    return found


@table("cluster/not_watched.yaml", "kind", "namespace", "says")
def test_nothing_is_found_for_a_reason(case):
    said = known().why_nothing(case.get("kind", ""), case.get("namespace", ""))
    assert said == case["says"], case.because


def test_a_server_without_a_cluster_says_that_it_does_not_know():
    assert "has read no cluster" in Coverage().why_nothing("", "")
