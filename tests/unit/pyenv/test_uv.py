# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.uv import (
    Unreachable,
    Unsolvable,
    Uv,
    UvError,
    attempt,
    failure,
    find,
    usual_places,
    uv_at,
)

# What uv 0.13 prints, with other addresses.
NO_ROUTE = """\
error: Request failed after 3 retries in 9.5s
  cause: Failed to fetch: https://user:secret@index.example/simple/numpy/
  cause: error sending request for url (https://index.example/simple/numpy/)
  cause: client error (Connect)
  cause: dns error
"""
FORBIDDEN = (
    "error: Failed to fetch: `https://index.example/a/`\n  cause: HTTP status client error (403 Forbidden) for url\n"
)
UNSOLVABLE = """\
error: No solution found when resolving dependencies
  cause: Because only torch<=2.15.0 is available and x depends on torch>=99, your requirements are unsatisfiable.
"""
REFUSED = """\
error: No solution found when resolving dependencies
  cause: Because six was not found in the package registry and o depends on six, your requirements are unsatisfiable.
  hint: An index (https://index.example/simple) returned a 403 Forbidden error.
"""
OFFLINE = """\
error: No solution found when resolving dependencies
  cause: Because alpha was not found in the cache and p depends on alpha, your requirements are unsatisfiable.
  hint: Packages were unavailable because the network was disabled.
"""
EXTRA = "error: Requested extra not found: nope\n"
FULL = "error: Failed to install: torch\n  Caused by: failed to copy: No space left on device (os error 28)\n"


@pytest.mark.parametrize(
    ("output", "kind", "said"),
    [
        (NO_ROUTE, Unreachable, "cannot be reached"),
        (FORBIDDEN, Unreachable, "403 Forbidden"),
        (OFFLINE, Unreachable, "network was disabled"),
        (REFUSED, Unreachable, "https://index.example/simple"),
        (UNSOLVABLE, Unsolvable, "torch>=99"),
        (EXTRA, UvError, "Requested extra not found: nope"),
        (FULL, UvError, "no space left"),
        ("", UvError, "exit code 2"),
    ],
)
def test_failures(output: str, kind: type[UvError], said: str) -> None:
    error = failure("resolving", 2, output)
    assert type(error) is kind
    assert said in error.message
    assert "resolving" in error.message
    assert "secret" not in error.message


def program(path: Path, body: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (
            "error: Failed to fetch: https://index.site/simple/numpy/\n cause: bad certificate\n\nhint: Use others\n",
            "https://index.site/simple/numpy/: bad certificate",
        ),
        ("error: Request failed for `http://index.site/x` (403)", "Request failed for `http://index.site/x` (403)"),
        ("download is controller", "download is controller"),
    ],
)
def test_what_was_asked_and_what_answered(output: str, said: str) -> None:
    assert attempt(output) == said


def test_find_takes_the_first_that_runs_and_is_new_enough(tmp_path: Path) -> None:
    old = program(tmp_path / "old", "echo uv 0.4.9")
    broken = program(tmp_path / "broken", "exit 1")
    good = program(tmp_path / "good", "echo 'uv 0.13.8 (x86_64)'")
    found = find([str(tmp_path / "missing"), broken, old, good], {})
    assert found is not None
    assert (found.path, found.version) == (good, "0.13.8")
    assert find([old, broken], {}) is None


def test_the_given_one_must_work(tmp_path: Path) -> None:
    assert uv_at(program(tmp_path / "good", "echo uv 1.0.0"), {}).version == "1.0.0"
    with pytest.raises(RankzeroError, match=r"0\.4\.9; at least 0\.7\.0"):
        uv_at(program(tmp_path / "old", "echo uv 0.4.9"), {})
    with pytest.raises(RankzeroError, match=r"uv: .*missing"):
        uv_at(str(tmp_path / "missing"), {})


def test_usual_places(tmp_path: Path) -> None:
    on_path = program(tmp_path / "bin" / "uv", "echo uv 1.0.0")
    assert usual_places({"HOME": "/h", "PATH": f"{tmp_path}/bin"}) == [on_path, "/h/.local/bin/uv", "/h/.cargo/bin/uv"]
    assert usual_places({"HOME": "/h", "PATH": ""})[0] == "/h/.local/bin/uv"


def test_run_has_its_own_environment_and_folder(tmp_path: Path) -> None:
    tool = Uv(
        program(tmp_path / "uv", 'echo "$PWD $A $B $HOME $1"'), "1.0.0", {"A": "a", "B": "b", "PATH": "/bin:/usr/bin"}
    )
    assert tool.run(["x y"], str(tmp_path), "trying", B="c").split() == [str(tmp_path), "a", "c", "x", "y"]
    with pytest.raises(UvError, match=r"trying: .* cannot be run"):
        Uv(str(tmp_path / "none"), "1", {}).run([], str(tmp_path), "trying")
