#!/bin/sh
# Every five minutes, from cron or a systemd timer of a machine that reaches the cluster (its login node will do):
#   */5 * * * * REPOSITORY=https://git.example.org/ml/jobs.git $HOME/pull.sh >>$HOME/reconcile.log 2>&1
# Two at once do no harm, so nothing locks here. INVENTORY is a path in the repository; `localhost,` is for the clone.
set -eu
exec ansible-pull --url "$REPOSITORY" --checkout "${BRANCH:-main}" --directory "${CHECKOUT:-$HOME/.rankzero/pull}" \
    --inventory localhost, --inventory "${INVENTORY:-inventory/lab.yml}" --limit '*' reconcile.yml "$@"
