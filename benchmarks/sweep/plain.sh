#!/bin/bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# What a user writes by hand: only the task's number.
srun true "$SLURM_ARRAY_TASK_ID"
