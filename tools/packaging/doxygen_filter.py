#!/usr/bin/env python3
"""tutti.h as Doxygen wants it, on stdout: `doxygen_filter.py HEADER`.

The header is written for who reads it as it is. Here its comments become Doxygen's, on the same lines:
a comment before declarations documents all of them up to the next empty line or comment, one behind
an enumerator or a member that one; a row of dashes begins a group, whose text are the comments that
stand alone.
"""

import re
import sys

PREFIXES = ("TUTTI_API ", "typedef ", "#define TUTTI_")


def blocks(lines):
    """(comment lines, code lines) in order; a comment and the code that follows at once are one."""
    comment, code = [], []
    inside = False
    for line in lines:
        starts = line.startswith("/*")
        if starts or (line == "" and not inside):
            if comment or code:
                yield comment, code
            comment, code = [], []
        if starts:
            inside = True
        if inside:
            comment.append(line)
            inside = "*/" not in line
        elif line != "":
            code.append(line)
        else:
            yield [], [""]
    if comment or code:
        yield comment, code


def members(code):
    """Comments within enums and structs: those behind a member, and those on lines before it."""
    result = []
    for line in code:
        if re.match(r" +/\*", line):
            line = line.replace("/*", "/**", 1)
        elif "/*" in line:
            line = line.replace("/*", "/**<", 1)
        result.append(line)
    return result


def declarations(code):
    """Each declaration of a block, as its lines."""
    current, depth = [], 0
    for line in code:
        current.append(line)
        bare = re.sub(r"/\*.*?(\*/|$)", "", line)
        depth += bare.count("{") - bare.count("}") + bare.count("(") - bare.count(")")
        done = bare.rstrip().endswith(";") and depth == 0
        if bare.startswith("#") or (current[0].startswith("#") and not bare.rstrip().endswith("\\")):
            done = not bare.rstrip().endswith("\\")
        if done:
            yield current
            current, depth = [], 0
    if current:
        yield current


def escaped(comment):
    """What Doxygen would take for commands or HTML."""
    return [re.sub(r"<(?=[a-zA-Z=])", "&lt;", re.sub(r"([@#%])", r"\\\1", line)) for line in comment]


def main():
    with open(sys.argv[1]) as file:
        lines = file.read().splitlines()
    out, open_group, first = [], False, True
    for comment, code in blocks(lines):
        title = re.match(r"/\* -{20,} (.*?)( \*/)?$", comment[0]) if comment else None
        if first and comment:
            out += ["/** @file", *[line.replace("/*", " *", 1) for line in escaped(comment)]]
            first = False
        elif title:
            name = title[1].strip()
            if open_group:
                out.append("/** @} */")
            out.append(f"/** @defgroup {re.sub('[^a-z]+', '_', name)} {name}")
            about = len(out)
            out += [" * @{ */"]
            open_group = True
        elif comment and not any(line.startswith(PREFIXES) for line in code):
            # Stands alone: text of the group.
            if open_group:
                text = escaped(comment)
                text[-1] = text[-1].replace("*/", "")
                out[about:about] = [" *", text[0].replace("/*", " *", 1), *text[1:]]
                about += len(text) + 1
            out += code
            continue
        elif comment:
            documented = [escaped(comment)[0].replace("/*", "/**", 1), *escaped(comment)[1:]]
            for declaration in declarations(code):
                if declaration[0].startswith(PREFIXES):
                    out += documented
                out += members(declaration)
            continue
        out += members(code)
    text = "\n".join(out) + "\n"
    if open_group:
        text = text.replace("#ifdef __cplusplus\n}\n#endif", "/** @} */\n#ifdef __cplusplus\n}\n#endif")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
