"""The command `tutti` of the wheel: the program that is in it, with its launcher (`tutti run`)."""

import os
import pathlib
import sys


def main() -> None:
    """Becomes the program."""
    program = str(pathlib.Path(__file__).resolve().parent / "bin" / "tutti")
    try:
        os.execv(program, [program] + sys.argv[1:])
    except OSError as problem:
        sys.exit(f"tutti: {program} cannot be run: {problem.strerror}")
