# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A package could not be resolved, downloaded or built."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    RAISED,
    WEAK,
    Signature,
    raises,
    says,
)

_COMPILED = "code could not be compiled"
_COMPILER = (
    "The compiler's own message is above that line. Mostly it lacks the headers of Python, of CUDA or of a library, "
    "or there is no compiler: `setup.modules`, or another `container.image`."
)

SIGNATURE = Signature(
    family="build",
    what="a package could not be installed",
    remedy=(
        "Resolve it before the job: correct and lock the project (`environment.project`), or bring wheels "
        "(`environment.mode: wheelhouse`)."
    ),
    look="Read the first error of the build above that line: it names the package and what it lacks.",
    matches=(
        says(
            "^ERROR: (?:Cannot install|Could not (?:find a version|install packages|build wheels)|"
            "No matching distribution|Failed (?:building|to build)|ResolutionImpossible|"
            r"Package '\S+' requires|Exception:|Cannot uninstall|"
            "Invalid requirement|Double requirement)|^error: (?:subprocess-exited-with-error|"
            "Distribution `|metadata-generation-failed|legacy-install-failure|Failed to (?:fetch|download|"
            "build|prepare|"
            r"install))|No solution found when resolving|\u00d7 (?:No solution|Failed to (?:build|"
            "download))|Failed to build (?:`|installable)|The lockfile at .* needs to be updated|"
            r"Unable to find lockfile|"
            r"(?:LibMamba|PackagesNotFound|Unsatisfiable)\w*Error|ResolvePackageNotFound",
            "ERROR: ",
            "error: ",
            "No solution found",
            "Failed to ",
            "lockfile",
            "Unsatisfiable",
            "LibMamba",
            "PackagesNotFound",
            "ResolvePackageNotFound",
        ),
        says(
            r"CMake Error|collect2: error|ninja: build stopped|fatal error: \S+\.h: No such file",
            "CMake Error",
            "collect2",
            "ninja: build",
            "fatal error: ",
            what=_COMPILED,
            remedy=_COMPILER,
        ),
        raises(
            "Error building extension|Error compiling objects|CompileError|"
            r"nvcc\S* (?:not found|failed)|InductorError: \S*(?:CalledProcess|Compile|FileNotFound)\w*|"
            "Failed to find C compiler",
            what=_COMPILED,
            remedy=_COMPILER,
        ),
        says(
            r"^error: (?:externally-managed-environment|No virtual environment found|"
            r"command '\S+' failed|No solution|Because |the \S+ lockfile)|"
            r"^ERROR: (?:\S+ is not a supported wheel|Ignored the following|No \.egg-info|"
            r"Could not open requirements|HTTP error|THESE PACKAGES DO NOT MATCH)",
            "error: externally",
            "error: No virtual",
            "error: command '",
            "supported wheel",
            "open requirements",
            "ERROR: ",
        ),
        # A compiler or make that the batch script runs.
        says(
            r"^\S+\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp|f|f90)[:(]\d+[:),\d]* (?:fatal )?error: (?!\()|"
            r"^(?:\w+ )?fatal +: |^\S*(?:gcc|g\+\+|clang|nvcc|ld|cc1\w*|ptxas)(?: \w+)? *: (?:fatal )?error|"
            r": undefined reference to ",
            " error: ",
            " fatal ",
            ": error",
            "undefined reference",
            strength=WEAK + 6,
            what=_COMPILED,
            remedy=_COMPILER,
        ),
        # Docker.
        says(
            r"^The command '.*' returned a non-zero code: |^(?:ERROR|target \S+): failed to solve: ",
            "returned a non-zero code",
            "failed to solve: ",
            strength=WEAK + 6,
        ),
        says(
            r"^g?make(?:\[\d+\])?: \*\*\* ",
            "make: ***",
            "]: ***",
            strength=WEAK + 5,
            what=_COMPILED,
            remedy=_COMPILER,
        ),
        # Carriers: the output of the command that it ran is more specific.
        raises(r"CalledProcessError.*\bpip", strength=RAISED + 1),
        raises(
            r"CalledProcessError.*(?:ninja|nvcc|cmake|gcc|[gc]\+\+)",
            strength=RAISED + 1,
            what=_COMPILED,
            remedy=_COMPILER,
        ),
        says("^ERROR: pip's dependency resolver does not", "ERROR: pip's", strength=WEAK),
        raises("Ninja build failed", what=_COMPILED, remedy=_COMPILER),
        # virtualenv prepares what it installs in a thread, and goes on without it.
        raises(r"\w+(?:Error|Exception)\b", frames=r"-packages/virtualenv/", strength=CAUSE - 2),
    ),
    examples=(
        "The command '/bin/sh -c pip3 install lamps' returned a non-zero code: 1",
        "ERROR: Cannot install a and b==1 because these package versions have conflicting dependencies.",
        "error: Failed to fetch: `https://example.org/x.whl`",
        "  No solution found when resolving dependencies:",
        "RuntimeError: Error building extension 'cpu_adam'",
    ),
)
