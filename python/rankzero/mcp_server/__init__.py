# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero mcp`: verbs of the command as tools of the Model Context Protocol. There is no other way to a cluster here:
each tool is one command line, whose JSON document is the answer.
"""
