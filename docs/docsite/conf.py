# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sphinx configuration of the documentation site; `make docs` builds it.

Nothing here needs a network: no theme to fetch and no inventories of other sites. A warning fails the build.
"""

from __future__ import annotations

project = "rankzero.slurm"
copyright = "The rankzero.slurm authors"  # the name is Sphinx's
html_title = "rankzero.slurm"

extensions = ["sphinx_antsibull_ext"]
html_theme = "alabaster"
highlight_language = "YAML+Jinja"
html_copy_source = False
html_show_sphinx = False
html_use_index = False
