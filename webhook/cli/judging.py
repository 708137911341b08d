"""Rules in CEL for the verbs that judge objects: --rules FILE, and the library behind it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from genguard.status.health_rules import HealthRules
from genguard.status.rule_library import load_library
from webhook.cel.evaluator import Evaluator, RuleJudge
from webhook.files.given import BadFileError
from webhook.files.rules import load_rules
from webhook.serve.flags import FILE

F = TypeVar("F", bound=Callable[..., Any])
RULES: Final[Callable[[F], F]] = click.option(
    "--rules",
    type=FILE,
    metavar="FILE",
    help="Rules in CEL for custom kinds, as serve --rules has them. They come before those that "
    "genguard has for well-known kinds.",
)


@contextmanager
def judging(path: Path | None) -> Iterator[RuleJudge]:
    """Judge by the rules of a file, and of the library. Raises click.UsageError.

    A process for CEL is started when the first object is judged that has such a rule.
    """
    with Evaluator() as evaluator:
        try:
            own = () if path is None else load_rules(path, evaluator.refusal)
        except BadFileError as error:
            raise click.UsageError(str(error)) from error
        yield RuleJudge(evaluator, HealthRules(own, load_library))
