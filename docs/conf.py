"""Sphinx settings of the site: ``make docs`` builds it, with warnings as errors.

The pages are plain Markdown and read well without it. The navigation is that of ``index.md``: each
``###`` heading under "Pages" becomes a caption, each link of the list below it an entry. So a new
page needs one line there, and Sphinx warns of a page that has none.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pygments.lexers.special import TextLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]

project = "BLIS for Python"
author = "the authors of BLIS"
_INIT = (ROOT / "blis_core" / "__init__.py").read_text(encoding="utf-8")
version = release = _INIT.partition('__version__ = "')[2].partition('"')[0]

extensions = ["myst_parser"]
nitpicky = True
# Shortened outputs ("...") are not valid JSON or YAML, and need not be.
suppress_warnings = ["misc.highlighting_failure"]

myst_heading_anchors = 4  # links of the form page.md#heading, as code hosts make them

html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}

_LEAVES = re.compile(r"\[([^\]]+)\]\(\.\./((?:examples|plugins|benchmarks)/[^)]+)\)")
"""A link to a file that is in the repository, but not on the site."""


def navigation(index: str) -> dict[str, list[tuple[str, str]]]:
    """Captions, and title and name of each page below them, as ``index.md`` lists them."""
    _, _, pages = index.partition("\n## Pages\n")
    pages, _, _ = pages.partition("\n## ")
    found: dict[str, list[tuple[str, str]]] = {}
    for section in pages.split("\n### ")[1:]:
        caption, _, entries = section.partition("\n")
        links = re.findall(r"^- \[(.+?)\]\(([\w/-]+)\.md\)", entries, re.MULTILINE)
        found[caption] = links
    return found


def _for_the_site(_app: Sphinx, name: str, source: list[str]) -> None:
    """Give the index its navigation and the page of changes its contents; mend links that leave
    the site."""
    text = source[0]
    if name == "index":
        for caption, pages in navigation(text).items():
            lines = "".join(f"{title} <{page}>\n" for title, page in pages)
            text += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}```\n"
    elif name == "changes":
        _, _, changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n## ")
        text = f"# Changes\n\n## {changes}"
    else:
        text = text.replace("](../CHANGELOG.md)", "](changes.md)")
    source[0] = _LEAVES.sub(r"\1 (`\2` in the repository)", text)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", _for_the_site)
