"""The words of a runbook's page, without its markup: a line for each item, cell or paragraph."""

import re
from html import unescape

from webhook.dashboard.runbook import Runbook


def text(page: Runbook) -> str:
    """Return what a reader sees."""
    return words("\n".join([page.intro, *(one.html for one in page.sections)]))


def words(html: str) -> str:
    """Return the text of HTML; each block begins a line."""
    html = re.sub(r"<(?:p|li|td|th|pre)\b[^>]*>", "\n", html)
    return unescape(re.sub(r"<[^>]*>", "", html))
