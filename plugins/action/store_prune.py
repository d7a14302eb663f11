# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `store_prune`: run the module, or say why the host cannot."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.one_cluster import DirectToOne


class ActionModule(DirectToOne):
    pass
