# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sphinx configuration of the documentation site; `make docs` builds it.

Nothing here needs a network: no theme to fetch and no inventories of other sites. A warning fails the build.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "rankzero.slurm"
copyright = "The rankzero.slurm authors"  # the name is Sphinx's
html_title = "rankzero.slurm"

extensions = ["sphinx_antsibull_ext"]
html_theme = "alabaster"
highlight_language = "YAML+Jinja"
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


def ansible_reference(_app: Sphinx, _env: object, node: nodes.Element, text: nodes.Node) -> nodes.reference | None:
    """The link for a label of Ansible's documentation; None for any other label."""
    url = ANSIBLE_LABELS.get(str(node.get("reftarget")))
    return nodes.reference("", "", text, internal=False, refuri=url) if url else None


def setup(app: Sphinx) -> None:
    """Sphinx's entry."""
    app.connect("missing-reference", ansible_reference)
