#!/usr/bin/env python3
"""Compares the ABI that a tutti.h describes with the recorded one of the last release, by abidiff.

    abi.py HEADER            exit status 1, with abidiff's report, where a program built with the
                             recorded header would not run with this one
    abi.py HEADER --record   writes the record anew: at a release, or where a struct that begins with
                             its size has grown at its end, which abidiff cannot tell from a change

The library is compiled without debug information, so that what is compared is a library of empty
functions, compiled from the declarations themselves with it: the same functions, with the same
types. That the real library exports these and no others is a test of tests/install.
"""

import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RECORD = f"{HERE}/abi/libtutti.so.0.abi"


def stubs(header):
    """C that defines every function of the header."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    lines = ['#include "tutti/tutti.h"']
    for declaration in re.findall(r"^TUTTI_API ([^;{]*\));", text, re.MULTILINE):
        body = "" if declaration.startswith("void ") else "return 0;"
        lines.append(f"{' '.join(declaration.split())} {{ {body} }}")
    return "\n".join(lines) + "\n"


def abixml(header_file, folder):
    """The path of the ABI of a header, as abidw writes it."""
    os.makedirs(f"{folder}/tutti")
    with open(header_file) as file:
        header = file.read()
    with open(f"{folder}/tutti/tutti.h", "w") as file:
        file.write(header)
    with open(f"{folder}/stubs.c", "w") as file:
        file.write(stubs(header))
    subprocess.run(["cc", "-std=c11", "-g", "-O0", "-shared", "-fPIC", "-fvisibility=hidden", "-I.", "-w",
                    "-Wl,-soname,libtutti.so.0", "stubs.c", "-o", "libtutti.so.0"], cwd=folder, check=True)
    subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs",
                    "--out-file", "libtutti.abi", "libtutti.so.0"], cwd=folder, check=True)
    return f"{folder}/libtutti.abi"


def main():
    words = sys.argv[1:]
    record = "--record" in words
    words = [word for word in words if word != "--record"]
    if len(words) != 1:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="tutti-abi-") as folder:
        now = abixml(words[0], folder)
        if record:
            os.makedirs(os.path.dirname(RECORD), exist_ok=True)
            with open(now) as source, open(RECORD, "w") as target:
                target.write(source.read())
            return
        # New functions are no change to who does not call them.
        result = subprocess.run(["abidiff", "--no-added-syms", RECORD, now], capture_output=True, text=True)
    if result.returncode != 0:
        sys.stderr.write(f"{result.stdout}{result.stderr}"
                         "tutti.h is not compatible with the recorded ABI (include/README.md has the policy)\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
