"""Environments with packages of PyPI, in the build folder, where they stay for the next time."""

import os
import pathlib
import subprocess
import sys

UNWANTED = ("TUTTI_LIBRARY", "PYTHONPATH", "LD_LIBRARY_PATH", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


class Runner:
    """Runs programs as a user of the clone SOURCE does, with the library of BUILD."""

    def __init__(self, source, build):
        self.source = source
        self.environment = {name: value for name, value in os.environ.items() if name not in UNWANTED}
        self.environment.update(TUTTI_BUILD_DIR=str(build), PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_QUIET="1", PIP_NO_COMPILE="1",
                                OMP_NUM_THREADS="1")

    def __call__(self, *words, limit=900, env=None):
        """What it prints; ends this program where it fails."""
        ran = subprocess.run(words, cwd=self.source, env={**self.environment, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, stdin=subprocess.DEVNULL, timeout=limit)
        if ran.returncode != 0:
            sys.exit(f"status {ran.returncode}: {' '.join(map(str, words))}\n{ran.stdout[-6000:]}")
        return ran.stdout


def environment(run, folder, packages, adapters):
    """The Python of an environment with these packages, which come where they are not there yet, and these folders of lib/adapters."""
    python = str(pathlib.Path(folder) / "bin/python")
    if not os.path.exists(python):
        run(sys.executable, "-m", "venv", str(folder))
    run(python, "-m", "pip", "install", *packages, limit=2400)
    run(python, "-m", "pip", "install", *[f"./lib/adapters/{adapter}" for adapter in adapters], limit=2400)
    return python
