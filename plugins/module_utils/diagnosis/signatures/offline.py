# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rank needs the network, which is not available on its node."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    RAISED,
    WEAK,
    Signature,
    raises,
    says,
)

_CLOSED = r"Connection aborted|RemoteDisconnected|ServerDisconnectedError"
# Who only downloads.
_HUB = (
    r"(?:site|dist)-packages/(?:huggingface_hub|datasets|transformers/utils/hub|modelscope|fsspec|gdown|nltk)\b|"
    r"torch/hub\.py|urllib/request\.py"
)
_CUT_OFF = "a download was cut off"

SIGNATURE = Signature(
    family="offline",
    what="a download was tried without a network",
    remedy=(
        "Stage what it needs before the job: `data`, `tokenizer`, a hub cache on shared storage in "
        "`env.HF_HOME`, then `env.HF_HUB_OFFLINE: 1`."
    ),
    look=(
        "See whether that address can be reached from the node (`curl -I`), and whether it was a lasting or a "
        "passing failure."
    ),
    matches=(
        raises(
            # A service on the node itself is none of the network's.
            r"^(?!.*(?:client socket|TCPStore|DistNetworkError|host='localhost')).*(?:"
            "Max retries exceeded with url|We couldn't connect to '?https?|NewConnectionError|"
            "NameResolutionError|Temporary failure in name resolution|OfflineModeIsEnabled|"
            "LocalEntryNotFoundError|outgoing traffic has been disabled|ConnectTimeout|"
            "[Cc]annot (?:reach|connect to) (?:host|the Hub|https?)|Couldn't reach|ClientConnectorError|"
            r"ProxyError|Tunnel connection failed|SSLError\b.*(?:EOF|handshake|[Rr]etries|WRONG_VERSION|[Tt]imed|"
            r"[Rr]ead|[Rr]eset|[Vv]iolation)|\[Errno 101\]|ReadTimeout|"
            r"Cannot find the requested files in the (?:disk|local) cache|offline mode(?: is enabled|[:,]? and\b)|"
            r"Connect\w*Error\b.*(?:Name or service not known|nodename nor servname)|"
            r"Network is unreachable|URLError|Consistency check failed|"
            r"CommError\b.*(?:[Tt]imed? ?out|connect|reach|network|communicat|[Uu]navailable|\b5\d\d\b))"
        ),
        # Of a server that may be the program's own.
        raises(
            r"(?:TimeoutError|OSError): \[Errno 1(?:10|13)\]",
            frames=r"\A(?![\s\S]*(?:torch/distributed|rendezvous|init_process_group))",
            strength=RAISED + 1,
        ),
        raises("CommError", strength=RAISED + 1),
        raises(
            r"certificate verify failed|CERTIFICATE_VERIFY_FAILED",
            strength=CAUSE + 1,
            what="the certificate of a server is not trusted",
            remedy=(
                "The certificate of the server, or of the site's proxy, is not trusted there: name the site's bundle "
                "in `env.SSL_CERT_FILE` and `env.REQUESTS_CA_BUNDLE`, or stage the files before the job (`data`)."
            ),
        ),
        raises(
            r"HTTPSConnectionPool|(?:Connection|Protocol|Timeout|Read)\w*Error: .*(?:IncompleteRead|Read timed out)|"
            r"[Oo]ffline mode is enabled|socket\.timeout: |read operation timed out|"
            r"\b(?:50[0234]) (?:Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)|"
            r"Run initialization has timed out|Error communicating with|download.*(?:timed out|"
            r"failed)|No address associated with hostname",
            strength=CAUSE - 1,
        ),
        # git, curl, wget, rsync and ssh.
        says(
            r"(?:fatal: |curl: |wget: |ssh: |rsync: |^Cloning |pip).*(?:Could not resolve host|unable to resolve host"
            r"|[Ff]ailed to connect to \S+ port|Name or service not known|Network is unreachable)",
            "resolve host",
            "ailed to connect to",
            "Name or service not known",
            "Network is unreachable",
            strength=WEAK + 5,
        ),
        raises(rf"{_CLOSED}|IncompleteRead", frames=_HUB, strength=CAUSE - 1, what=_CUT_OFF),
        # Which server it was, the message does not say.
        raises(
            _CLOSED,
            strength=RAISED + 2,
            what="a server closed the connection",
            remedy=(
                "If it is a service of the job itself, its own log says why it ended. A download was cut off: launch "
                "again, or stage the files before the job (`data`, a hub cache in `env.HF_HOME`)."
            ),
        ),
    ),
    examples=(
        "curl: (6) Could not resolve host: data.example",
        "fatal: unable to access 'https://git.example/model.git/': Could not resolve host: git.example",
        (
            "requests.exceptions.ConnectionError: (MaxRetryError(\"HTTPSConnectionPool(host='example.org', po"
            'rt=443): Max retries exceeded with url: /x"))'
        ),
        (
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cac"
            "he and outgoing traffic has been disabled."
        ),
        "OSError: We couldn't connect to 'https://example.org' to load the files",
    ),
    retry=True,
)
