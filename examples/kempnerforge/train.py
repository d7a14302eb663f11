"""One rank of KempnerForge's own scripts/train.py; then rank 0 writes the proof.

Told to end by SIGTERM, KempnerForge saves itself and ends; started again, it goes on from `latest` in the same folder.
"""

import argparse
import json
import os
import runpy
import sys
from pathlib import Path


def saved_step(checkpoints: Path) -> int:
    """The step of the newest checkpoint, which the link `latest` names: step_500."""
    latest = checkpoints / "latest"
    return int(latest.resolve().name.rpartition("_")[2]) if latest.exists() else 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", 1)[0],
        epilog="Every other argument reaches KempnerForge, such as --train.batch_size=4.",
        allow_abbrev=False,
    )
    parser.add_argument("config", type=Path)
    parser.add_argument("--train.max_steps", dest="steps", type=int, required=True)
    options, overrides = parser.parse_known_args()
    checkpoints = Path(os.environ["RANKZERO_CHECKPOINT_DIR"])
    framework = Path(os.environ["KEMPNERFORGE"])
    sys.argv = [
        "train.py",
        str(options.config),
        f"--train.max_steps={options.steps}",
        f"--checkpoint.dir={checkpoints}",
        *overrides,
    ]
    try:
        runpy.run_path(str(framework / "scripts" / "train.py"), run_name="__main__")
    finally:
        if os.environ["RANK"] == "0":
            step = saved_step(checkpoints)
            # What the job compares to see whether an attempt got further.
            (checkpoints / "latest_step").write_text(f"{step}\n", encoding="utf-8")
            if step >= options.steps:
                artifact = Path(os.environ["RANKZERO_ARTIFACT"])
                temporary = artifact.with_name(artifact.name + ".tmp")
                temporary.write_text(json.dumps({"step": step, "checkpoints": str(checkpoints)}), encoding="utf-8")
                temporary.replace(artifact)


if __name__ == "__main__":
    main()
