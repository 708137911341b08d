"""Writes results to results.json, RESULTS.md, results.svg and docs/performance.md."""

from pathlib import Path
from typing import Final

from tests.bench.plot import plot
from tests.bench.report import main_table, markdown
from tests.bench.results import Results, read_results, write_results
from tests.bench.running import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "performance.md"
_BEGIN: Final = "<!-- make bench writes from here -->\n"
_END: Final = "\n<!-- to here -->"


def publish(results: Results, folder: Path) -> Results:
    """Write the three files of one run; what can be read again of it is what is shown."""
    folder.mkdir(parents=True, exist_ok=True)
    write_results(results, folder)
    kept = read_results(folder)
    (folder / "RESULTS.md").write_text(markdown(kept), "utf-8")
    (folder / "results.svg").write_text(plot(kept), "utf-8")
    return kept


def with_table(page: str, results: Results) -> str:
    """The page with these numbers between its two marks. Raises ValueError without them."""
    head, begin, rest = page.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the page has no {_BEGIN.strip()} ... {_END.strip()}")
    return f"{head}{begin}\n{main_table(results)}\n{end}{tail}"
