# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A package, or a name in it, is missing from the environment of the ranks."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    Signature,
    raises,
    says,
)

# Functions that frameworks call on rank 0 alone.
_EXPORT = r"in (?:save_artifacts|save_hf_\w+|save_pretrained|export_\w+|copy_custom_modeling\w*)\b"

_NAME = (
    "The package is there, but its version lacks that name: choose the version that the code was written for in "
    "`environment.project`, and lock it. A file of the program with the name of the package hides it as well."
)
_LIBRARY = (
    "A library of the system is missing on the node or in the image: `setup.modules`, another `container.image`, or a "
    "wheel that brings it (such as opencv-python-headless)."
)

# Python 3 writes the name in quotes.
_PYTHON_2 = (
    "The message is that of Python 2, often the one of the system: start the program with the Python of its "
    "environment (`environment.project`, `setup.modules`, `python3` in `command`). If it is meant for Python 2, add "
    "the package there."
)
_FOLDER = (
    "What Python finds under that name is a folder without the code: one of that name in the working directory or in "
    "`env.PYTHONPATH` that comes before the package, or an installation that is not complete. Rename the folder, or "
    "install the package again in `environment.project`."
)

_LACKS = "a module lacks a name: {module}"

SIGNATURE = Signature(
    family="import_error",
    what="a Python package is missing: {module}",
    remedy=(
        "Add it to the project and lock it; `environment.extras` and `environment.mode` decide what the "
        "ranks get. If it is installed, another Python runs: `environment.project`, `setup.modules`, "
        "`env.PYTHONPATH`."
    ),
    look=(
        "Run the import on a node with the Python of the ranks: the package may be absent, another version, "
        "or hidden by another copy."
    ),
    matches=(
        raises(r"(?:ModuleNotFoundError|ImportError): No module named '?(?P<module>[\w.]+)"),
        # The package is there and its part is not: another copy of it comes first.
        raises(
            r"(?:ModuleNotFoundError|ImportError): No module named '?(?P<module>megatron\.[\w.]+)",
            strength=CAUSE + 1,
            remedy=(
                "Another copy of the package comes first, often the one in the image: put the folder of your own copy "
                "in `env.PYTHONPATH` (for example 3rdparty/Megatron-LM below the mounted code), or install it in "
                "`environment.project`. `preflight.imports` shows each package's version on each node."
            ),
        ),
        raises(
            r"No module named '?(?P<module>(?:src|utils?|models?|datasets?_\w+|configs?|envs?|data|train\w*|helpers?|"
            r"layers|lib|common|core|tools|"
            r"scripts?|modules|networks?|loss(?:es)?|options)(?:\.[\w.]+)?)'?$",
            strength=CAUSE + 1,
            what="a module of the program is not found: {module}",
            remedy=(
                "It has the name of a module of the program itself: start the program in the folder that holds it, or "
                "name that folder in `env.PYTHONPATH`. Else add the package to `environment.project` and lock it."
            ),
        ),
        raises(
            r"No module named '?(?P<module>(?:numpy|scipy|pandas|torch|sklearn)\.[\w.]*_\w+)",
            strength=CAUSE + 1,
            what="a compiled part of a package is missing: {module}",
            remedy=(
                "The copy that is imported was built for another Python: see the folders in the traceback. Modules and "
                "`env.PYTHONPATH` may put it before that of the environment (`setup.modules`, `environment.project`)."
            ),
        ),
        # Python names the package alone where that is missing.
        raises(
            r"No module named '?(?P<module>\w+\.[\w.]+)",
            strength=CAUSE + 1,
            what="a package lacks a part: {module}",
            remedy=(
                "The package is there, and this version of it, or the copy that comes first, lacks that part: choose "
                "the version that the code was written for in `environment.project` and lock it, or put the folder of "
                "your own copy in `env.PYTHONPATH`. `preflight.imports` shows each package's version on each node."
            ),
        ),
        raises(r"^ImportError: No module named (?P<module>[\w.]+)$", strength=CAUSE + 2, remedy=_PYTHON_2),
        raises(
            "attempted relative import",
            strength=CAUSE + 1,
            what="a file of a package was started as a program",
            remedy="Start it as a module: `python -m PACKAGE.MODULE` in `command`, from the folder above the package.",
        ),
        raises(
            r"(?:ImportError|ModuleNotFoundError)\b(?:.*'(?P<module>[\w.]+)')?",
            frames=_EXPORT,
            strength=CAUSE + 2,
            remedy=(
                "Only rank 0 writes the export, so only its environment was asked, while the others wait until their "
                "timeout: add the package to the project (`environment.project`, `environment.extras`). If the export "
                "is only slow, a longer timeout of the process group is an argument of the program in `command`."
            ),
        ),
        says(r"^\S*python[\d.]*: No module named '?(?P<module>[\w.]+)'?$", "No module named"),
        raises(r"(?:ImportError|ModuleNotFoundError)\b.*", strength=CAUSE - 1),
        raises("ImportError: cannot import name '(?P<module>[^']+)'", remedy=_NAME, what=_LACKS),
        raises(
            "UnencryptedCookieSessionFactoryConfig",
            strength=CAUSE + 3,
            what="the installed apex is another package than NVIDIA's",
            remedy="Remove apex from the project, and build NVIDIA's from its repository, or take an image with it.",
        ),
        raises(
            r"ImportError: cannot import name '[^']+' from '(?P<module>[^']+)' \(unknown location\)",
            strength=CAUSE + 2,
            what="a package is only a folder without its code: {module}",
            remedy=_FOLDER,
        ),
        # A file of the program itself.
        raises(
            r"ImportError: cannot import name '(?P<module>[^']+)' from .*\((?!.*(?:(?:site|dist)-packages|/lib/python|"
            r"unknown location))/",
            strength=CAUSE + 1,
            what=_LACKS,
            remedy=(
                "Look at the file that it names: the name is not defined there, or the two files import each other. "
                "An older copy of the file comes first if it is defined in yours."
            ),
        ),
        raises(
            r"ImportError: lib\S+: cannot open shared object file",
            remedy=_LIBRARY,
            what="a library of the system is missing",
        ),
        raises(
            r"(?P<module>Ninja) is required to load C\+\+ extensions|"
            "requires the following packages that were not found|PackageNotFoundError"
        ),
        raises(
            r"[Pp]lease (?:pip )?install\b|\bnot installed\b|[`'\"]pip install |[Rr]un:? [`'\"]?pip install|"
            r"pip install \S+ to|Could not find (?:the )?(?:package|library)|[Ii]nstall (?:it|them) (?:with|via|by|"
            r"using)|"
            r"(?:needs?|requires?|must|has|have)\b.{0,80} (?:to )?be installed|must install \w",
            strength=CAUSE - 3,
        ),
        says(
            r"while finding module specification for '(?P<module>[\w.]+)'|"
            r"error while loading shared libraries: (?P<library>[^:\s]+)",
            "module specification for",
            "loading shared libraries",
        ),
    ),
    examples=(
        "ModuleNotFoundError: No module named 'lightning'",
        "/usr/bin/python3: No module named torch.distributed.run",
        "ImportError: cannot import name 'x' from 'y'",
        "RuntimeError: Ninja is required to load C++ extensions",
        "importlib.metadata.PackageNotFoundError: No package metadata was found for bitsandbytes",
    ),
)
