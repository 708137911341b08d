"""The right that is missing, as a refusal names it and `kubectl auth can-i` takes it."""

import pytest

from webhook.cluster.rest import RefusedError

WHO = 'is forbidden: User "u" cannot'


@pytest.mark.parametrize(
    ("status", "message", "right", "because"),
    [
        (
            403,
            f'pods {WHO} list resource "pods" in API group "" in the namespace "shop"',
            "list pods -n shop",
            "the core group has no name",
        ),
        (
            403,
            f'x "web" {WHO} get resource "deployments" in API group "apps": RBAC: y',
            "get deployments.apps",
            "the name of an object, and the words of an authorizer",
        ),
        (
            403,
            f'nodes {WHO} list resource "nodes" in API group "" at the cluster scope',
            "list nodes",
            "no namespace",
        ),
        (
            403,
            f'x {WHO} create resource "pods/portforward" in API group "" in the namespace "n"',
            "create pods --subresource=portforward -n n",
            "a subresource is a flag of its own",
        ),
        (403, 'pods "a" is forbidden: exceeded quota: none', "", "a quota is no right"),
        (403, f'{WHO} get path "/apis"', "", "a path is no resource"),
        (
            409,
            f'pods {WHO} list resource "pods" in API group "" in the namespace "shop"',
            "",
            "text of an object in another answer",
        ),
    ],
)
def test_the_right_is_read_from_the_refusal(status, message, right, because):
    assert RefusedError(status, message).missing_right == right, because


def test_a_refusal_of_several_lines_is_one():
    assert str(RefusedError(403, "not held:\n{a}\n{b}")) == "not held: {a} {b} (403)"
