"""The facts about a genguard in a cluster, and what a check of `genguard doctor` says of them."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from certs import PairSnapshot
from genguard.admission.probe import Seen
from genguard.detection.finding import Finding
from genguard.linting.hook import INJECTED, Hook, read_hooks, texts
from genguard.objects.fields import items, mapping, text
from genguard.objects.served import resource_name
from genguard.objects.shown import few
from genguard.shipped import shipped
from webhook.manifest.documents import Document, title_of
from webhook.manifest.rendering import (
    PHASES,
    default_replicas,
    install_command,
    installed_deployment,
    is_registration,
    phase_of,
)


class Source(StrEnum):
    """What is read from the API server, as `unread` names it where the user may not read it."""

    REGISTRATIONS = "the registrations"
    DEPLOYMENT = "the Deployment"
    OBJECTS = "objects of the manifests"
    """`unread` names each object by itself."""
    LEFTOVERS = "what is left of installations"
    ENDPOINTS = "the endpoints"
    PAIR = "the Secret"
    PODS = "the pods"
    RIGHTS = "rights"


class Right(NamedTuple):
    """A right that the server needs, and whether it has it."""

    verb: str
    group: str
    resource: str
    allowed: bool
    name: str = ""

    def __str__(self) -> str:
        resource = resource_name(self.group, self.resource)
        return f"{self.verb} {resource}{f'/{self.name}' if self.name else ''}"


class Found(NamedTuple):
    """A registered webhook of genguard, and the webhook that `install` would register."""

    phase: str
    hook: Hook
    expected: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """The state of a cluster at one moment."""

    at: datetime
    namespace: str
    version: str
    expected: tuple[Document, ...]  # what `install` would apply, the registrations among it
    live: Mapping[str, Document | None]  # the objects by path; None where one is missing
    configurations: tuple[Document, ...]  # every webhook configuration of the cluster
    leftovers: tuple[Document, ...] = ()  # what an interrupted installation left
    endpoints: int = 0  # ready addresses of the Service
    unready: int = 0  # its others: a pod that is selected and not ready at the moment
    pair: PairSnapshot | None = field(default=None, repr=False)  # without key: a server outside
    probe: Seen = field(default_factory=dict)  # which phases saw a dry run
    refusal: str = ""  # why the API server refused the dry run
    probes: tuple[Seen, ...] = ()  # the answers to several that were sent at once
    leaving: tuple[str, ...] = ()  # pods that are deleted, or have an older template
    blocked: str = ""  # why the Deployment is not ready, as `genguard status` says it
    rights: tuple[Right, ...] = ()  # those that the server needs
    nodes: Mapping[str, str] | None = None  # versions of kubelets; None: they cannot be read
    unread: Mapping[str, str] = field(default_factory=dict)  # what could not be read, and why
    findings: tuple[Finding, ...] | None = None  # open ones; None: the server was not asked
    unasked: str = ""  # why

    @property
    def outside(self) -> str:
        """https://HOST:PORT of a server outside the cluster; "" if it runs inside."""
        for found in self.registered.values():
            url = str(mapping(found.hook.body.get("clientConfig")).get("url", ""))
            if url:
                return url.removesuffix(f"/{found.phase}")
        return ""

    @property
    def registered(self) -> dict[str, Found]:
        """The registered webhooks by phase."""
        names = {
            configuration["metadata"]["name"]: configuration
            for configuration in self.configurations
        }
        found = {}
        for wanted in filter(is_registration, self.expected):
            by_name = {webhook["name"]: webhook for webhook in wanted["webhooks"]}
            for hook in read_hooks([names.get(wanted["metadata"]["name"], {})]):
                expected = by_name.get(text(hook.body.get("name")))
                if expected is not None and (phase := phase_of(expected)) in PHASES:
                    found[phase] = Found(phase, hook, expected)
        return found

    @property
    def answers(self) -> list[Mapping[str, str]]:
        """What the server says of itself in every answer of every probe."""
        return [said for probe in self.probes for said in probe.values()]

    def said(self, what: str) -> dict[str, str]:
        """What each pod says of one thing, by the name of the pod."""
        return {
            answer.get("instance", "a pod"): answer[what]
            for answer in self.answers
            if what in answer
        }

    def unread_of(self, source: Source) -> list[str]:
        """The names in `unread` that belong to a source."""
        objects = [title_of(document) for document in self.expected]
        names = objects if source is Source.OBJECTS else [source.value]
        return [name for name in names if name in self.unread]

    @property
    def deployment(self) -> Document | None:
        """The Deployment in the cluster; None if there is none, or the server runs outside."""
        return None if self.outside else installed_deployment(self.live)

    @property
    def kubectl(self) -> str:
        """`kubectl -n genguard-system`."""
        return f"kubectl -n {self.namespace}"

    @property
    def install(self) -> str:
        """The command that installs genguard again with the same choices."""
        if self.outside:
            return f"genguard install --url {shlex.quote(self.outside)} --ca-file ca.crt"
        injected = any(INJECTED in found.hook.annotations for found in self.registered.values())
        live = self.live
        if Source.DEPLOYMENT in self.unread:  # what stands there is what is expected
            live = {
                at: None if document == self.deployment else document
                for at, document in live.items()
            }
        # Without the Deployment its pods tell the mode; without pods it is audit-only at first.
        enforces = installed_deployment(live) is None and self.enforces
        return install_command(
            self.namespace, self.expected, live, is_injected=injected, enforces=enforces
        )

    @property
    def enforces(self) -> bool:
        """Whether a pod that has answered changes writes."""
        return "enforcing" in self.said("mode").values()

    def logs(self, word: str) -> str:
        """The command that shows the log lines of the server with this word."""
        if self.outside:
            return "genguard serve --log-level DEBUG"
        return f"{self.kubectl} logs deployment/genguard | grep {word}"

    @property
    def replicas(self) -> int:
        """The default number of pods."""
        return default_replicas(self.expected)


Call = tuple[str, str, str, str]
"""Group, version, resource and operation."""


def calls_of(webhook: Mapping[str, Any]) -> set[Call]:
    """Return what every rule calls for."""
    return {
        (group, version, resource, operation)
        for rule in map(mapping, items(webhook.get("rules")))
        for group in texts(rule.get("apiGroups"))
        for version in texts(rule.get("apiVersions"))
        for resource in texts(rule.get("resources"))
        for operation in texts(rule.get("operations"))
    }


class Level(StrEnum):
    """fail: genguard does not work, or it blocks writes. warn: this may happen later.

    unknown: it could not be asked; nothing speaks against it.
    """

    OK = "ok"
    UNKNOWN = "unknown"
    WARN = "warn"
    FAIL = "fail"

    @property
    def rank(self) -> int:
        """0 for ok and unknown, 1 for warn, 2 for fail; the exit code of doctor is 1 above 0."""
        return {Level.WARN: 1, Level.FAIL: 2}.get(self, 0)


class CheckResult(msgspec.Struct, frozen=True, tag="check", tag_field="type"):
    """One result of one check; `fix` is a shell command, "" where nothing is wrong."""

    level: Level
    id: str
    message: str
    fix: str = ""


class Told(NamedTuple):
    """What a check says: the name of it in checks.yaml, and what fills in the names there."""

    level: Level
    said: str
    values: Mapping[str, object]


def say(check: str, said: str, **values: object) -> tuple[str, str]:
    """Return what a check says, and the command that repairs it; "" where none is named."""
    texts = shipped("webhook.doctor", "checks.yaml", dict[str, dict[str, str]])
    message, _, fix = texts[check][said].partition("\n")
    return message.format(**values), fix.format(**values)


class Check(NamedTuple):
    """One check: a function that yields the problems it finds, and last what is well."""

    id: str
    needs: tuple[Source, ...]
    """Without these the check cannot know whether something is missing."""
    find: Callable[[Facts], Iterator[Told]]

    def results(self, facts: Facts) -> Iterator[CheckResult]:
        """Yield the problems, or what is well if there are none."""
        if unread := [name for source in self.needs for name in facts.unread_of(source)]:
            message = f"not checked, for {few(unread)} could not be read"
            yield CheckResult(Level.UNKNOWN, self.id, message)
            return
        lines = list(self.find(facts))
        problems = [line for line in lines if line.level is not Level.OK]
        for line in problems or lines:
            yield self.result(facts, line)

    def result(self, facts: Facts, told: Told) -> CheckResult:
        """Return it in words, with the command that repairs it: by default an installation."""
        message, fix = say(self.id, told.said, facts=facts, **told.values)
        fix = facts.install if told.level.rank and not fix else fix
        return CheckResult(told.level, self.id, message, fix)


def check(name: str, *needs: Source) -> Callable[[Callable[[Facts], Iterator[Told]]], Check]:
    """Make a check from the function below it; `name` is its id."""
    return lambda find: Check(name, needs, find)


def fail(said: str, **values: object) -> Told:
    """Say that something does not work."""
    return Told(Level.FAIL, said, values)


def warn(said: str, **values: object) -> Told:
    """Say that something works, but should be changed."""
    return Told(Level.WARN, said, values)


def ok(said: str = "well", **values: object) -> Told:
    """Say that all is well; shown only if the check found no problem."""
    return Told(Level.OK, said, values)
