"""Which lines of the parsers the targets reached: the table that `tools/fuzz --coverage` prints, and the lines that nobody reached.

  coverage.py ROOT BUILD TARGET...     each with its profile, BUILD/profiles/TARGET.profraw

The parsers are those of tests/fuzz/parsers; of some targets alone: those that they contain. Fails if one of them is below 95 %.
"""
import json
import os
import re
import subprocess
import sys
from collections import defaultdict

LEAST = 95  # percent


class Parser:
    def __init__(self, file, functions):
        self.file = file
        self.named = {name: re.compile(rf"(^|::| ){re.escape(name)}($|::|<)") for name in functions}
        self.excused = {}  # text of a line -> why no input reaches it

    def names(self, function):
        """Those words of the list that mean this function: its name or that of its class."""
        name = function.replace("(anonymous namespace)::", "").split("(")[0]
        return [word for word, pattern in self.named.items() if pattern.search(name)]


def read_list(path):
    parsers = []
    for line in open(path):
        line = line.rstrip("\n")
        if line.startswith("  "):
            text, reason = line.rsplit("  # ", 1)
            parsers[-1].excused[text.strip()] = reason
        elif line and not line.startswith("#"):
            file, *functions = line.split()
            parsers.append(Parser(file, functions))
    return parsers


def run(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def reached_by(root, build, target):
    """Of every file: how often each line ran; and of its functions name, first and last line."""
    profile = f"{build}/profiles/{target}"
    run("llvm-profdata", "merge", "-sparse", f"{profile}.profraw", "-o", f"{profile}.profdata")
    export = ("llvm-cov", "export", f"{build}/tests/fuzz/{target}_fuzz", f"-instr-profile={profile}.profdata")
    counts, functions = defaultdict(dict), defaultdict(list)

    def file_of(name):
        return os.path.relpath(os.path.normpath(name), root)

    for line in run(*export, "-format=lcov").splitlines():
        if line.startswith("SF:"):
            file = counts[file_of(line[3:])]
        elif line.startswith("DA:"):
            number, count = map(int, line[3:].split(",")[:2])
            file[number] = count
    found = json.loads(run(*export, "-format=text"))["data"][0]["functions"]
    mangled = "\n".join(function["name"].split(":")[-1] for function in found)
    for function, name in zip(found, run("llvm-cxxfilt", input=mangled).splitlines()):
        first, _, last = function["regions"][0][:3]
        functions[file_of(function["filenames"][0])].append((name, first, last))
    return counts, functions


def main(root, build, targets):
    parsers = read_list(f"{root}/tests/fuzz/parsers")
    lines = {parser.file: defaultdict(int) for parser in parsers}  # that count, and how often they ran
    unknown = {(parser.file, name) for parser in parsers for name in parser.named}
    for target in targets:
        counts, functions = reached_by(root, build, target)
        for parser in parsers:
            for function, first, last in functions[parser.file]:
                names = parser.names(function)
                if parser.named and not names:
                    continue
                unknown -= {(parser.file, name) for name in names}
                for line in range(first, last + 1):
                    if line in counts[parser.file]:
                        lines[parser.file][line] += counts[parser.file][line]
    built = {name for name in os.listdir(f"{build}/tests/fuzz") if name.endswith("_fuzz")}
    if built - {f"{target}_fuzz" for target in targets}:
        parsers = [parser for parser in parsers if lines[parser.file]]
        unknown = {}
    complaints = [f"tests/fuzz/parsers: {file} has no function {name}" for file, name in sorted(unknown)]
    missing, excuses = [], []
    print(f"{'parser':36} {'lines':>6} {'reached':>8} {'excused':>8} {'percent':>8}")
    for parser in parsers:
        text = open(f"{root}/{parser.file}").read().splitlines()
        unused = dict(parser.excused)
        reached = excused = 0
        for line, count in sorted(lines[parser.file].items()):
            words = text[line - 1].strip()
            if count > 0:
                reached += 1
            elif words in parser.excused:
                excused += 1
                unused.pop(words, None)
                excuses.append(f"  {parser.file}:{line}: {words}  # {parser.excused[words]}")
            else:
                missing.append(f"  {parser.file}:{line}: {words}")
        complaints += [f"tests/fuzz/parsers: {parser.file} has no line, or reaches it: {words}" for words in unused]
        all_lines = len(lines[parser.file])
        percent = 100 * reached / (all_lines - excused) if all_lines > excused else 0
        print(f"{parser.file:36} {all_lines:6} {reached:8} {excused:8} {percent:8.1f}")
        if percent < LEAST:
            complaints.append(f"{parser.file}: below {LEAST} %")
    if excuses:
        print("\nlines that no input reaches:", *excuses, sep="\n")
    if missing:
        print("\nlines that nobody reached:", *missing, sep="\n")
    if complaints:
        print("", *complaints, sep="\n")
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
