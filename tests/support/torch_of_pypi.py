"""Runs a script with torch of PyPI, the newest when it was installed: it stays in the build folder for the next time.

    torch_of_pypi.py BUILD SCRIPT [ARGUMENT...]
"""

import os
import pathlib
import subprocess
import sys


def environment(build, release=""):
    """The folder of the environment with this release of torch, or the newest."""
    return pathlib.Path(build).resolve() / ("torch-of-pypi" + (f"-{release}" if release else ""))


def main(build, *words):
    python = str(environment(build) / "bin/python")
    if not os.path.exists(python) or subprocess.run([python, "-c", "import torch, numpy"], stderr=subprocess.DEVNULL).returncode != 0:
        subprocess.run([sys.executable, "-m", "venv", environment(build)], check=True)
        subprocess.run([python, "-m", "pip", "-q", "install", "torch", "numpy"], stdin=subprocess.DEVNULL, check=True)
    os.execv(python, [python, *words])


if __name__ == "__main__":
    main(*sys.argv[1:])
