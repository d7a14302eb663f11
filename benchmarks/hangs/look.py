# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Diagnose a running launch on the head of a lab, as the module job_diagnosis does, without Ansible: look.py RUN_DIR.

A launch stalls here after three seconds without a step instead of a minute. Prints the result as JSON.
"""

import json
import sys

from ansible_collections.rankzero.slurm.plugins.module_utils.explain.diagnose import diagnose
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.options import DIAGNOSIS_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm

options = {name: about.get("default") for name, about in DIAGNOSIS_SPEC.items()}
options.update(run_dir=sys.argv[1], stall_factor=1.0, stall_seconds=3.0)
json.dump(diagnose(Slurm(), options), sys.stdout, default=str)
