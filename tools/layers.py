#!/usr/bin/env python3
"""The layers of tools/layers.txt: checks that sources include downwards only, and draws them as lib/house.svg.

  tools/layers.py          fails on an include that the table does not allow, on a folder or an arrow too few or too many, and
                           where the drawing is not that of the table
  tools/layers.py --draw   writes the drawing
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = "tools/layers.txt"
DRAWING = "lib/house.svg"
PROGRAMS = ("bench", "tools", "trainer")  # not drawn

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
SOURCE = re.compile(r"\.(cc|h|hpp|c|cu|cuh|inc)$")


class Layers:
    def __init__(self, text):
        self.problems = []
        self.below = {}  # the arrows: unit -> units that its line names
        self.reach = {}  # what it may include
        self.unit_of = {}  # folder or file -> unit, the first one of its line
        self.pattern_of = {}  # unit -> the folder/* that it is one of
        for line in text.splitlines():
            line = line.split("#")[0].strip()
            if line:
                self.add(*line.split(":"))

    def add(self, names, allowed):
        unit, *more = names.split()
        below = []
        for name in allowed.split():
            if name in self.below:
                below.append(name)
            else:
                self.problems.append(f"{TABLE}: {unit} includes {name}, which is not further up: upwards, or round a cycle")
        for name in below:
            if any(name in self.reach[other] for other in below if other != name):
                self.problems.append(f"{TABLE}: {unit}: {name} need not be named, another one named includes it")
        self.below[unit] = below
        self.reach[unit] = {unit}.union(*(self.reach[name] for name in below))
        for name in [unit, *more]:
            self.unit_of[name] = unit

    def unit(self, path):
        """The unit of a file; None where no line has it."""
        folder = os.path.dirname(path)
        pattern = os.path.dirname(folder) + "/*"
        if folder not in self.unit_of and pattern in self.below:
            self.unit_of[folder] = folder
            self.reach[folder] = self.reach[pattern] - {pattern} | {folder}
            self.pattern_of[folder] = pattern
        return self.unit_of.get(path) or self.unit_of.get(folder)


def sources():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True,
                            text=True, check=True).stdout.split("\n")
    return [path for path in listed if SOURCE.search(path) and os.path.exists(os.path.join(ROOT, path))]


def check_sources(layers):
    files = sources()
    known = set(files)
    used = set()
    folders = set()
    problems = []
    for path in files:
        if path.startswith("tests/"):
            continue
        unit = layers.unit(path)
        folder = os.path.dirname(path)
        if unit is None and folder not in folders:
            problems.append(f"{TABLE} has no line for {folder}")
        folders.add(folder)
        if unit is None:
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            included = INCLUDE.findall(file.read())
        for name in included:
            for there in (name, f"include/{name}", f"{os.path.dirname(path)}/{name}"):
                if there in known:
                    break
            else:
                continue  # not ours, or made by the build
            other = layers.unit(there)
            used.add((layers.pattern_of.get(unit, unit), other))
            if other is not None and other not in layers.reach[unit]:
                problems.append(f"{path} includes {there}: {unit} may not include {other}")
    for name in layers.unit_of:
        if name not in folders and name not in known and name not in layers.pattern_of.values():
            problems.append(f"{TABLE}: there is no {name}")
    for unit, below in layers.below.items():
        for other in below:
            if (unit, other) not in used:
                problems.append(f"{TABLE}: nothing in {unit} includes {other}")
    return problems


# ---------------------------------------------------------------- the drawing

WIDTH, HEIGHT, GAP, FLOOR, MARGIN, LANE = 142, 36, 18, 82, 24, 10
COLOURS = {"include": "#e9e4f5", "lib": "#dfeaf8", "algorithms": "#e1f2e2", "transports": "#fdebd3"}


class Node:
    def __init__(self, unit, floor):
        self.unit, self.floor = unit, floor  # unit: None where an arrow passes a floor
        self.up, self.down = [], []
        self.x = 0.0

    @property
    def width(self):
        return WIDTH if self.unit else LANE


def floors_of(layers):
    """Above all that it includes and, where there is room, just below the lowest of those that include it."""
    drawn = [unit for unit in layers.below if unit.split("/")[0] not in PROGRAMS and not SOURCE.search(unit)]
    floors = {}
    for unit in drawn:
        floors[unit] = 1 + max((floors[name] for name in layers.below[unit] if name in floors), default=-1)
    for unit in reversed(drawn):
        above = [floors[other] for other in drawn if unit in layers.below[other]]
        if above and layers.below[unit]:
            floors[unit] = min(above) - 1
    return floors


def make_nodes(layers):
    floors = floors_of(layers)
    rows = [[] for _ in range(1 + max(floors.values()))]
    nodes = {}
    for unit, floor in floors.items():
        nodes[unit] = Node(unit, floor)
        rows[floor].append(nodes[unit])
    arrows = []
    for unit in floors:
        for name in [name for name in layers.below[unit] if name in floors]:
            way = [nodes[unit]]
            for floor in range(floors[unit] - 1, floors[name], -1):
                way.append(Node(None, floor))
                rows[floor].append(way[-1])
            way.append(nodes[name])
            for above, under in zip(way, way[1:]):
                above.down.append(under)
                under.up.append(above)
            arrows.append(way)
    return rows, arrows


def crossings(rows):
    total = 0
    for row in rows[1:]:
        place = {id(node): i for i, node in enumerate(rows[row[0].floor - 1])}
        ends = [(i, place[id(under)]) for i, node in enumerate(row) for under in node.down]
        total += sum(a[0] < b[0] and a[1] > b[1] or a[0] > b[0] and a[1] < b[1]
                     for i, a in enumerate(ends) for b in ends[:i])
    return total


def order(rows):
    """Few crossings: each node by the middle of those that it is joined to, floor by floor, up and down."""
    best, best_rows = None, None
    for sweep in range(40):
        upwards = sweep % 2 == 0
        for row in rows[1:] if upwards else rows[-2::-1]:
            beside = rows[row[0].floor + (-1 if upwards else 1)]
            place = {id(node): (i + 0.5) / len(beside) for i, node in enumerate(beside)}
            here = {id(node): (i + 0.5) / len(row) for i, node in enumerate(row)}

            def middle(node):
                joined = [place[id(other)] for other in (node.down if upwards else node.up)]
                return sum(joined) / len(joined) if joined else here[id(node)]

            row.sort(key=middle)
        found = crossings(rows)
        if best is None or found < best:
            best, best_rows = found, [list(row) for row in rows]
    for row, kept in zip(rows, best_rows):
        row[:] = kept
    # Then neighbours change places where that saves one.
    changed = True
    while changed:
        changed = False
        for row in rows:
            for i in range(len(row) - 1):
                row[i], row[i + 1] = row[i + 1], row[i]
                found = crossings(rows)
                if found < best:
                    best, changed = found, True
                else:
                    row[i], row[i + 1] = row[i + 1], row[i]


def separation(left, right):
    return (left.width + right.width) / 2 + GAP


def settle(row, wanted):
    """The places nearest to the wanted ones (least squares) in which neighbours keep their distance."""
    blocks = []  # [sum of wanted - offset, number, members]
    offset = 0.0
    for i, node in enumerate(row):
        offset += separation(row[i - 1], node) if i else 0.0
        weight = 1 if node.unit else 4
        blocks.append([weight * (wanted[id(node)] - offset), weight, [(node, offset)]])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, number, members = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += number
            blocks[-1][2] += members
    for total, number, members in blocks:
        for node, offset in members:
            node.x = total / number + offset


def place(rows):
    for row in rows:
        settle(row, {id(node): 0.0 for node in row})
    for sweep in range(400):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted = {}
            for node in row:
                joined = node.down + node.up
                wanted[id(node)] = sum(other.x for other in joined) / len(joined) if joined else node.x
            settle(row, wanted)
    left = min(node.x - node.width / 2 for row in rows for node in row)
    for row in rows:
        for node in row:
            node.x = round(node.x - left + MARGIN)


def draw(layers):
    rows, arrows = make_nodes(layers)
    order(rows)
    place(rows)
    width = round(max(node.x + node.width / 2 for row in rows for node in row) + MARGIN)
    height = 2 * MARGIN + (len(rows) - 1) * FLOOR + HEIGHT

    def top(node):
        return MARGIN + (len(rows) - 1 - node.floor) * FLOOR

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="Helvetica, Arial, sans-serif" font-size="14">',
           f"<!-- drawn by tools/layers.py, from {TABLE} -->",
           '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
           '<path d="M0,0.5 L8,4 L0,7.5 z" fill="#667"/></marker></defs>',
           f'<rect width="{width}" height="{height}" fill="white"/>']

    def port(node, others, other):
        """Where along its edge an arrow meets a box: in the order in which they come."""
        if not node.unit or len(others) == 1:
            return node.x
        others = sorted(others, key=lambda one: one.x)
        step = min(18, (WIDTH - 24) / (len(others) - 1))
        return round(node.x + (others.index(other) - (len(others) - 1) / 2) * step, 1)

    for way in arrows:
        x, y = port(way[0], way[0].down, way[1]), top(way[0]) + HEIGHT
        path = f"M{x},{y}"
        for above, under in zip(way, way[1:]):
            to_x, to_y = port(under, under.up, above), top(under)
            bend = (to_y - y) / 2
            path += f" C{x},{y + bend:g} {to_x},{to_y - bend:g} {to_x},{to_y}"
            x, y = to_x, to_y
            if not under.unit:
                y += HEIGHT
                path += f" L{x},{y}"
        out.append(f'<path d="{path}" fill="none" stroke="#889" stroke-width="1.3" marker-end="url(#tip)"/>')
    for row in rows:
        for node in row:
            if node.unit:
                out.append(f'<rect x="{node.x - WIDTH / 2:g}" y="{top(node)}" width="{WIDTH}" height="{HEIGHT}" rx="5" '
                           f'fill="{COLOURS[node.unit.split("/")[0]]}" stroke="#667"/>')
                out.append(f'<text x="{node.x:g}" y="{top(node) + 22}" text-anchor="middle">{node.unit}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    with open(os.path.join(ROOT, TABLE), encoding="utf-8") as file:
        layers = Layers(file.read())
    drawing = os.path.join(ROOT, DRAWING)
    if sys.argv[1:] == ["--draw"]:
        with open(drawing, "w", encoding="utf-8") as file:
            file.write(draw(layers))
        return 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    problems = layers.problems + check_sources(layers)
    if not os.path.exists(drawing) or open(drawing, encoding="utf-8").read() != draw(layers):
        problems.append(f"{DRAWING} is not the drawing of {TABLE}: tools/layers.py --draw")
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
