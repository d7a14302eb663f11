# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sessions that people who work on many collections expect: `nox -l`. antsibull-nox.toml declares its own; those
below are the targets of the Makefile, which set up what they need.

    pip install nox antsibull-nox && nox
"""

# /// script
# dependencies = ["nox>=2025.2.9", "antsibull-nox>=1.8"]
# ///

import antsibull_nox
import nox

antsibull_nox.load_antsibull_nox_toml()


def make(session: nox.Session, target: str) -> None:
    """Run a target; what follows -- on the command line of nox is its ARGS."""
    session.run("make", target, f"ARGS={' '.join(session.posargs)}", external=True)


@nox.session(python=False)
def lint(session: nox.Session) -> None:
    """ruff, mypy, shellcheck, yamllint, ansible-lint, changelog, the documentation and its links: make lint."""
    make(session, "lint")


@nox.session(python=False)
def sanity(session: nox.Session) -> None:
    """ansible-test sanity without a file of ignored rules: make sanity."""
    make(session, "sanity")


@nox.session(python=False)
def units(session: nox.Session) -> None:
    """The fast tests: make unit."""
    make(session, "unit")


if __name__ == "__main__":
    nox.main()
