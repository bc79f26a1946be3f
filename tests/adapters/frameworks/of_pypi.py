#!/usr/bin/env python3
"""Runs the program of a framework in this folder, NAME_test.py, with that framework's newest release of PyPI.

    of_pypi.py SOURCE BUILD NAME

The library is that of BUILD. What pip installs stays in BUILD for the next time."""

import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import pypi  # noqa: E402

# What pip installs, and what starts the program's ranks where the framework does not do it from within.
FRAMEWORKS = {
    "dask": ("dask distributed numpy", ""),
    "ray": ("ray numpy", ""),
    "spark": ("pyspark numpy", ""),
    "jax": ("jax numpy", "tutti run -n 2"),
    "tensorflow": ("tensorflow-cpu", "tutti run -n 2"),
    "accelerate": ("torch numpy accelerate", "torchrun --nproc_per_node 2"),
    "lightning": ("torch numpy lightning", ""),
    "deepspeed": ("torch numpy deepspeed ninja", "torchrun --nproc_per_node 2"),
}


def main(source, build, name):
    packages, launcher = (text.split() for text in FRAMEWORKS[name])
    with_torch = "torch" in packages  # one environment for all of these, as torch is large
    folder = build / f"{'torch-frameworks' if with_torch else name}-of-pypi"
    run = pypi.Runner(source, build)
    python = pypi.environment(run, folder, packages, ["python", "torch"] if with_torch else ["python"])
    for package in packages:
        print(package, run(python, "-c", f"import importlib.metadata as m; print(m.version({package!r}))"), end="")
    words = [str(folder / "bin" / launcher[0]), *launcher[1:]] if launcher else []
    program = str(pathlib.Path(__file__).resolve().parent / f"{name}_test.py")
    with tempfile.TemporaryDirectory() as home:  # for what frameworks leave there: logs, keys of their clusters
        run(*words, *([] if launcher[:1] == ["torchrun"] else [python]), program,
            env={"HOME": home, "TMPDIR": home, "RAY_TMPDIR": home, "DS_ACCELERATOR": "cpu", "PATH": f"{folder}/bin:{os.environ['PATH']}"})


if __name__ == "__main__":
    main(*(pathlib.Path(path).resolve() for path in sys.argv[1:3]), sys.argv[3])
