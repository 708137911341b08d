"""The command line: one file a verb; each parses, calls and prints."""

from importlib import import_module

import click

_VERBS = ("serve", "status", "wait", "replay", "trace", "lint")


class _Verbs(click.Group):
    """Loads a verb when it is wanted: the server and the client of the API take a while."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in _VERBS:
            return None
        found: click.Command = getattr(import_module(f"webhook.cli.{name}"), name)
        return found


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="genguard")
def main() -> None:
    """Keep metadata.generation and status.observedGeneration honest, for every kind."""
