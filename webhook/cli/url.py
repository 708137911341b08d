"""URLs on the command line."""

from urllib.parse import urlsplit

import click


def https_url(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """The callback of an option: without a path, and without a slash at the end."""
    if text is None:
        return None
    try:
        found = urlsplit(text)
        fits = found.scheme == "https" and found.hostname and found.port != 0
    except ValueError:
        fits = False
    if not fits or found.path.strip("/") or found.query:
        raise click.BadParameter(f"{text!r} is not https://HOST:PORT")
    return text.rstrip("/")


def alertmanager_urls(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Check the URLs of Alertmanagers; the callback of an option that may come several times."""
    for text in values:
        try:
            found = urlsplit(text)
            fits = found.scheme in ("http", "https") and found.hostname and found.port != 0
        except ValueError:
            fits = False
        if not fits or found.query or found.fragment:
            raise click.BadParameter(f"{text!r} is not a URL such as http://alertmanager:9093")
    return values
