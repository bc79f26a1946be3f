"""Runs tutti-train with files in other programs' formats, and with a model of one's own. Arguments: as those of run_train.py."""
import glob
import gzip
import json
import math
import os
import re
import shutil
import struct
import sys
import tempfile

from run_train import corpus, digests, refused, run, small, steps

what = sys.argv[3]
here = os.path.dirname(os.path.abspath(__file__))


# ---------------------------------------------------------------- byte pairs, by a program of the test's own

BYTES = [b for b in range(256) if 32 < b < 127 or b > 160 and b != 173]
NAMES = {b: chr(b) for b in BYTES}
NAMES.update((b, chr(256 + i)) for i, b in enumerate(b for b in range(256) if b not in BYTES))


def words_of(text):
    """GPT-2's words, of ASCII."""
    return re.findall(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", text)


def joined(tokens, pair):
    made, i = [], 0
    while i < len(tokens):
        found = tuple(tokens[i:i + 2]) == pair
        made.append("".join(pair) if found else tokens[i])
        i += 2 if found else 1
    return made


def learnt(text, count):
    """The first joins, as a merges file has them."""
    words, joins, ids = {}, [], {name: b for b, name in NAMES.items()}
    for word in words_of(text):
        words[word] = words.get(word, 0) + 1
    split = {word: [NAMES[b] for b in word.encode()] for word in words}
    while len(joins) < count:
        pairs = {}
        for word, times in words.items():
            for pair in zip(split[word], split[word][1:]):
                if "".join(pair) not in ids:
                    pairs[pair] = pairs.get(pair, 0) + times
        if not pairs or max(pairs.values()) < 2:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], ids[pair[0]], ids[pair[1]]))
        ids["".join(best)] = 256 + len(joins)
        joins.append(best)
        split = {word: joined(tokens, best) for word, tokens in split.items()}
    return joins


def check_tokens():
    """Byte pairs: those that a simple program of the test's finds; runs with them learn, are divided, kept and continued."""
    text = open(corpus.name).read()[:6000] + 3 * " they're  here,\n\n\tand it's 12345 times\n"
    with tempfile.TemporaryDirectory() as top:
        with open(top + "/text.txt", "w") as file:
            file.write(text)
        rest = ["--data", f"text:{top}/text.txt", *small[2:], "--batch", "8", "--level", "canonical"]
        tokens, shards, stages = [*rest, "--tokens", "300"], ["--shards", "4"], ["--micro-batches", "4", "--pp", "2", "--stages", "even"]
        found, total = steps(*tokens, *shards, "--steps", "40", "--checkpoint", top + "/c", "--checkpoint-every", "20")
        assert found[-1]["loss"] < 0.9 * found[0]["loss"] and abs(found[0]["loss"] - math.log(300)) < 0.5, found
        last = top + "/c/step-000000040/"
        with open(last + "vocabulary.bpe") as file:
            lines = file.read().splitlines()
        assert lines == ["#version: 0.2"] + [" ".join(pair) for pair in learnt(text, 44)], lines
        # The same from the file, also divided, and resumed.
        whole = [s["parameters"] for s in found]
        assert digests(*rest, *shards, "--tokens", last + "vocabulary.bpe", "--steps", "4", "--dp", "2") == whole[:4]
        assert digests(*tokens, *stages, "--steps", "4") == whole[:4]
        shutil.rmtree(last)
        assert digests(*tokens, *shards, "--dp", "2", "--steps", "40", "--checkpoint", top + "/c", "--resume") == whole[20:]
        # Text of a checkpoint, in one process and in stages.
        code, out, err = run("--generate", "50", "--init", top + "/c", "--prompt", "all ranks give")
        assert code == 0 and out.startswith("all ranks give") and len(out) == 14 + 50 + 1, (out, err)
        texts = [json.loads(run(*tokens, "--steps", "3", "--sample", "30", "--json", "-", *more)[1].splitlines()[-1])["text"]
                 for more in (shards, stages)]
        assert len(texts[0]) == 31 and texts[0] == texts[1], texts
        # Weights go with their own tokens alone.
        with open(top + "/other.txt", "w") as file:
            file.write(text[::-1])
        other = ["--data", f"text:{top}/other.txt", *small[2:], "--init", top + "/c"]
        refused([*other, "--tokens", "300"], "--init", "vocabulary.bpe are its own")
        assert run(*other, "--tokens", glob.glob(top + "/c/*/vocabulary.bpe")[0], "--steps", "1")[0] == 0
        refused(other, "--init", "--tokens is 256, was 300")
        refused([*rest, "--checkpoint", top + "/c", "--resume"], "--tokens is 256, was 300")
        for path in glob.glob(top + "/c/*/vocabulary.bpe"):
            with open(path, "a") as file:
                file.write("a b\n")
        refused([*tokens, "--checkpoint", top + "/c", "--resume"], "vocabulary.bpe")
        for lines, number in ((["#version: 0.2", "a b", "ab c", "abd e"], 4), (["a b", "a b"], 2), (["a"], 1), (["a b c"], 1), (["a b", ""], 0)):
            with open(top + "/bad.bpe", "w") as file:
                file.write("\n".join(lines))
            if number:
                refused([*rest, "--tokens", top + "/bad.bpe"], "--tokens", f"line {number} ")
            else:
                assert run(*rest, "--tokens", top + "/bad.bpe", "--dry-run")[0] == 0
    for value, *words in (("0", "257"), ("256", "257"), ("65537", "65536"), ("-1", "--tokens"), ("no-such-file", "no-such-file")):
        refused([*small, "--tokens", value], "--tokens", *words)
    refused(["--model", "mlp", "--tokens", "300"], "--tokens", "mlp")


def check_packed():
    """Files that end in .gz, of texts and pictures: the same run."""
    with tempfile.TemporaryDirectory() as top:
        text = open(corpus.name, "rb").read()
        with gzip.open(top + "/text.txt.gz", "wb") as file:
            file.write(text)
        rest = [*small[2:], "--batch", "4", "--steps", "2"]
        plain = digests(*small, "--batch", "4", "--steps", "2")
        assert digests("--data", f"text:{top}/text.txt.gz", *rest) == digests("--data", "text:" + top, *rest) == plain
        packed = open(top + "/text.txt.gz", "rb").read()
        flipped = packed[:-5] + bytes([packed[-5] ^ 1]) + packed[-4:]
        for damaged in (packed[:len(packed) // 2], flipped, text, b""):
            with open(top + "/damaged.txt.gz", "wb") as file:
                file.write(damaged)
            refused(["--data", f"text:{top}/damaged.txt.gz", *rest], "damaged.txt.gz is no whole gzip file")
        refused(["--data", f"text:{top}/none.gz", *rest], "none.gz")
        pictures = {"train-images-idx3-ubyte": bytes([0, 0, 8, 3, 0, 0, 0, 20, 0, 0, 0, 8, 0, 0, 0, 8]) + bytes(i % 251 for i in range(20 * 64)),
                    "train-labels-idx1-ubyte": bytes([0, 0, 8, 1, 0, 0, 0, 20]) + bytes(i % 2 for i in range(20))}
        os.mkdir(top + "/idx")
        os.mkdir(top + "/idx-gz")
        for name, contents in pictures.items():
            with open(f"{top}/idx/{name}", "wb") as file:
                file.write(contents)
            with gzip.open(f"{top}/idx-gz/{name}.gz", "wb") as file:
                file.write(contents)
        mlp = ["--model", "mlp", "--steps", "2", "--data"]
        assert digests(*mlp, f"idx:{top}/idx-gz") == digests(*mlp, f"idx:{top}/idx")


def check_damaged_data():
    """Data that is damaged is refused in one line, before any rank starts, or what it says is taken."""
    def idx(*shape, data=None):
        return bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape) + (bytes(i % 2 for i in range(math.prod(shape))) if data is None else data)
    images, labels, text = idx(20, 8, 8), idx(20), open(corpus.name, "rb").read()
    pictures, names = ["--model", "mlp"], ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    packed, bytes_of = gzip.compress(images, mtime=0), small[2:]
    # What is wrong, files by name (None: there is none, a folder: empty), the options, and words of the refusal; none: it is taken.
    rows = (("bad magic", {names[0]: b"\1" + images[1:], names[1]: labels}, pictures, "no idx file", names[0]),
            ("no bytes", {names[0]: images[:2] + b"\r" + images[3:], names[1]: labels}, pictures, "no idx file", names[0]),
            ("short", {names[0]: images[:-1], names[1]: labels}, pictures, "1279", "1280"),
            ("long", {names[0]: images, names[1]: labels + b"x"}, pictures, "21", "20"),
            ("head alone", {names[0]: images[:9], names[1]: labels}, pictures, "no idx file"),
            ("too few dimensions", {names[0]: idx(20, 64), names[1]: labels}, pictures, "no idx file", "3 dimensions"),
            ("a huge shape", {names[0]: idx(*[2**32 - 1] * 3, data=b"x"), names[1]: labels}, pictures, names[0]),
            ("other counts", {names[0]: images, names[1]: idx(19)}, pictures, "20 pictures", "19 labels"),
            ("no images", {names[0]: idx(0, 8, 8), names[1]: idx(0)}, pictures, "too few"),
            ("no pixels", {names[0]: idx(20, 0, 8), names[1]: labels}, pictures, "too small"),
            ("an empty file", {names[0]: b"", names[1]: labels}, pictures, "no idx file", names[0]),
            ("no labels", {names[0]: images, names[1]: None}, pictures, names[1], "No such file"),
            ("a folder for a file", {names[0]: {}, names[1]: labels}, pictures, names[0], "directory"),
            ("validation of another size", {names[0]: images, names[1]: labels, "t10k-images-idx3-ubyte": idx(5, 9, 9), "t10k-labels-idx1-ubyte": idx(5)}, pictures,
             "two sizes"),
            ("the highest label", {names[0]: images, names[1]: labels[:-1] + b"\xff"}, pictures),
            ("half of a .gz", {names[0] + ".gz": packed[:len(packed) // 2], names[1]: labels}, pictures, "no whole gzip file"),
            ("a flipped bit", {names[0] + ".gz": packed[:-6] + bytes([packed[-6] ^ 1]) + packed[-5:], names[1]: labels}, pictures, "no whole gzip file"),
            ("an empty text", {"a.txt": b""}, bytes_of, "0 bytes"), ("a short text", {"a.txt": text[:32]}, bytes_of, "32 bytes"),
            ("no text", {"a.bin": text}, bytes_of, "0 bytes"), ("a folder for a text", {"a.txt": {}}, bytes_of, "0 bytes"),
            ("no UTF-8", {"a.txt": text[:5000] + bytes(range(128, 256)) + text[5000:9000]}, [*bytes_of, "--tokens", "270"]),
            ("half of a .gz of text", {"a.txt.gz": gzip.compress(text)[:-9]}, bytes_of, "no whole gzip file"),
            *((f"damaged tokens {bad}", {"a.txt": text, "t": bad}, [*bytes_of, "--tokens", "TOP/t"], "line 2")
              for bad in (b"a l\nal", b"a l\na l\n", b"a l\nxy z\n", b"a l\n\xff l\n", b"a l\n\0\0\n")))
    for name, files, options, *words in rows:
        with tempfile.TemporaryDirectory() as top:
            for file, contents in files.items():
                if contents == {}:
                    os.mkdir(f"{top}/{file}")
                elif contents is not None:
                    with open(f"{top}/{file}", "wb") as out:
                        out.write(contents)
            args = [*(option.replace("TOP", top) for option in map(str, options)), "--data", ("idx:" if options is pictures else "text:") + top, "--dp", "2"]
            print(name, flush=True)
            if words:
                refused(args, *words)
            else:
                steps(*args, "--steps", "2")


# ---------------------------------------------------------------- TensorBoard's files, by a reader of the test's own


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """(number, value) of the fields of a protobuf message."""
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    at, found = 0, []
    while at < len(message):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            length = {1: 8, 5: 4}.get(key & 7) or varint()
            value = message[at:at + length]
            at += length
        found.append((key >> 3, value))
    assert at == len(message)
    return found


def events_of(path):
    """(step, {tag: value}) of the records of a file, and the version that the first one names."""
    with open(path, "rb") as file:
        data = file.read()
    at, events, version = 0, [], None
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert check == crc32c(data[at:at + 8])
        event = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == crc32c(event)
        at += 16 + length
        event = dict(fields(event))
        assert 1.6e9 < struct.unpack("<d", event[1])[0] < 1e10, event
        if 3 in event:
            version = event[3].decode()
            continue
        values = (dict(fields(value)) for _, value in fields(event[5]))
        events.append((event[2], {value[1].decode(): struct.unpack("<f", value[2])[0] for value in values}))
    return events, version


def check_tensorboard():
    """What the event file says is what the objects of the steps say; a run that goes on has a file of its own beside it."""
    with tempfile.TemporaryDirectory() as top:
        rest = [*small, "--dp", "2", "--batch", "8", "--clip", "1", "--lr", "0.004", "--warmup", "3", "--evaluate-every", "2",
                "--tensorboard", top + "/deep/board", "--checkpoint", top + "/c"]
        seen = steps(*rest, "--steps", "4")[0] + steps(*rest, "--steps", "6", "--resume")[0]
        files = sorted(glob.glob(top + "/deep/board/events.out.tfevents.*"), key=os.path.getmtime)
        assert len(files) == 2 and all(events_of(path)[1] == "brain.Event:2" for path in files), files
        events = [event for path in files for event in events_of(path)[0]]
        assert [step for step, _ in events] == list(range(1, 7)), events
        for (step, values), object in zip(events, seen):
            for name in ("loss", "samples_per_s", "gradient_norm", "comm_exposed_ms"):
                assert math.isclose(values[name], object[name], rel_tol=1e-6), (name, values, object)
            assert values.get("validation_loss") == object.get("validation_loss") or \
                math.isclose(values["validation_loss"], object["validation_loss"], rel_tol=1e-6), (values, object)
            assert math.isclose(values["learning_rate"], 0.004 * min(1, step / 4), rel_tol=1e-6), (step, values)
        # What TensorBoard itself reads, where it is installed.
        try:
            from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
            read = [event for path in files for event in EventFileLoader(path).Load()]
            assert [event.step for event in read if event.summary.value] == list(range(1, 7)), read
        except ImportError:
            pass
    with tempfile.NamedTemporaryFile() as file:
        refused([*small, "--tensorboard", file.name], "--tensorboard", file.name)
    code, out, err = run(*small, "--steps", "2", "--tensorboard", "/proc/board")
    assert code == 2 and "--tensorboard /proc/board" in err, (code, err)


def check_own_model():
    """The README's example of a model of one's own trains like any other."""
    with open(here + "/own_model.cc") as source, open(here + "/../../trainer/README.md") as readme:
        assert source.read() in readme.read(), "trainer/README.md does not show tests/trainer/own_model.cc"
    mine = ["--model", "mine", "--batch", "16", "--shards", "4", "--level", "canonical"]
    found, total = steps(*mine, "--steps", "300")
    assert found[-1]["loss"] < 0.85 * found[0]["loss"], (found[0], found[-1])
    one = [s["parameters"] for s in found][:5]
    assert digests(*mine, "--dp", "2", "--steps", "5") == one
    assert digests(*mine[:4], "--pp", "2", "--micro-batches", "4", "--stages", "even", "--steps", "5") == one
    with tempfile.TemporaryDirectory() as top:
        kept = ["--checkpoint", top, "--checkpoint-every", "2"]
        assert digests(*mine, "--steps", "3", *kept) == one[:3]
        assert digests(*mine, "--dp", "2", "--steps", "5", *kept, "--resume") == one[3:]
    refused(["--model", "mine", "--tp", "2"], "--tp 2", "mine")
    refused(["--model", "mine:huge"], "tiny")
    refused(["--model", "mine", "--pp", "5"], "4 layers")
    refused(["--model", "mine", "--data", "text:"], "mine", "text:")
    refused(["--model", "theirs"], "mine", "gpt")


globals()["check_" + what.replace("-", "_")]()
