# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `job_logs`: a fetch of logs (plugin_utils/actions/fetch_logs.py), through Ansible's connection."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.fetch import FetchAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.fetch_logs import FetchLogs


class ActionModule(FetchLogs, FetchAction):
    pass
