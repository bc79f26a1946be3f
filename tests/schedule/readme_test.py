"""What is generated in READMEs is what the program says today, and every algorithm's file begins with four labels.

Between '<!-- tutti verify ... -->' and '<!-- end -->' stands that command's output. In the README of algorithms/, between
'<!-- tutti show -->' and '<!-- end -->', stand the pictures of all algorithms, drawn by `tutti show --svg`.
To write all of it anew: GOLDEN_UPDATE=1 and run this test.
"""
import json
import os
import re
import subprocess
import sys

tutti, folder, *others = sys.argv[1:]
update = "GOLDEN_UPDATE" in os.environ
if update:
    os.makedirs(f"{folder}/pictures", exist_ok=True)

# Of how many ranks the picture is where 4 do not show the shape: levels of a tree, ranks beyond a power of two.
RANKS = {
    "allreduce tree": 8, "allreduce two-level": 8, "allreduce butterfly": 6, "allreduce circulant": 5,
    "broadcast binomial": 8, "reduce binomial": 8, "allgather bruck": 5, "reduce_scatter circulant": 5,
    "scan doubling": 8, "exscan doubling": 8,
}


def run(*arguments):
    return subprocess.run([tutti, *arguments], check=True, capture_output=True, text=True).stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def expect(path, text, command):
    """That a file is this text, or makes it so."""
    if update:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    assert os.path.exists(path), f"{path} is missing: `{command}` makes it"
    assert read(path) == text, f"{path}: not what `{command}` says now (GOLDEN_UPDATE=1 writes it anew)"


def algorithms():
    """{collective: [name]} in the program's order."""
    names = {}
    for line in run("verify", "-n", "2", "--json", "-").splitlines():
        proof = json.loads(line)
        names.setdefault(proof["collective"], []).append(proof["algorithm"])
    return names


def picture(collective, name):
    """Its cell of the gallery; the drawing itself is compared with the file, or written."""
    ranks = str(RANKS.get(f"{collective} {name}", 4))
    path = f"pictures/{collective}-{name}.svg"
    command = ["show", collective, name, "-n", ranks]
    expect(f"{folder}/{path}", run(*command, "--svg", "-"), " ".join(["tutti", *command, "--svg"]))
    about = run(*command).splitlines()[0].removeprefix(f"# {name}: ")
    return f"`{name}`: {about}<br>![{name} {collective}, {ranks} ranks]({path})"


def gallery():
    """Two pictures a row, a table for each collective."""
    tables = []
    for collective, names in algorithms().items():
        cells = [picture(collective, name) for name in names]
        cells += [""] * (len(cells) % 2)
        rows = [f"| {left} | {right} |" for left, right in zip(cells[::2], cells[1::2])]
        tables.append("\n".join([f"| {collective} | |", "|---|---|", *rows]))
    return "\n\n".join(tables)


def check_readme(path):
    """Returns how many generated parts it has."""
    parts = 0

    def generated(match):
        nonlocal parts
        parts += 1
        command = match[1]
        output = gallery() if command == "show" else run(*command.split()).strip()
        return f"<!-- tutti {command} -->\n{output}\n<!-- end -->"

    text = re.sub(r"<!-- tutti ((?:verify|show)[^>]*) -->\n.*?<!-- end -->", generated, read(path), flags=re.S)
    expect(path, text, "tutti verify --markdown, tutti show")
    return parts


def check_header(path):
    """What, Cost, Bits and When, each of at most two lines."""
    head = read(path).split("#include", 1)[0]
    label = r"// {}:   \S.*\n(//         \S.*\n)?"
    pattern = "".join(label.format(word) for word in ("What", "Cost", "Bits", "When"))
    assert re.fullmatch(pattern, head), f"{path} does not begin with What, Cost, Bits and When, each of a line or two"


names = algorithms()
drawn = {f"{collective}-{name}.svg" for collective in names for name in names[collective]}
sources = [name for name in os.listdir(folder) if name.endswith(".cc") and name != "registry.cc"]
assert len(sources) == len(drawn) >= 8, "a file for each algorithm"
for source in sources:
    check_header(f"{folder}/{source}")

readmes = [f"{folder}/README.md", *others]
parts = [check_readme(path) for path in readmes]
assert parts[0] == 2 and all(parts), f"a README without its generated part: {dict(zip(readmes, parts))}"
assert set(os.listdir(f"{folder}/pictures")) == drawn, "pictures/ holds what is no picture of an algorithm"
print(sum(parts), "generated parts,", len(drawn), "pictures and", len(sources), "headers are up to date")
