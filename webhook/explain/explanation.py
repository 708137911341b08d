"""All that genguard knows of one kind, as a value; `-o json` prints it as it is."""

import msgspec

from webhook.explain.definition import Column, Version
from webhook.explain.judged import Judged, judged
from webhook.generation.custom import StatusSubresource, custom_strategy
from webhook.generation.strategy import (
    Equality,
    OnCreate,
    OnDelete,
    Propagation,
    Strategy,
    SubresourceRule,
)
from webhook.generation.table import Behaviour, GenerationTable, Keeper, Row, Writer


class Generation(msgspec.Struct, frozen=True, rename="camel"):
    """When metadata.generation moves. Fields as in Strategy and Row of webhook/generation.

    stored_as_sent  the operations on which a webhook's own value would be stored
    history         what held on older and newer servers; one entry where nothing has changed
    """

    kept: bool
    on_create: OnCreate
    counts: tuple[str, ...]
    excluded: tuple[str, ...]
    equality: Equality
    subresources: dict[str, SubresourceRule]
    on_delete: OnDelete
    propagation: Propagation
    stored_as_sent: tuple[str, ...]
    history: tuple[Behaviour, ...]
    source: str
    note: str = ""


class Observed(msgspec.Struct, frozen=True, rename="camel"):
    """Where observedGeneration stands, who writes it, and whether the server keeps a cleared one.

    fields  None where nobody can tell: the schema is open
    """

    fields: tuple[str, ...] | None
    gate: dict[str, dict[str, bool]] = {}
    by: Writer | None = None
    kept: Keeper | None = None


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """One resource on one server."""

    resource: str
    kind: str
    versions: tuple[str, ...]
    short_names: tuple[str, ...]
    namespaced: bool
    server_version: str
    served: bool
    served_since: str
    served_until: str
    enabled_by_default: bool
    custom: bool
    generation: Generation
    status_subresource: StatusSubresource
    observed_generation: Observed
    judged: Judged
    columns: tuple[Column, ...] = ()
    other_versions: dict[str, StatusSubresource] = {}


def explain_row(row: Row, table: GenerationTable) -> Explanation:
    """A built-in resource, as a server of the table's version has it."""
    strategy = table.find(row.group, row.resource)
    if strategy is None:
        raise KeyError(row.name)
    has_status = "status" in row.subresources
    return Explanation(
        resource=row.name,
        kind=row.kind,
        versions=row.versions,
        short_names=row.short_names,
        namespaced=row.namespaced,
        server_version=table.server_version,
        served=table.serves(row),
        served_since=row.served_since,
        served_until=row.served_until,
        enabled_by_default=row.enabled_by_default,
        custom=False,
        generation=_generation(strategy, strategy.subresources, row.behaviour),
        status_subresource=StatusSubresource.PRESENT if has_status else StatusSubresource.ABSENT,
        observed_generation=Observed(
            row.observed_generation,
            row.observed_generation_gate,
            row.observed_by,
            row.observed_kept,
        ),
        judged=judged(row.group, row.kind),
    )


def explain_version(
    version: Version, others: tuple[Version, ...], server_version: str
) -> Explanation:
    """One version of a custom resource; `others` are all versions of the same definition."""
    custom = version.custom
    strategy = custom_strategy(custom)
    has = {"scale": version.scales, "status": custom.status is not StatusSubresource.ABSENT}
    rules = {name: rule for name, rule in strategy.subresources.items() if has[name]}
    return Explanation(
        resource=f"{custom.resource}.{custom.group}",
        kind=custom.kind,
        versions=(custom.version,),
        short_names=version.names[1:],
        namespaced=version.namespaced,
        server_version=server_version,
        served=True,
        served_since="",
        served_until="",
        enabled_by_default=True,
        custom=True,
        generation=_generation(strategy, rules, ()),
        status_subresource=custom.status,
        observed_generation=Observed(version.observed),
        judged=judged(custom.group, custom.kind),
        columns=version.columns,
        other_versions={
            one.custom.version: one.custom.status for one in others if one is not version
        },
    )


def _generation(
    strategy: Strategy, subresources: dict[str, SubresourceRule], history: tuple[Behaviour, ...]
) -> Generation:
    return Generation(
        kept=strategy.keeps_generation,
        on_create=strategy.on_create,
        counts=strategy.compare,
        excluded=tuple(sorted(strategy.excluded)),
        equality=strategy.equality,
        subresources=subresources,
        on_delete=strategy.on_delete,
        propagation=strategy.propagation,
        stored_as_sent=("CREATE",) if strategy.stores_what_is_sent else (),
        history=history,
        source=strategy.source,
        note=strategy.note,
    )
