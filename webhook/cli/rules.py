"""`genguard rules`: rules in CEL for custom kinds, checked before a server has them; --rules."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from genguard.status.health_rules import HealthRule, HealthRules
from genguard.status.rule_library import Case, load_library, load_library_cases
from webhook.cel.evaluator import Evaluator, RuleEvaluator
from webhook.cli.files import MAX_LINE
from webhook.cli.options import F, verb
from webhook.cli.output import say
from webhook.files.given import BadFileError
from webhook.files.rules import complaints, distinct_rules, load_rules, read_rule_file
from webhook.server.flags import FILE, PATH

_ACTIONS: Final = ("test", "check", "list")
_Cases = Sequence[tuple[str, Case]]
"""Cases, each with the name of its file, or of the library."""


@verb()
@click.argument("action", metavar="test|check|list", type=click.Choice(_ACTIONS))
@MAX_LINE
@click.argument("files", metavar="[FILE...]", nargs=-1, type=PATH)
def rules(action: str, files: tuple[Path, ...], *, max_line: int) -> None:
    """Check and test rules that say in CEL when custom objects are ready, settled and healthy."""
    own, cases = _read(files, max_line)
    found = own if files else load_library()
    if action == "list":
        for rule in sorted(found, key=lambda rule: (rule.group, rule.kind)):
            say(f"{rule!s:52} {rule.source}")
        return
    with Evaluator() as evaluator:
        wrong = list(complaints(found, evaluator.complaint))
        for line in wrong:
            say(f"cannot be used: {line}")
        if action == "check":
            click.echo(f"{len(found)} rules: {len(found) - len(wrong)} compile")
        elif not wrong:
            if not cases:
                names = ", ".join(map(str, files))
                message = f"{names}: no case: give a list `cases` with object and expect"
                raise click.ClickException(message)
            wrong = _test(cases, RuleEvaluator(evaluator, HealthRules(own, load_library)))
    sys.exit(1 if wrong else 0)


def _read(files: Sequence[Path], max_line: int) -> tuple[tuple[HealthRule, ...], _Cases]:
    """The rules and cases of all files; without files, the cases of the library."""
    if not files:
        return (), list(load_library_cases())
    try:
        found = [(str(path), read_rule_file(path, max_line)) for path in files]
        every = distinct_rules(rule for _, file in found for rule in file.rules)
    except BadFileError as error:
        raise click.ClickException(str(error)) from error
    return every, [(name, case) for name, file in found for case in file.cases]


def _test(cases: _Cases, evaluator: RuleEvaluator) -> list[str]:
    """Run the cases, print those that fail and why, and return their names."""
    failed: list[str] = []
    for number, (name, case) in enumerate(cases, start=1):
        differences = case.differences(evaluator, time.time())
        if not differences:
            continue
        text = f"{name}: case {number}, {case.of[1]}: {case.because or 'no reason given'}"
        failed.append(text)
        say(f"FAILED {text}")
        for line in differences:
            say(f"  {line}")
    passed = len(cases) - len(failed)
    click.echo(f"{len(cases)} cases: {passed} pass, {len(failed)} fail")
    untested = {str(rule) for rule in evaluator.rules.own} - {
        str(rule) for _, case in cases if (rule := evaluator.rules.find(*case.of)) is not None
    }
    if untested:
        say(f"no case has an object of {', '.join(sorted(untested))}")
    return failed


RULES: Final[Callable[[F], F]] = click.option("--rules", type=FILE, metavar="FILE")


@contextmanager
def rule_evaluator(path: Path | None) -> Iterator[RuleEvaluator]:
    """Yield what evaluates the rules of a file, and of the library. Raises click.UsageError.

    A process for CEL is started when the first object with such a rule is evaluated.
    """
    with Evaluator() as evaluator:
        own = () if path is None else load_rules(path, evaluator.complaint)
        yield RuleEvaluator(evaluator, HealthRules(own, load_library))
