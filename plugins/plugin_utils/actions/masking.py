# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of secrets in all that Ansible prints."""

from __future__ import annotations

try:
    from ansible.module_utils.secrets import register_secrets
except ImportError:  # before ansible-core 2.22
    register_secrets = None

from ansible_collections.rankzero.slurm.plugins.module_utils.run.secrets.sums import SHORTEST, values_of


def masked(lines: bytes) -> bytes:
    """The same lines NAME=base64. Their values are masked from now on in all that Ansible prints or gives to callbacks,
    but for words that occur in any text.
    """
    if register_secrets is not None:
        texts = [value.decode("utf-8", "replace") for value in values_of(lines.decode("ascii"))]
        register_secrets([text for text in texts if len(text) >= SHORTEST])
    return lines
