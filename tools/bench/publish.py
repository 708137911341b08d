"""Writes results to results.json, RESULTS.md and the pages of docs that show them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.bench.report import decided, markdown, performance
from tools.bench.results import Results, read_results, write_results
from tools.bench.running import REPOSITORY

_DOCS: Final = REPOSITORY / "docs"
PAGES: Final[Mapping[Path, Callable[[Results], str]]] = {
    _DOCS / "performance.md": performance,
    _DOCS / "decide.md": decided,
}
"""What stands in each page between its two marks."""
_BEGIN: Final = "<!-- make bench writes from here -->\n"
_END: Final = "\n<!-- to here -->"


def publish(results: Results, folder: Path) -> Results:
    """Write the two files of one run; what can be read again of it is what is shown."""
    folder.mkdir(parents=True, exist_ok=True)
    write_results(results, folder)
    kept = read_results(folder)
    (folder / "RESULTS.md").write_text(markdown(kept), "utf-8")
    return kept


def write_pages(results: Results) -> None:
    """Bring the numbers in the documentation up to date."""
    for path, told in PAGES.items():
        path.write_text(with_text(path.read_text("utf-8"), told(results)), "utf-8")


def with_text(page: str, text: str) -> str:
    """The page with this text between its two marks. Raises ValueError without them."""
    head, begin, rest = page.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the page has no {_BEGIN.strip()} ... {_END.strip()}")
    return f"{head}{begin}\n{text}\n{end}{tail}"
