"""Whether two webhooks can be called for one request, by their rules alone."""

from collections.abc import Iterator

from webhook.lint.hook import Hook, Target


def targets_of(hook: Hook) -> Iterator[Target]:
    """A request for each resource and operation that the rules name; `*` stays one."""
    for rule in hook.rules:
        for group in rule.groups:
            for name in rule.resources:
                resource, _, subresource = name.partition("/")
                for operation in rule.operations:
                    namespaced = rule.scope != "Cluster"
                    yield Target(group, resource, subresource, operation, namespaced)


def overlap(one: Hook, other: Hook) -> bool:
    """Whether some request of the one matches the other, or the other way round."""
    return _covered(one, other) or _covered(other, one)


def _covered(one: Hook, other: Hook) -> bool:
    return any(any(other.covering(target)) for target in targets_of(one))
