# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `notify` may contain; an address is never one of its values, and never shown in an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.notify import deliver, due
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import notify
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.checkpoint import NOTIFY

HIDDEN = "hooks.example.org/T0/s3cr3t"


def receivers(value: Any, cluster: Any = None) -> tuple[notify.Receiver, ...]:
    layers = [Layer("cluster", {} if cluster is None else {"notify": cluster})]
    job = {"name": "gpt", "command": ["./train"], **({} if value is None else {"notify": value})}
    return validated(merge([*layers, Layer("job", job)])).notify


def test_receivers() -> None:
    assert receivers(None) == ()
    assert receivers(
        [{"url_file": "~/slack", "format": "slack", "events": ["proven", "started"], "from_job": "yes"}]
    ) == (notify.Receiver(url_file="~/slack", format="slack", events=("started", "proven"), from_job=True),)
    usual = ("stalled", "failed", "proven")
    assert receivers([{"url_env": "RANKZERO_NOTIFY_X"}, {"mail": "me@example.org"}, {"mail": "me"}]) == (
        notify.Receiver(url_env="RANKZERO_NOTIFY_X", format="json", events=usual),
        notify.Receiver(mail="me@example.org", format="mail", events=usual),
        notify.Receiver(mail="me", format="mail", events=usual),
    )


def test_a_job_replaces_the_receivers_of_its_cluster() -> None:
    cluster = [{"mail": "team@example.org"}]
    assert receivers(None, cluster)[0].mail == "team@example.org"
    assert receivers([], cluster) == ()
    assert [who.mail for who in receivers([{"mail": "me"}], cluster)] == ["me"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (f"https://{HIDDEN}", "must be a list of receivers"),
        ([f"https://{HIDDEN}"], "must be a map with one of url_env, url_file and mail"),
        ([{"url": f"https://{HIDDEN}"}], "the address of a webhook is a secret"),
        ([{"url_file": f"https://{HIDDEN}"}], "url_file must be a path on the login node"),
        ([{"url_env": f"https://{HIDDEN}"}], "url_env must be a variable of the environment whose name begins with"),
        ([{"url_env": "AWS_SECRET_ACCESS_KEY"}], "whose name begins with RANKZERO_NOTIFY_"),
        ([{"mail": "-bs"}], "mail must be"),
        ([{"mail": "me@example.org, you@example.org"}], "mail must be a mail address"),
        ([{"mail": "me@example.org\nBcc: you@example.org"}], "mail must be a mail address"),
        ([{}], "needs exactly one of url_env, url_file and mail, and has none"),
        ([{"mail": "me", "url_file": "/x"}], "has url_file, mail"),
        ([{"url_file": "/x", "format": "discord"}], "must be one of slack, teams, ntfy, json"),
        ([{"url_file": "/x", "events": []}], "must not be empty"),
        ([{"url_file": "/x", "events": ["start"]}], "did you mean started"),
        ([{"url_file": "/x", "event": ["started"]}], "did you mean events"),
        ([{"mail": "me", "format": "json"}], "a mail is plain text; omit format"),
        ([{"mail": "me", "from_job": True}], "has from_job, which needs url_file"),
        ([{"url_env": "RANKZERO_NOTIFY_X", "from_job": True}], "has from_job, which needs url_file"),
    ],
)
def test_mistakes_are_named_and_addresses_are_not_shown(value: Any, words: str) -> None:
    with pytest.raises(SpecError) as raised:
        receivers(value)
    text = str(raised.value)
    assert "notify:" in text and words in text
    assert "s3cr3t" not in text


def test_the_file_of_a_run_contains_what_its_readers_know() -> None:
    (who,) = json.loads(json.dumps(notify.document(receivers([{"url_file": "/x"}]))))["receivers"]
    assert who == {"url_env": "", "url_file": "/x", "mail": "", "format": "json", "from_job": False,
                   "events": ["stalled", "failed", "proven"]}  # fmt: skip
    schema = NOTIFY.schema["items"]["properties"]
    assert schema["events"]["items"]["enum"] == list(notify.EVENTS) and notify.PREFIX in schema["url_env"]["pattern"]
    assert schema["format"]["enum"] == list(notify.FORMATS) and set(schema) == set(who)
    assert tuple(deliver.TITLES) == due.EVENTS == notify.EVENTS and notify.FILE == state_files.NOTIFY
