"""The page of --report: tutti-train runs this, with the file as its argument and what the run has recorded as JSON on standard input."""
import html
import json
import sys

WIDTH = 860
STYLE = """body{font:15px sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222;background:#fff}
svg{width:100%;font-size:12px}table{border-collapse:collapse}td,th{padding:2px 12px 2px 0;text-align:left;vertical-align:top}
.loss{fill:none;stroke:#2266bb;stroke-width:1.5}.valid{fill:#cc5500}.compute{fill:#2266bb}.communication{fill:#cc5500}.in{fill:#fff}
.forward{fill:#5b8def}.backward{fill:#58b368}.weight{fill:#e0a03c}.later{fill-opacity:.65}
rect.forward,rect.backward,rect.weight{stroke:#fff;stroke-width:.6}"""
WORK = (("forward", "forward"), ("backward", "backward"), ("weight", "weight gradients"))  # class, name


def table(rows, head=""):
    return f"<table>{head}" + "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows) + "</table>\n"


def curve(steps):
    """`steps`: number, loss and validation loss, null where there is none."""
    losses = [loss for _, loss, _ in steps if loss is not None]
    if not losses:
        return "<p>The loss was never a finite number.</p>\n"
    low, high, first, last = min(losses), max(losses), steps[0][0], steps[-1][0]

    def x(step):
        return 60 + (WIDTH - 80) * (step - first) / max(1, last - first)

    def y(loss):
        return 20 + 240 * (high - loss) / max(high - low, 1e-9)

    line = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss, _ in steps if loss is not None)
    dots = "".join(f'<circle cx="{x(step):.1f}" cy="{min(max(y(loss), 10), 270):.1f}" r="4" class="valid">'
                   f"<title>validation loss {loss:.4f} after step {step}</title></circle>" for step, _, loss in steps if loss)
    return (f'<p>Blue: the loss of each step; orange: of data that nothing is learnt from.</p>\n<svg viewBox="0 0 {WIDTH} 300">'
            f'<polyline points="{line}" class="loss"/>{dots}<text x="4" y="24">{high:.3g}</text><text x="4" y="264">{low:.3g}</text>'
            f'<text x="60" y="290">step {first}</text><text x="{WIDTH - 20}" y="290" text-anchor="end">step {last}</text></svg>\n')


def lanes(named):
    """Work over time. A lane: a name and its boxes; a box: begin, end, class, label, written into it where there is room, and title."""
    boxes = [box for _, lane in named for box in lane]
    if not boxes:
        return "<p>Nothing was recorded.</p>\n"
    left, height = 150, 24
    begin, end = min(box[0] for box in boxes), max(box[1] for box in boxes)
    scale = (WIDTH - left - 4) / max(end - begin, 1e-9)
    shapes = ""
    for i, (name, lane) in enumerate(named):
        top = 4 + height * i
        shapes += f'<text x="0" y="{top + 15}">{html.escape(name)}</text>'
        for from_, to, style, label, title in lane:
            x, width = left + (from_ - begin) * scale, (to - from_) * scale
            shapes += (f'<rect x="{x:.2f}" y="{top}" width="{max(0.5, width):.2f}" height="20" class="{style}">'
                       f"<title>{html.escape(title)}</title></rect>")
            if width > 7 * len(label) + 2:
                shapes += f'<text x="{x + width / 2:.2f}" y="{top + 14}" text-anchor="middle" class="in">{html.escape(label)}</text>'
    return f'<svg viewBox="0 0 {WIDTH} {8 + height * len(named)}">{shapes}</svg>\n'


def last_step(events, ranks):
    """Of the trace: a lane for each rank and kind of work."""
    last = max((event["args"]["step"] for event in events), default=0)
    kinds = ("compute", "communication")  # by "tid"
    named = [(f"rank {rank} {kind}", []) for rank in range(ranks) for kind in kinds]
    for event in events:
        if event["args"]["step"] == last:
            begin, lasts, name = event["ts"] / 1e3, event["dur"] / 1e3, event["name"]
            named[2 * event["pid"] + event["tid"]][1].append((begin, begin + lasts, kinds[event["tid"]], name, f"{name}: {lasts:.3f} ms"))
    boxes = [box for _, lane in named for box in lane]
    lasts = max((box[1] for box in boxes), default=0) - min((box[0] for box in boxes), default=0)
    return (f"<p>Step {last}, {lasts:.2f} ms from left to right. Blue: the rank computes; orange: a call of the library is on its way, beside "
            f"computation where both are above each other. Point at a box to see what it is.</p>\n{lanes(named)}")


def exchanges(events):
    seconds, sizes = {}, {}
    for event in events:
        if event["tid"] == 1:
            seconds.setdefault(event["name"], []).append(event["dur"] / 1e3)
            sizes[event["name"]] = event["args"]["bytes"]
    if not seconds:
        return "<p>There was no communication.</p>\n"
    rows = [(name, f"{sizes[name]:.0f}", f"{sorted(times)[len(times) // 2]:.3f}", f"{max(times):.3f}") for name, times in sorted(seconds.items())]
    return table(rows, "<tr><th></th><th>bytes</th><th>median ms</th><th>longest ms</th></tr>")


def schedule(names, ranks):
    """A run of a pipeline: of each rank, its work as kind, micro-batch, chunk, begin and end."""
    chunks = any(work[2] > 0 for rank in ranks for work in rank)

    def box(kind, micro_batch, chunk, begin, end):
        style, name = WORK[kind]
        title = f"{name} of micro-batch {micro_batch}" + (f", chunk {chunk}" if chunk else "") + f", {end - begin:.4g} long"
        return begin, end, style + " later" * (chunk % 2), f"{micro_batch}{chr(ord('a') + chunk) if chunks else ''}", title

    return lanes([("stage " + name, [box(*work) for work in rank]) for name, rank in zip(names, ranks)])


def pipeline(run, step):
    """What --json says of the pipeline, and its last step."""
    if not run:
        return ""
    used, median, possible, ideal = (f"{100 * part:.1f} %" for part in (step["used"], run["utilisation"], run["utilisation_possible"],
                                                                        run["utilisation_ideal"]))
    names = [stage["stage"] for stage in run["stages"]]
    return (f"<h2>The pipeline</h2>\n<p>Schedule {run['schedule']}, {run['micro_batches']} micro-batches. The last step as it was measured, "
            f"{used} of the stages' time used (all steps: {median}, median):</p>\n{schedule(names, step['measured'])}"
            f"<p>The same schedule with the same times of the stages and no waiting for messages, {possible}; were the stages alike it would "
            f"be {ideal}:</p>\n{schedule(names, step['expected'])}")


def page(run):
    events = [event for event in run["trace"] if event["ph"] == "X"]
    title = html.escape("tutti-train: " + run["model"])
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n<style>{STYLE}</style></head><body>\n'
            f"<h1>{title}</h1>\n{table(run['figures'])}<h2>Loss</h2>\n{curve(run['steps'])}{pipeline(run['pipeline'], run['last_step'])}"
            f"<h2>A step</h2>\n{last_step(events, run['ranks'])}<h2>Time of each exchange</h2>\n{exchanges(events)}</body></html>\n")


try:
    made = page(json.load(sys.stdin))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(made)
except OSError as failed:
    sys.exit(f"tutti-train: --report: cannot write {sys.argv[1]}: {failed.strerror}")
