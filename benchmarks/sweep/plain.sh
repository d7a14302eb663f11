#!/bin/bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# What a person writes by hand: the task's number, and nothing around it.
srun true "$SLURM_ARRAY_TASK_ID"
