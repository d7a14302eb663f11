# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `cluster_info` and others (meta/runtime.yml): run the module, or say why the host cannot."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import Direct


class ActionModule(Direct):
    pass
