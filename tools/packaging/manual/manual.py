#!/usr/bin/env python3
"""Prints the manual page of a program, made of what it and its subcommands say to --help: manual.py PROGRAM VERSION"""

import os
import re
import subprocess
import sys


def help_of(*command):
    """What it is, its usage, and its groups of entries: [(heading, [(name, text)])]."""
    said = subprocess.run([*command, "--help"], check=True, capture_output=True, text=True).stdout
    about, usage, groups = [], "", []
    for line in said.splitlines():
        entry = re.fullmatch(r"  (\S.*?)(?:  +(\S.*))?", line)
        if line.startswith("Usage: "):
            usage = line[len("Usage: "):]
        elif line.endswith(":") and usage and not line.startswith(" "):
            groups.append((line[:-1], []))
        elif entry and groups:
            groups[-1][1].append((entry[1], entry[2] or ""))
        elif line.strip() and groups and groups[-1][1]:  # its text is too long for the line, or goes on
            name, text = groups[-1][1][-1]
            groups[-1][1][-1] = (name, f"{text} {line.strip()}".strip())
        elif line.strip() and not usage:
            about.append(line.strip())
    if not usage or not groups:
        sys.exit(f"manual.py: {' '.join(command)} --help has no usage or no options:\n{said}")
    return " ".join(about), usage, [group for group in groups if group[1]]


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def entries(group):
    lines = []
    for name, text in group:
        lines += [".TP", f"\\fB{roff(name)}\\fR", roff(text) or "\\&"]
    return lines


def page(program, version):
    name = os.path.basename(program)
    about, usage, groups = help_of(program)
    about = re.sub(rf"^{re.escape(name)}: ", "", about)
    lines = [f'.TH {roff(name.upper())} 1 "" "tutti {version}" "User commands"',
             ".SH NAME", f"{roff(name)} \\- {roff(about)}", ".SH SYNOPSIS", f"\\fB{roff(usage)}\\fR"]
    commands = []
    for heading, group in groups:
        lines += [f".SH {roff(heading.upper())}", *entries(group)]
        commands += [entry for entry, _ in group if re.fullmatch(r"[a-z][a-z_-]*", entry)] if "SUBCOMMAND" in usage else []
    known = {}  # options that several subcommands have alike: the first of these
    for command in commands:
        about, usage, groups = help_of(program, command)
        lines += [f'.SH "{roff(name.upper())} {roff(command.upper())}"', roff(about), ".PP", f"\\fB{roff(usage)}\\fR"]
        alike = known.setdefault(repr(groups), command)
        if alike != command:
            lines += [".PP", f"The options are those of \\fB{roff(alike)}\\fR."]
            continue
        for heading, group in groups:
            group = [entry for entry in group if not entry[0].startswith("-h,")]
            lines += [f".SS {roff(heading)}", *entries(group)] if group else []
    lines += [".SH SEE ALSO", "\\fBtutti\\fR(1), \\fBtutti\\-bench\\fR(1), \\fBtutti\\-train\\fR(1)"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.stdout.write(page(os.path.abspath(sys.argv[1]), sys.argv[2]))
