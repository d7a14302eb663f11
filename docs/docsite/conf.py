# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sphinx configuration of the documentation site; `make docs` builds it.

The site is made of the Markdown pages of the repository, as they are on GitHub, and of the pages that antsibull-docs
writes about modules, roles and plugins. Nothing here needs a network. A warning fails the build.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "rankzero.slurm"
copyright = "The rankzero.slurm authors"  # the name is Sphinx's
html_title = "rankzero.slurm"

extensions = ["myst_parser", "sphinx_antsibull_ext"]
# scripts/docs writes index.md: the README and the navigation.
include_patterns = ["**.md", "collection/*.rst"]
exclude_patterns = ["README.md", "docs/docsite", ".github", "python"]
# Links to a heading, as on GitHub.
myst_heading_anchors = 4

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"top_of_page_buttons": []}
highlight_language = "text"
# Options begin with --.
smartquotes = False
html_copy_source = False
html_show_sphinx = False
html_use_index = False

# Labels of Ansible's own documentation that our pages refer to.
ANSIBLE_LABELS = {
    "callback_plugins": "https://docs.ansible.com/ansible/latest/plugins/callback.html",
    "ansible_collections.ansible.builtin.default_callback": (
        "https://docs.ansible.com/ansible/latest/collections/ansible/builtin/default_callback.html"
    ),
}
CONTENTS = re.compile(r"^\.\. contents::\n(?:   .*\n)*", re.MULTILINE)
ENTRY = re.compile(r"^( +)(\w+)_(module|role|callback|inventory)$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(?=#|\))")


def ansible_reference(_app: Sphinx, _env: object, node: nodes.Element, text: nodes.Node) -> nodes.reference | None:
    """The link for a label of Ansible's documentation; None for any other label."""
    url = ANSIBLE_LABELS.get(str(node.get("reftarget")))
    return nodes.reference("", "", text, internal=False, refuri=url) if url else None


def lead_to_pages(app: Sphinx, name: str, source: list[str]) -> None:
    """Let a link to a folder lead to the page about it, and a link to the README to the first page."""
    folder = (Path(app.srcdir) / name).parent

    def target(match: re.Match[str]) -> str:
        path = folder / match[1]
        if path.is_dir() and (path / "README.md").is_file():
            path /= "README.md"
        if path.resolve() == (Path(app.srcdir) / "README.md").resolve():
            path = Path(app.srcdir) / "index.md"
        return os.path.relpath(path, folder)

    if Path(app.env.doc2path(name)).suffix == ".md":
        source[0] = LINK.sub(target, source[0])


def fit_theme(_app: Sphinx, name: str, source: list[str]) -> None:
    """Let antsibull's pages fit the theme, which has its own table of contents and a narrow place for titles."""
    if name == "collection/index":
        source[0] = source[0].replace("Rankzero.Slurm\n", "Modules, roles and plugins\n", 1)
        source[0] = source[0].replace("==============\n", "=" * len("Modules, roles and plugins") + "\n", 1)
    if name.startswith("collection/"):
        source[0] = ENTRY.sub(r"\1\2 <\2_\3>", CONTENTS.sub("", source[0]))


def setup(app: Sphinx) -> None:
    """Sphinx's entry."""
    app.connect("missing-reference", ansible_reference)
    app.connect("source-read", lead_to_pages)
    app.connect("source-read", fit_theme)
