# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `job_pull`: fetch outputs as logs are fetched, and compare their digests with the cluster's."""

from __future__ import annotations

import os

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.outputs import (
    WORK,
    Copy,
    Difference,
    Proof,
    Verification,
    compare,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import FetchRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import PULL_SPEC, identity
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.fetch import FetchAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.fetching import Options, Transfer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.fetched import discard, holdings
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import display


class ActionModule(FetchAction):
    MODULE = "rankzero.slurm.job_pull"
    SUBJECT = WORK
    SPEC = PULL_SPEC

    def _fetch(self, options: Options) -> ModuleResult:
        transfer = self._opened(options)
        self._rounds(options, transfer)
        if self.check_mode:
            planned = [Copy(part.path, part.size, None) for part in transfer.files]
            return self._told(transfer, planned, None)
        copies, proof = self._verified(options, transfer)
        return self._told(transfer, copies, proof)

    def _verified(self, options: Options, transfer: Transfer) -> tuple[list[Copy], Proof | None]:
        """Compare every file with the cluster's, and fetch those that differ once more. Raises RankzeroError."""
        copies, difference, proof = self._compared(transfer)
        if difference.copies:
            for path in difference.copies:
                display.warning(f"{path} differs from the cluster's file; it is fetched again")
                discard(transfer.place, path)
            self._rounds(options, transfer)
            copies, difference, proof = self._compared(transfer)
        if difference.copies:
            raise RankzeroError(
                f"{', '.join(difference.copies)}: changed on the cluster while it was fetched. Fetch it again when the "
                f"job no longer writes it. The other files in {transfer.dest} are complete."
            )
        if difference.artifact:
            raise RankzeroError(
                f"{difference.artifact}: is not the file that proved the launch; it was changed afterwards. What the "
                f"cluster has now is in {transfer.dest}."
            )
        return copies, proof

    def _compared(self, transfer: Transfer) -> tuple[list[Copy], Difference, Proof | None]:
        request = FetchRequest(have=holdings(transfer.place), digests=True)
        cluster = Verification.of(self._called(request))
        copies, difference = compare(transfer.dest, cluster)
        known = cluster.proof if cluster.proof and cluster.proof.path in cluster.digests else None
        return copies, difference, known

    def _told(self, transfer: Transfer, copies: list[Copy], proof: Proof | None) -> ModuleResult:
        """Return the result of the task."""
        number = "1 file" if len(copies) == 1 else f"{len(copies)} files"
        lines = [transfer.dest]
        if self.check_mode:
            lines.append(f"{number} would be fetched, {amount(transfer.bytes)}")
        else:
            proven = "; the artifact is the proven one" if proof else ""
            lines.append(f"{number} complete and verified, {amount(transfer.bytes)} fetched{proven}")
        if not transfer.over:
            lines.append("the launch has not ended; these are its files so far")
        artifact = {"path": os.path.join(transfer.dest, proof.path), "sha256": proof.sha256} if proof else None
        files = [vars(copy) for copy in copies]
        return {
            **transfer.result(),
            **vars(identity(transfer.run_dir)),
            "files": files,
            "artifact": artifact,
            "lines": lines,
        }
