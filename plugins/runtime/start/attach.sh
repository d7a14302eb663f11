# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Becomes the batch script of a launch inside a job that is running already: the first thing in the step that srun
# started on the first of its nodes. Usage: attach.sh RUN_DIR NONCE NODE,NODE,...
set -u

export RANKZERO_ATTACHED="$SLURM_JOB_ID.$SLURM_STEP_ID"
# To whoever started the step, while srun is there to carry it; from here on nobody needs srun.
printf '[rankzero] step %s\n' "$RANKZERO_ATTACHED"
exec < /dev/null >> "$1/logs/job.$RANKZERO_ATTACHED.log" 2>&1 || exit 73
cd "$1" || exit 66

# The environment as sbatch would have it. Otherwise the variables of this step would act as options of the steps that the
# script starts, and those of the outer job would become part of this launch.
# A batch job is told its cluster's name. A step is by 26.05; by 22.05 only the cluster's address; by 24.11 neither.
cluster=${SLURM_CLUSTER_NAME:-${SLURM_WORKING_CLUSTER:-}}
[ -n "$cluster" ] \
    || cluster=$(PATH="$PATH:/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin" scontrol show config | sed -n 's/^ClusterName *= *//p')
for name in $(compgen -e); do
    case $name in
        SLURM_CONF | SLURM_JOB_ID | SLURM_JOB_NAME | SLURM_JOB_PARTITION | SLURM_JOB_UID | SLURM_JOB_GID | SLURM_JOB_USER) ;;
        SLURM_* | SBATCH_* | SRUN_* | PMI_* | PMIX_*) unset "$name" ;;
        CUDA_VISIBLE_DEVICES | ROCR_VISIBLE_DEVICES | HIP_VISIBLE_DEVICES | GPU_DEVICE_ORDINAL | ZE_AFFINITY_MASK) unset "$name" ;;
    esac
done
[ -z "$cluster" ] || export SLURM_CLUSTER_NAME="${cluster%%:*}"
names=${3//[!,]/}
export SLURM_JOB_NODELIST="$3" SLURM_JOB_NUM_NODES=$((${#names} + 1))
exec /bin/bash "$1/job.sbatch" --submission "$2"
