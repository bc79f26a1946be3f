#!/usr/bin/env python3
"""Every test of torch's own that passes with gloo passes with tutti.

    upstream_test.py FORM [NAME...]        holds the stored lists (of this torch), or the tests named
    upstream_test.py --remake              runs all with gloo and stores those that pass, and with more ranks those that
                                           are skipped with two
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
LISTS = {ranks: os.path.join(HERE, f"passes_with_gloo_{VERSION}{more}.txt") for ranks, more in ((2, ""), (4, "_of_4"))}


def results(backend, form, ranks, names):
    """What each test gave: "ok", "FAIL", "ERROR" or "skipped"."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "BACKEND": backend, "FORM": form, "TEMP_DIR": folder, "WORLD_SIZE": str(ranks),
                       "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        ran = subprocess.run([sys.executable, os.path.join(HERE, "upstream.py"), "-v"] + ["T." + name for name in names],
                             env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = {}
    for name, rest in re.findall(r"^(test_\w+) \(.*?\) ?\.\.\.((?:(?!^test_\w+ \().|\n)*)", ran.stdout, re.M):
        verdict = re.search(r"(?:^|\s)(ok|FAIL|ERROR|skipped)\b(?!:)", rest)
        found[name] = verdict.group(1) if verdict else "ERROR"
    return found, ran.stdout


def stored(ranks, form):
    if ranks > 2 and not os.path.exists(LISTS[ranks]):
        print(f"there is no {os.path.basename(LISTS[ranks])}, which --remake writes")
        return []
    with open(LISTS[ranks], encoding="utf-8") as file:
        return [name for name in file.read().split() if form != "compiled" or name not in CUSTOM]


def main():
    if sys.argv[1] == "--remake":
        names = []  # all
        for ranks, path in LISTS.items():
            found, _ = results("gloo", "", ranks, names)
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(name + "\n" for name in sorted(found) if found[name] == "ok" and not GLOOS_OWN.search(name))
            names = [name for name in found if found[name] == "skipped"]
        return 0
    form = sys.argv[1]
    failed = 0
    for ranks, names in {2: sys.argv[2:]}.items() if sys.argv[2:] else [(ranks, stored(ranks, form)) for ranks in LISTS]:
        found, output = results("tutti", form, ranks, names) if names else ({}, "")
        wrong = {name: found.get(name, "not run") for name in names if found.get(name) != "ok"}
        failed += len(wrong)
        if wrong:
            print(output)
        print(f"{len(names) - len(wrong)} of {len(names)} pass with {ranks} ranks",
              *(f"{name}: {what}" for name, what in wrong.items()), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
