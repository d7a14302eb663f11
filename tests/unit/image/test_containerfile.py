# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Containerfile needs from outside."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.image.containerfile import Needs, needs, parse, select

TEXT = """\
# escape=\\
ARG RELEASE=12
FROM registry.invalid/debian:$RELEASE AS builder
ARG WHICH=lib
ENV SUB=tools
COPY --chown=1:1 $WHICH/*.py ${SUB}/ ./app.py /build/
run --mount=type=secret,id=token \\
    # a comment in between
    --mount=type=cache,target=/c make \\

    install
ADD https://example.invalid/x.tar /x/
FROM base
COPY --from=builder /build /app
COPY --from=registry.invalid/tool:1 /tool /tool
COPY ["with blank.txt", "/"]
RUN <<END
COPY is no instruction here
END
CMD ["sh"]
"""


def test_what_is_taken_from_outside() -> None:
    found = needs(TEXT, {"WHICH": "src"})
    assert found.bases == ("registry.invalid/debian:12", "base", "registry.invalid/tool:1")
    assert [source for _line, source in found.sources] == ["src/*.py", "tools", "app.py", "with blank.txt"]
    assert (found.whole, found.secrets) == (False, ("token",))
    assert needs(TEXT, {"RELEASE": "13"}).bases[0] == "registry.invalid/debian:13"


def test_instructions_stand_on_their_lines() -> None:
    assert [(one.name, one.line) for one in parse(TEXT)][:7] == [
        ("ARG", 2), ("FROM", 3), ("ARG", 4), ("ENV", 5), ("COPY", 6), ("RUN", 7), ("ADD", 12),
    ]  # fmt: skip
    run = next(one for one in parse(TEXT) if one.name == "RUN")
    assert run.text.split() == ["--mount=type=secret,id=token", "--mount=type=cache,target=/c", "make", "install"]


@pytest.mark.parametrize(
    "line",
    ["RUN --mount=type=bind,target=/src make", "ARG WHERE\nCOPY $WHERE /", "COPY . /app\nRUN --mount=target=/s make"],
)
def test_a_build_that_may_read_anything_gets_the_whole_context(line: str) -> None:
    found = needs(f"FROM scratch\n{line}\n", {})
    assert found.whole and found.bases == ()
    assert select(found, ["b", "a/c"]) == ["a/c", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the first instruction of a Containerfile must be FROM"),
        ("RUN x\n", "line 1: the first instruction of a Containerfile must be FROM"),
        ("FROM a\nCOPPY x /\n", "line 2: COPPY is not an instruction; did you mean COPY?"),
        ("FROM a\n\nCOPY x\n", "line 3: COPY needs a source and a destination"),
        ("FROM a\nCOPY ../x /\n", "line 2: ../x is outside the context"),
        ("FROM $BASE\n", "line 1: FROM $BASE: its ARG has no default and is not given"),
        ("FROM a b\n", "line 1: FROM IMAGE [AS NAME], not FROM a b"),
        ("FROM a\nENV X='\n", "line 2: ENV X='"),
    ],
)
def test_what_cannot_be_meant_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(RankzeroError) as caught:
        needs(text, {})
    assert caught.value.message.startswith(f"containerfile: {message}")


def test_names_that_the_containerfile_does_not_have() -> None:
    with pytest.raises(RankzeroError, match=r"build_args: RELEASES is not an ARG .*did you mean RELEASE\?"):
        needs(TEXT, {"RELEASES": "1"})
    with pytest.raises(RankzeroError, match=r"target: 'bilder' is not a stage .*did you mean builder\?.* builder, 1"):
        needs(TEXT, {}, "bilder")
    assert needs(TEXT, {"http_proxy": "http://p.invalid"}, "Builder").secrets == ("token",)


PATHS = ["app.py", "src/a.py", "src/deep/b.py", "src/c.txt", "data/x.bin", "data/keep.bin", "README"]


@pytest.mark.parametrize(
    ("sources", "ignored", "expected"),
    [
        (["src"], [], ["src/a.py", "src/c.txt", "src/deep/b.py"]),
        (["src/*.py"], [], ["src/a.py"]),
        (["s?c/[ab].py", "app.py"], [], ["app.py", "src/a.py"]),
        (["."], ["data", "**/*.py", "# data"], ["README", "src/c.txt"]),
        (["."], ["data/*", "!data/keep.bin", "src"], ["README", "app.py", "data/keep.bin"]),
        (["."], ["*", "!src/**/b.py"], ["src/deep/b.py"]),
    ],
)
def test_files_of_the_context(sources: list[str], ignored: list[str], expected: list[str]) -> None:
    wanted = Needs((), tuple((1, source) for source in sources), False, ())
    assert select(wanted, PATHS, ignored) == expected


def test_a_source_that_is_not_there_is_named() -> None:
    with pytest.raises(RankzeroError, match=r"line 7: the context has no file modell"):
        select(Needs((), ((7, "modell"),), False, ()), PATHS)
