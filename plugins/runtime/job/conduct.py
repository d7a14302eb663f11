# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch script's process: job.sh becomes this program.

    conduct.py ARRAY_FOLDER SCRIPT [--submission NONCE]

`--submission` is there when the collection submitted the script, and not when a person did. A Python of any age can
read this file; those that it imports need 3.9.
"""

import os
import sys

sys.dont_write_bytecode = True
RUNTIME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, RUNTIME)
if sys.version_info < (3, 9):  # noqa: UP036
    missing = f"no python3 of at least 3.9 ({sys.executable} is {sys.version_info[0]}.{sys.version_info[1]})"
    os.execv("/bin/bash", ["bash", os.path.join(RUNTIME, "start", "no_python.sh"), missing, *sys.argv[3:]])

from core import compiled  # noqa: E402

compiled.use(RUNTIME)

from job import environment  # noqa: E402

if __name__ == "__main__":
    # It begins while the rest of this program is loaded.
    started = environment.second_pass(sys.argv[2], sys.argv[3:])
    from job.conductor import main

    sys.exit(main(RUNTIME, sys.argv[1:], started))
