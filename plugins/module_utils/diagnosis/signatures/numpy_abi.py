# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An extension that was built for numpy 1 is used with numpy 2, or the other way round."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    WEAK,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="numpy_abi",
    what="numpy 2 meets code that was built or written for numpy 1",
    remedy=(
        "Pin `numpy<2` in the project (`environment.project`), lock it and launch again; or take versions of the other "
        "packages that know numpy 2 (`datasets` from 2.20 on)."
    ),
    look="Compare the version of numpy that the ranks import with the one that the package was built for.",
    matches=(
        raises(
            r"numpy\.(?:dtype|ufunc) size changed, may indicate binary incompatibility|"
            r"numpy\.core\.multiarray failed to import|`np\.\w+` was removed in the NumPy 2|"
            r"module \'numpy\' has no attribute|_ARRAY_API not found|"
            r"Numpy is not available|Unable to avoid copy while creating an array",
            strength=CAUSE + 1,
        ),
        says(
            r"A module that was compiled using NumPy 1\.x cannot be run in", "compiled using NumPy 1.x", strength=WEAK
        ),
        raises(
            r"No module named 'numpy\._core",
            strength=CAUSE + 2,
            what="a file that numpy 2 wrote is read with numpy 1",
            remedy="Take `numpy>=2` in `environment.project` and lock it, or write the file with numpy 1.",
        ),
        raises("cannot import name '\\w+' from 'numpy", strength=CAUSE + 2),
    ),
    examples=(
        (
            "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C h"
            "eader, got 88 from PyObject"
        ),
        "AttributeError: `np.float_` was removed in the NumPy 2.0 release. Use `np.float64` instead.",
        "ModuleNotFoundError: No module named 'numpy._core'",
        "ValueError: Unable to avoid copy while creating an array as requested.",
    ),
)
