"""The command line: one file a verb; each parses, calls and prints."""

import click

from webhook.cli.lint import lint
from webhook.cli.replay import replay
from webhook.cli.serve import serve
from webhook.cli.trace import trace


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="genguard")
def main() -> None:
    """Keep metadata.generation and status.observedGeneration honest, for every kind."""


main.add_command(serve)
main.add_command(replay)
main.add_command(trace)
main.add_command(lint)
