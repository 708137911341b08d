"""Rules for custom kinds, given as a file (--rules) or as the texts of a ConfigMap."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from genguard.formats.documents import LONGEST_LINE, Unreadable, bounded, read_documents
from genguard.status.health_rules import (
    LISTS,
    BadRuleError,
    HealthRule,
    HealthRules,
    Key,
    distinct,
    parse_rules,
)
from genguard.status.rule_library import CASES, Case, load_library, parse_cases
from webhook.cel.evaluator import Evaluator, RuleEvaluator
from webhook.files.given import BadFileError
from webhook.telemetry.logs import LOGGER

RULES: Final = "--rules"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_BESIDE: Final = ".cases"
"""Stands before the last suffix of a file with cases: widgets.cases.yaml."""
Complain = Callable[[str, Key], str]
"""Why an expression cannot be used, with line and column; "" where it can."""


class RulesLocation(NamedTuple):
    """Where the rules of a server are: in a file, or in a ConfigMap that it watches."""

    file: Path | None
    namespace: str
    """The namespace of the ConfigMap; "" is the server's own."""
    configmap: str


def parse_location(text: str) -> RulesLocation | None:
    """Read `FILE`, `configmap:NAME` or `configmap:NAMESPACE/NAME`; None for "".

    Raises BadFileError.
    """
    kind, colon, rest = text.partition(":")
    if kind != "configmap" or not colon:
        return RulesLocation(Path(text), "", "") if text else None
    namespace, slash, name = rest.rpartition("/")
    if not all(_NAME.fullmatch(part) for part in ((namespace, name) if slash else (name,))):
        message = "write configmap:NAME or configmap:NAMESPACE/NAME"
        raise BadFileError(f"{RULES} {text}: {message}")
    return RulesLocation(None, namespace, name)


class RuleFile(NamedTuple):
    """The rules and cases of a file."""

    rules: tuple[HealthRule, ...]
    cases: tuple[Case, ...]


def load_rules(path: Path, complain: Complain) -> tuple[HealthRule, ...]:
    """Read the rules of a file, and have each expression compiled. Raises BadFileError."""
    found = read_rule_file(path).rules
    if not found:
        raise BadFileError(f"{RULES} {path}: no list `{LISTS[0]}` is in it")
    return _compiled(found, f"{RULES} {path}", complain)


def _compiled(
    rules: tuple[HealthRule, ...], location: str, complain: Complain
) -> tuple[HealthRule, ...]:
    """Return the same rules; raises BadFileError for the first that cannot be compiled."""
    for why in complaints(rules, complain):
        raise BadFileError(f"{location}: {why}")
    return rules


def complaints(rules: Iterable[HealthRule], complain: Complain) -> Iterator[str]:
    """Yield a line for each expression that cannot be used: its kind, key, line and column."""
    for rule in rules:
        for key, expression in rule.expressions.items():
            if why := complain(expression, key):
                yield f"{rule}: `{key}`: {why}"


def read_rule_file(path: Path, max_line: int = LONGEST_LINE) -> RuleFile:
    """Read rules and cases of a file, and cases of NAME.cases.yaml beside NAME.yaml.

    The file is YAML or JSON, one or several documents: ours, a Kustomization or HelmRelease of
    Flux, or a ConfigMap that has such documents. `max_line` is in MiB. Raises BadFileError.
    """
    found = _read(path, max_line)
    beside = path.with_name(f"{path.stem}{_BESIDE}{path.suffix}")
    if not beside.is_file():
        return found
    more = _read(beside, max_line)
    if more.rules:
        raise BadFileError(f"{beside}: rules are in {path}, and cases alone here")
    return RuleFile(found.rules, (*found.cases, *more.cases))


def parse_texts(texts: Mapping[str, str]) -> tuple[HealthRule, ...]:
    """Read the rules of the files that a ConfigMap has. Raises BadFileError, with the key."""
    found: list[HealthRule] = []
    for name, text in sorted(texts.items()):
        found += _parse(read_documents(text.encode().splitlines(keepends=True)), name).rules
    return distinct_rules(found)


def distinct_rules(rules: Iterable[HealthRule]) -> tuple[HealthRule, ...]:
    """Return the same rules. Raises BadFileError for the second one for a kind."""
    try:
        return distinct(rules)
    except BadRuleError as error:
        raise BadFileError(f"{RULES} {error}") from error


def _read(path: Path, max_line: int) -> RuleFile:
    try:
        with path.open("rb") as stream:
            found = _parse(read_documents(bounded(stream, max_line)), str(path))
    except OSError as error:
        raise BadFileError(f"{RULES} {path}: {error.strerror}") from error
    if not found.rules and not found.cases:
        raise BadFileError(f"{RULES} {path}: neither rules nor cases are in it")
    return found


def _parse(documents: Iterable[Any], source: str) -> RuleFile:
    rules: list[HealthRule] = []
    cases: list[Case] = []
    for document in documents:
        if isinstance(document, Unreadable):
            raise BadFileError(f"{RULES} {source}: {document}")
        location = f"{source}:{document.line}"
        if document.value.get("kind") == "ConfigMap":
            rules += parse_texts(_texts(document.value, location))
            continue
        try:
            if CASES not in document.value or any(key in document.value for key in LISTS):
                rules += parse_rules(document.value, source)
            cases += parse_cases(document.value)
        except BadRuleError as error:
            raise BadFileError(f"{RULES} {location}: {error}") from error
    return RuleFile(distinct_rules(rules), tuple(cases))


def _texts(document: Mapping[str, Any], location: str) -> Mapping[str, str]:
    data = document.get("data")
    if not isinstance(data, Mapping) or not all(isinstance(text, str) for text in data.values()):
        raise BadFileError(f"{RULES} {location}: a ConfigMap without texts in data")
    return data


class ServerRules:
    """The rules of a server: those of a file, or those that a ConfigMap has now.

    location    where they are; None: only the library is used
    is_refused  whether what the ConfigMap has now is not used
    """

    def __init__(self, evaluator: Evaluator, location: RulesLocation | None) -> None:
        """Raises BadFileError for a file that cannot be used."""
        file = None if location is None else location.file
        own = () if file is None else load_rules(file, evaluator.complaint)
        self._evaluator: Final = evaluator
        self.location: Final = location
        self.evaluator: Final = RuleEvaluator(evaluator, _with_library(own))
        self.is_refused = False

    def take(self, texts: Mapping[str, str] | None) -> None:
        """Use the rules of a ConfigMap, or keep those in use and log why; None: it was deleted.

        It may block for seconds.
        """
        try:
            own = _compiled(parse_texts(_present(texts)), RULES, self._evaluator.complaint)
        except BadFileError as error:
            self.is_refused = True
            fields = {"reason": str(error), "effect": "the rules in use are kept"}
            LOGGER.warning("rules not used", extra={"fields": fields})
            return
        self.is_refused = False
        self.evaluator.rules = _with_library(own)
        LOGGER.info("rules used", extra={"fields": {"rules": len(own)}})


def _present(texts: Mapping[str, str] | None) -> Mapping[str, str]:
    if texts is None:
        raise BadFileError(f"{RULES}: the ConfigMap was deleted: make it again, or give a file")
    return texts


def _with_library(own: Iterable[HealthRule]) -> HealthRules:
    """Rules whose library is read now: later it would hold up the event loop."""
    library = load_library()
    return HealthRules(own, lambda: library)
