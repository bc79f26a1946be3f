#!/usr/bin/env python3
"""Every test of torch's own that passes with gloo passes with tutti.

    upstream_test.py FORM [NAME...]        holds the stored list (of this torch), or the tests named
    upstream_test.py --remake              runs all with gloo and stores those that pass
"""

import os
import re
import subprocess
import sys
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = ".".join(re.findall(r"\d+", torch.__version__)[:2])
# torch itself refuses these calls with other backends.
GLOOS_OWN = re.compile("monitored_barrier")
# The log of DDP in torch 2 calls every compiled backend that is not torch's own "custom".
CUSTOM = {"test_ddp_logging_data_cpu"} if not torch.__version__.startswith("1.") else set()
LIST = os.path.join(HERE, f"passes_with_gloo_{VERSION}.txt")


def results(backend, form, names):
    """What each test gave: "ok", "FAIL", "ERROR" or "skipped"."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "BACKEND": backend, "FORM": form, "TEMP_DIR": folder, "WORLD_SIZE": "2",
                       "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        ran = subprocess.run([sys.executable, os.path.join(HERE, "upstream.py"), "-v"] + ["T." + name for name in names],
                             env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = {}
    for name, rest in re.findall(r"^(test_\w+) \(.*?\) ?\.\.\.((?:(?!^test_\w+ \().|\n)*)", ran.stdout, re.M):
        verdict = re.search(r"(?:^|\s)(ok|FAIL|ERROR|skipped)\b(?!:)", rest)
        found[name] = verdict.group(1) if verdict else "ERROR"
    return found, ran.stdout


def main():
    if sys.argv[1] == "--remake":
        found, _ = results("gloo", "", [])
        with open(LIST, "w", encoding="utf-8") as file:
            file.writelines(name + "\n" for name in sorted(found) if found[name] == "ok" and not GLOOS_OWN.search(name))
        return 0
    names = sys.argv[2:]
    if not names:
        with open(LIST, encoding="utf-8") as file:
            names = file.read().split()
        if sys.argv[1] == "compiled":
            names = [name for name in names if name not in CUSTOM]
    found, output = results("tutti", sys.argv[1], names)
    wrong = {name: found.get(name, "not run") for name in names if found.get(name) != "ok"}
    if wrong:
        print(output)
    print(f"{len(names) - len(wrong)} of {len(names)} pass", *(f"{name}: {what}" for name, what in wrong.items()), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
