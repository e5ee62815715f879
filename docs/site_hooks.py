"""Hooks of MkDocs: documents of the checkout become pages, links to other files become text.

A link of a document works where a git host shows the checkout. On the site, documents of the root
folder are pages as well, and what is no page is shown by its name only. A link to a file that is
not there is a warning, which ends a strict build.
"""

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {
    "ARTIFACT.md": "artifact.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "DATA_LICENSES.md": "data-licenses.md",
}
"""Documents of the root folder, and the pages that they are on the site."""
PAGES = {**ROOT_PAGES, "README.md": "index.md"}
"""The page to which a link to a document of the root folder leads."""

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_LOG = logging.getLogger("mkdocs.hooks.site")
"""Below ``mkdocs``, whose warnings end a strict build."""


def on_files(files: Files, config: Any) -> Files:
    """Add the documents of the root folder."""
    for name, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Return a page whose links lead to pages of the site, or are text."""
    roots = {uri: name for name, uri in ROOT_PAGES.items()}
    place = roots.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_linked(markdown[end : fence.start()], place), fence.group()]
        end = fence.end()
    return "".join([*parts, _linked(markdown[end:], place)])


def _linked(text: str, place: str) -> str:
    """Return a text with links of the site; ``place`` is its document's path in the checkout."""
    here = posixpath.dirname(ROOT_PAGES.get(place, place.removeprefix("docs/")))

    def link(found: re.Match[str]) -> str:
        shown, target, anchor = found.group(1), found.group(2), found.group(3) or ""
        if "://" in target or target.startswith("mailto:"):
            return found.group()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
        if not (ROOT / path).exists():
            _LOG.warning("%s links to %s, which is not there", place, target)
        if path in PAGES:
            uri = PAGES[path]
        elif path.startswith("docs/") and (ROOT / path).is_file():
            uri = path.removeprefix("docs/")
        else:
            return shown
        return f"[{shown}]({posixpath.relpath(uri, here or '.')}{anchor})"

    return _LINK.sub(link, text)
