"""A hook of mkdocs: takes the pages that `nav` of mkdocs.yml names from all over the repository.

mkdocs knows one folder of pages. Here a page keeps its path in the repository, so that its links
mean the same on GitHub and on the site; `address` says where the site shows it. A pattern in `nav`
stands for every page that it matches. Pictures that a page shows come along. A link to a file that
is no page leads to the repository where `repo_url` is known, and is plain text otherwise.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
_CODE = re.compile(r"(^ *```.*?^ *```|`[^`\n]*`)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:|#)([^)#\s]*)(#[^)\s]*)?\)")
_PICTURE = re.compile(r"!\[[^\]]*\]\((?![a-z]+:)([^)#\s]+)\)")
_FOLDERS = (("docs/", ""), ("manifests/monitoring/runbooks/", "runbooks/"))


def on_config(config: MkDocsConfig) -> None:
    """Put the pages that a pattern matches into the navigation."""
    config.nav = _expanded(config.nav)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs_dir by the pages of the navigation and the pictures on them."""
    docs = Path(config.docs_dir)
    for file in list(files):
        if file.src_dir is not None and Path(file.src_dir) == docs:
            files.remove(file)
    for path in _leaves(config.nav):
        files.append(_file(path, address(path), config))
        for picture in _PICTURE.findall((ROOT / path).read_text()):
            found = _resolved(path, picture)
            if files.get_file_from_path(found) is None:
                files.append(_file(found, found, config))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to files that are no pages to the repository, or nowhere."""

    def lead(match: re.Match[str]) -> str:
        label, path, anchor = match[1], match[2], match[3] or ""
        target = _resolved(page.file.src_uri, path)
        if files.get_file_from_path(target) is not None or not (ROOT / target).exists():
            return match[0]  # mkdocs says which links are broken
        if not config.repo_url:
            return label
        return f"[{label}]({config.repo_url.rstrip('/')}/blob/main/{target}{anchor})"

    parts = _hidden(markdown)
    text = _LINK.sub(lead, parts[0])
    return re.sub("\0(\\d+)\0", lambda found: parts[1][int(found[1])], text)


def address(path: str) -> str:
    """Where the site shows a page: `runbooks/spec-fight/index.html`."""
    name = path.removesuffix(".md").removesuffix("README").rstrip("/")
    for folder, shown in _FOLDERS:
        if name.startswith(folder):
            name = shown + name.removeprefix(folder)
            break
    else:
        if "/" not in path and name:
            name = f"project/{name.lower()}"
    return posixpath.join(name, "index.html")


def _hidden(markdown: str) -> tuple[str, list[str]]:
    """The text with a mark for each piece of code, and the pieces."""
    pieces: list[str] = []

    def hide(match: re.Match[str]) -> str:
        pieces.append(match[0])
        return f"\0{len(pieces) - 1}\0"

    return _CODE.sub(hide, markdown), pieces


def _expanded(nav: list) -> list:
    found = []
    for entry in nav:
        title, value = next(iter(entry.items()))
        if isinstance(value, list):
            value = _expanded(value)
        elif "*" in value:
            matched = sorted(ROOT.glob(value))
            value = [{one.stem: str(one.relative_to(ROOT))} for one in matched]
        found.append({title: value})
    return found


def _leaves(nav: list) -> Iterator[str]:
    for entry in nav:
        for value in entry.values():
            if isinstance(value, list):
                yield from _leaves(value)
            else:
                yield value


def _resolved(page: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path))


def _file(path: str, shown: str, config: MkDocsConfig) -> File:
    return File(path, str(ROOT), config.site_dir, use_directory_urls=True, dest_uri=shown)
