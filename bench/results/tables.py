"""How the scripts of this folder write tables."""
import math
import statistics


def size(count):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} B"


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def show(title, *rows):
    widths = [max(len(row[i]) for row in (title, *rows)) for i in range(len(title))]
    for row in (title, *rows):
        print("  ".join(f"{text:<{width}}" if i == 0 else f"{text:>{width}}"
                        for i, (text, width) in enumerate(zip(row, widths))).rstrip())
