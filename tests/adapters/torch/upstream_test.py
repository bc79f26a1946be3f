#!/usr/bin/env python3
"""Every test of torch's own that passes with gloo passes with tutti.

    upstream_test.py FORM [NAME...]        holds the stored lists, or the tests named
    upstream_test.py --remake              runs all with gloo and stores those that pass, and with more ranks those that
                                           are skipped with two

The lists are of this release of torch, or else of the newest of its major release that has some: of those, tests that do
not pass here are run with gloo, too, and what does not pass there, or is not in this torch, is told and left out.
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
LISTS = {2: "", 4: "_of_4"}


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


def path_of(version, ranks):
    return os.path.join(HERE, f"passes_with_gloo_{version}{LISTS[ranks]}.txt")


def version_of_lists():
    there = re.findall(r"^passes_with_gloo_(\d+\.\d+)\.txt$", "\n".join(os.listdir(HERE)), re.M)
    same = [version for version in there if version.split(".")[0] == VERSION.split(".")[0]]
    return VERSION if VERSION in there else max(same, key=lambda version: int(version.split(".")[1]))


def stored(version, ranks, form):
    with open(path_of(version, ranks), encoding="utf-8") as file:
        return [name for name in file.read().split() if form != "compiled" or name not in CUSTOM]


def without_gloos_failures(wrong, ranks):
    """Those that pass with gloo in this torch."""
    with_gloo, _ = results("gloo", "", ranks, list(wrong)) if wrong else ({}, "")
    return {name: what for name, what in wrong.items() if with_gloo.get(name) == "ok"}


def main():
    if sys.argv[1] == "--remake":
        names = []  # all
        for ranks in LISTS:
            found, _ = results("gloo", "", ranks, names)
            with open(path_of(VERSION, ranks), "w", encoding="utf-8") as file:
                file.writelines(name + "\n" for name in sorted(found) if found[name] == "ok" and not GLOOS_OWN.search(name))
            names = [name for name in found if found[name] == "skipped"]
        return 0
    form, version = sys.argv[1], version_of_lists()
    failed = 0
    for ranks, names in {2: sys.argv[2:]}.items() if sys.argv[2:] else [(ranks, stored(version, ranks, form)) for ranks in LISTS]:
        found, output = results("tutti", form, ranks, names) if names else ({}, "")
        wrong = {name: found.get(name, "not run") for name in names if found.get(name) != "ok"}
        if version != VERSION and not sys.argv[2:]:
            held = without_gloos_failures(wrong, ranks)
            left_out = [name for name in wrong if name not in held]
            print(f"of {version}'s list {len(left_out)} do not pass with gloo in {VERSION}:", *left_out)
            names, wrong = [name for name in names if name not in left_out], held
            assert ranks > 2 or len(left_out) < len(names) / 4, "that list is of too different a torch"
        failed += len(wrong)
        if wrong:
            print(output)
        print(f"{len(names) - len(wrong)} of {len(names)} pass with {ranks} ranks",
              *(f"{name}: {what}" for name, what in wrong.items()), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
