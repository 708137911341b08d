"""Packs the manual and the JSON schemas of outputs: `python -m tools.manual [FOLDER]`.

It makes genguard-manual.tar.gz: man1/genguard.1, man1/genguard-VERB.1, made from the same words as
--help, and schemas/OUTPUT.json, which are docs/schemas.
"""

import inspect
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from tools.krew import PROJECT, pack
from tools.tables import SCHEMAS
from tools.wheel import ROOT
from webhook import __version__
from webhook.cli import VERBS, main

ARCHIVE: Final = "genguard-manual.tar.gz"
_EXIT: Final = "The exit code is"
_PROGRAM: Final = "genguard"
_VERBATIM: Final = "\b"
"""Click's mark of a paragraph whose lines stay."""


def archive(to: Path) -> Path:
    """Writes the archive into a folder, and returns its path."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "man1").mkdir()
        for verb in (None, *VERBS):
            (folder / "man1" / f"{_name(verb)}.1").write_text(page(verb), encoding="utf-8")
        shutil.copytree(SCHEMAS, folder / "schemas")
        pack(folder, to / ARCHIVE)
    return to / ARCHIVE


def page(verb: str | None) -> str:
    """Return the page about a verb, or about genguard itself, as roff of the man macros."""
    context = click.Context(main, info_name=_PROGRAM, **main.context_settings)
    command: click.Command = main
    if verb is not None:
        found = main.get_command(context, verb)
        if found is None:
            raise LookupError(verb)
        command = found
        context = click.Context(command, info_name=verb, parent=context)
    title = VERBS[verb] if verb else str(PROJECT["description"])
    head = f'.TH {_text(_name(verb).upper())} 1 "" "genguard {__version__}" "genguard manual"'
    lines = [head, ".SH NAME", f"{_text(_name(verb))} \\- {_text(_summary(title))}"]
    lines += [".SH SYNOPSIS", f".B {_text(context.command_path)}"]
    lines += [_text(" ".join(command.collect_usage_pieces(context)))]
    about, ends = _described(command.help or "")
    lines += [".SH DESCRIPTION", *about]
    if verb is None:
        lines += [".SH COMMANDS"]
        for name, summary in VERBS.items():
            lines += [".TP", f".BR {_text(_name(name))} (1)", _text(summary)]
    lines += [".SH OPTIONS", *_options(command, context)]
    lines += [".SH EXIT STATUS", *ends]
    if command.epilog:
        lines += [".SH EXAMPLES", *_examples(command.epilog)]
    others = [None, *VERBS] if verb is None else [None]
    seen = [f"{_name(each)}(1)" for each in others if each != verb]
    lines += [".SH SEE ALSO", _text(", ".join([*seen, "kubectl(1)"]))]
    return "\n".join(lines) + "\n"


def _name(verb: str | None) -> str:
    return _PROGRAM if verb is None else f"{_PROGRAM}-{verb}"


def _summary(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:].rstrip(".")


def _described(text: str) -> tuple[list[str], list[str]]:
    """The paragraphs of a help text, and those about the exit code, as roff."""
    about: list[str] = []
    ends: list[str] = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        mark, _, lines = paragraph.partition("\n")
        is_verbatim = mark == _VERBATIM
        body = lines if is_verbatim else " ".join(paragraph.split())
        where = ends if body.startswith(_EXIT) else about
        where += [".PP"] if where else []
        if is_verbatim:
            where += [".nf", *map(_text, body.splitlines()), ".fi"]
        else:
            where.append(_text(body))
    return about, ends


def _examples(epilog: str) -> list[str]:
    """The commands below the help of a verb, each with the comment that stands above it."""
    _, _, commands = epilog.partition("Examples:\n")
    return [".nf", *(_text(line.strip()) for line in commands.splitlines()), ".fi"]


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Each flag with its help."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None:
            names, text = record
            yield from (".TP", f".B {_text(names)}", _text(" ".join(text.split())))


def _text(text: str) -> str:
    r"""Escape what roff takes for a request or an escape: `\`, `-`, `'` and `.` at the start."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return re.sub(r"^(?=[.])", r"\\&", escaped)


if __name__ == "__main__":
    print(archive(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"))
