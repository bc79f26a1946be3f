"""The table of techniques in trainer/README.md: for each its headline figure by the formula, as counted and as measured.

    techniques.py TUTTI_TRAIN TUTTI write        runs all, some minutes, and writes the table
    techniques.py TUTTI_TRAIN TUTTI check        whether the program still counts what the table says: every third row, with a
                                                 hundredth of the parameters and stages that hardly sleep; check-whole: all as written
"""
import json
import math
import os
import re
import sys
import tempfile
import time

from run_train import env, log_of, run, untried

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "trainer", "README.md")
BEGIN, END = "<!-- techniques: begin -->\n", "<!-- techniques: end -->\n"
env["TUTTI_TUNING"] = untried

A, P = 23_000_000, 8  # parameters, of 4 bytes; workers
V = 4 * A
SHORT = 100  # the check's share of the parameters
EXCHANGE = f"--model quadratic:{A} --dp {P} --batch {P} --steps 1 --optimizer sgd --momentum 0"
ASLEEP = ("--model gpt --layers 6 --width 8 --heads 2 --context 4 --stages even --pp 4 --batch 8 --steps 3 "
          "--stage-sleep 30,0")
LETTERS = {"E": EXCHANGE, "S": ASLEEP}
TINY = 4 * (256 * 128 + 128 * 128 + 4 * (12 * 128 * 128 + 13 * 128) + 2 * 128)  # bytes of gpt:tiny
STRETCH = 4 * 128 * 128  # elements between two layers of gpt:tiny, 4 samples
PICTURE = 4 * 8 * 20 * 20  # bytes of what the stem of a cnn of width 8 makes of a sample


def size(count):
    return f"{count:,.0f} B"


def traffic(volume):
    return f"{size(volume['bytes_sent_per_step'])} in {volume['messages_sent_per_step']:.4g}"


def pace(total):
    return f"{total['step_ms']:.0f} ms a step, {100 * total['comm_exposed']:.0f} % of it exposed"


def exposed(volume):
    return f"{volume['exposed_ms']:.2f} ms a step exposed"


class Row:
    """`options`: with letters. `formula`: in words; `value`: by it, as text, or made from the summary of the run. `counted`, `measured`:
    texts made from the summary."""

    def __init__(self, name, options, formula, value, counted, measured):
        self.name, self.options, self.formula, self.value, self.counted, self.measured = name, options, formula, value, counted, measured

    def cells(self, short):
        print(self.name, file=sys.stderr, flush=True)
        """All but what was measured, and that."""
        words = " ".join(LETTERS.get(word, word) for word in self.options.split())
        if short:
            words = words.replace(f"quadratic:{A}", f"quadratic:{A // SHORT}").replace("--stage-sleep 30,0", "--stage-sleep 1,0")
        with tempfile.TemporaryDirectory() as top:
            words = words.replace("LOG", top + "/log")
            code, out, err = run(*words.split(), "--json", "-", "--sample", "0")
            assert code == 0, (words, code, err)
            total = json.loads(out.splitlines()[-1])
            total["log"] = log_of(top + "/log")[1] if os.path.exists(top + "/log") else []
        value = self.value if isinstance(self.value, str) else self.value(total)
        return [self.name, f"`{self.options}`", f"{self.formula} = {value}" if value else self.formula, self.counted(total)], self.measured(total)


def exchange(name, options, formula, volume, messages):
    return Row(name, "E " + options, formula, f"{size(volume)} in {messages:.4g}", traffic, pace)


def servers(count):
    return Row(f"centralised exchange, through each of {count} servers" if count > 1 else "centralised exchange, through the server",
               f"E --sync server --servers {count}", "2·\\|A\\|·p·b" + ("/S" if count > 1 else ""), size(2 * V * P / count),
               lambda total: size(max(s["bytes_received"] + s["bytes_sent"] for s in total["servers"]) / total["steps"]), pace)


def divided(name, options, formula, value=None):
    """Of layers that two ranks share; without a value, the bytes by the program's own formula."""
    return Row(name, options, formula, value or (lambda total: size(total["within_layers"]["bytes_by_formula"])),
               lambda total: traffic(total["within_layers"]) if value else size(total["within_layers"]["bytes_sent_per_step"]),
               lambda total: exposed(total["within_layers"]))


def staged(name, options, formula, share, live):
    """Of four stages: `share` of their time in use; `live`: micro-batches, or chunks, alive at once on each."""
    def counted(total):
        found = total["pipeline"]
        return f"{100 * found['utilisation_ideal']:.1f} %; {' '.join(str(s['peak_live']) for s in found['stages'])} alive"
    return Row(name, "S " + options, formula, f"{100 * share:.1f} %; {live} alive", counted,
               lambda total: f"{100 * total['pipeline']['utilisation']:.1f} %")


def activations(name, options, formula):
    """Of the first of two stages of a gpt."""
    return Row(name, "--model gpt --layers 2 --width 64 --heads 2 --context 64 --pp 2 --stages 2,2 --batch 8 --micro-batches 8 --steps 1 " + options,
               formula, "", lambda total: f"{total['pipeline']['stages'][0]['peak_live']} alive",
               lambda total: f"{total['pipeline']['stages'][0]['activation_bytes'] / 1e6:.2f} MB of activations")


def skip(total):
    port = next(p for p in total["pipeline"]["ports"] if p["name"] == "stem")
    return f"{size(port['forward_bytes'])} from stage {port['from']} to {port['to']}"


def mean_staleness(total):
    found = [event["staleness"] for events in total["log"] for event in events if "push" in event]
    return f"{sum(found) / len(found):.2f} over {len(found)} updates"


def largest_lead(total):
    """How far ahead of the slowest a worker was when it began an iteration."""
    done, most = [0] * 4, 0
    for event in total["log"][0]:
        if "push" in event:
            done[event["push"]] += 1
        elif "read" in event:
            most = max(most, done[event["read"]] - min(done))
    return f"{most} at most"


ROWS = (
    servers(1), servers(2),
    exchange("centralised exchange as an allreduce", "--algorithm master-worker", "(p−1)·\\|A\\|·b", 7 * V, 7),
    exchange("all-to-all of whole vectors", "--algorithm all-to-all", "(p−1)·\\|A\\|·b", 7 * V, 7),
    exchange("recursive doubling", "--algorithm butterfly", "log₂p·\\|A\\|·b", 3 * V, 3),
    exchange("ring", "--algorithm ring", "2(p−1)/p·\\|A\\|·b in 2(p−1)", 2 * 7 / 8 * V, 14),
    exchange("two-shot", "--algorithm two-shot", "2(p−1)/p·\\|A\\|·b in 2(p−1)", 2 * 7 / 8 * V, 14),
    exchange("halving and doubling (Rabenseifner)", "--algorithm halving-doubling", "2(p−1)/p·\\|A\\|·b in 2·log₂p", 2 * 7 / 8 * V, 6),
    exchange("circulant", "--algorithm circulant", "2(p−1)/p·\\|A\\|·b in 2·⌈log₂p⌉", 2 * 7 / 8 * V, 6),
    Row("ZeRO-1", "E --zero 1 --algorithm direct", "2(p−1)/p·\\|A\\|·b", size(2 * 7 / 8 * V), lambda total: size(total["bytes_sent_per_step"]), pace),
    exchange("gradients in bf16", "--wire bf16 --algorithm ring", "(p−1)/p·\\|A\\|·b", 7 / 8 * V, 14),
    exchange("local SGD, an average every 2 steps", "--steps 2 --sync local-sgd --local-steps 2 --algorithm ring", "2(p−1)/p·\\|A\\|·b / 2", 7 / 8 * V, 7),
    Row("the largest hundredth of the gradient", "E --topk 0.01", "at most 2k((p−1)/p + p−1) words", size(2 * 4 * A // 100 * 7.875),
        lambda total: size(total["bytes_sent_per_step"]), pace),
    Row("buckets summed during backward", "--model gpt:tiny --dp 2 --batch-per-rank 16 --steps 25 --algorithm ring", "2(p−1)/p·\\|A\\|·b", size(TINY),
        lambda total: size(total["bytes_sent_per_step"]),
        lambda total: f"{100 * total['comm_exposed']:.1f} % of the time exposed, {100 * total['comm_hidden']:.0f} % of the communication hidden"),
    Row("asynchronous server: staleness", "--model mlp --dp 4 --steps 50 --sync server-async --log LOG", "p−1 on average", "3", lambda total: "",
        mean_staleness),
    Row("stale-synchronous server: lead", "--model mlp --dp 4 --steps 50 --sync ssp --staleness 2 --straggler 1:4 --log LOG", "at most s", "2",
        largest_lead, lambda total: f"{100 * max(w['waited'] / w['seconds'] for w in total['worked']):.0f} % of the time waited, at most"),
    divided("divided layers (Megatron)", "--model gpt:tiny --tp 2 --batch 4 --steps 2 --algorithm ring",
            "2(t−1)/t·((4L+2)·BSh + 3·BS)·b", f"{size(4 * (18 * STRETCH + 3 * 4 * 128))} in {2 * (4 * 4 + 2 + 3)}"),
    divided("sequence parallel", "--model gpt:tiny --tp 2 --batch 4 --steps 2 --algorithm ring --sequence-parallel",
            "as before for layers, and gradients of what lies between"),
    divided("convolutions in strips", "--model cnn --tp 2 --conv-split strips --batch 4 --steps 2 --algorithm ring",
            "Σ ⌊K/2⌋·W·C·B·b forward and back, and gradients"),
    divided("LSTM layers along anti-diagonals", "--model rnn --tp 2 --batch 4 --steps 2 --algorithm ring", "BSh·b in S/c, and the loss"),
    staged("a micro-batch at a time", "--schedule naive --micro-batches 8", "1/k; 1", 1 / 4, "1 1 1 1"),
    staged("GPipe, 4 micro-batches", "--schedule gpipe --micro-batches 4", "m/(m+k−1); m", 48 / 84, "4 4 4 4"),
    staged("GPipe, 8 micro-batches", "--schedule gpipe --micro-batches 8", "m/(m+k−1); m", 96 / 132, "8 8 8 8"),
    staged("1F1B", "--schedule 1f1b --micro-batches 8", "m/(m+k−1); min(m, k−s)", 96 / 132, "4 3 2 1"),
    staged("interleaved, 2 chunks", "--schedule interleaved --micro-batches 8", "mv/(mv+k−1); stage s: 2(k−s−1)+(v−1)k+1", 16 / 19, "11 9 7 5"),
    staged("ZB-H1", "--schedule zb-h1 --micro-batches 8", "3m/(3m+k−1); k", 24 / 27, "4 4 4 4"),
    activations("what GPipe keeps", "--schedule gpipe", "m"), activations("what 1F1B keeps", "--schedule 1f1b", "min(m, k−s)"),
    activations("what recomputation keeps", "--schedule 1f1b --recompute", "min(m, k−s), inputs alone"),
    Row("a skip connection's own way (portal)", "--model cnn --width 8 --pp 3 --stages 1,3,1 --batch 8 --micro-batches 4 --steps 1", "B·C·H·W·b",
        f"{size(8 * PICTURE)} from stage 0 to 2", skip, lambda total: exposed(total["between_stages"])),
    Row("number of micro-batches, found", "--model mlp --layers 3 --width 8 --stages even --pp 4 --batch 24 --steps 4 --stage-sleep 6,3 --micro-batches auto",
        "√((k−1)·c·B/a₀)", f"{math.sqrt(3 * 3 * 24 / 6):.0f}", lambda total: "", lambda total: str(total["pipeline"]["micro_batches"])))


def table():
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    load = os.getloadavg()[0]  # of others: what follows adds its own
    rows = "".join("| " + " | ".join([*kept, measured]) + " |\n" for kept, measured in (row.cells(False) for row in ROWS))
    letters = "; ".join(f"`{letter}` is `{words}`" for letter, words in LETTERS.items())
    return (f"Made by `tests/trainer/techniques.py TUTTI_TRAIN TUTTI write` on {len(os.sched_getaffinity(0))} cores "
            f"({model[1] if model else os.uname().machine}), {time.strftime('%Y-%m-%d')}, begun at a load of {load:.1f}. {letters}. "
            "Bytes in messages are those that the busiest worker sends in a step.\n\n"
            "| technique | options | by the formula | counted | measured |\n|---|---|---|---|---|\n" + rows)


def near(told, now):
    """Whether texts agree where `now` is of a hundredth of the parameters: in bytes, within 0.3 %."""
    def parts(text):
        return re.sub(r"[\d,]+ B", "B", text), [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) B", text)]
    (words, many), (other, few) = parts(told), parts(now)
    return words == other and len(many) == len(few) and all(abs(a - SHORT * b) < 0.003 * a for a, b in zip(many, few))


def check_table(short):
    with open(README) as file:
        lines = file.read().split(BEGIN)[1].split(END)[0].splitlines()
    told = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-2]] for line in lines if line.startswith("| ")][1:]
    assert [cells[0] for cells in told] == [row.name for row in ROWS], "the table has other rows: write it again"
    for i, (row, cells) in enumerate(zip(ROWS, told)):
        if cells[3] == "" or (short and i % 3):
            continue  # nothing is counted; each run takes a second
        now = row.cells(short)[0]
        assert now[:3] == cells[:3], (now, cells)
        if "--topk" not in row.options:  # which places are picked depends on the noise
            assert near(cells[3], now[3]) if short and row.options.startswith("E ") else now[3] == cells[3], (cells, now)


if __name__ == "__main__":
    if sys.argv[3] == "write":
        made = table()
        with open(README) as file:
            before, rest = file.read().split(BEGIN)
        with open(README, "w") as file:
            file.write(before + BEGIN + made + END + rest.split(END)[1])
    else:
        check_table(sys.argv[3] == "check")
