"""Mutants of the protocols: each change would let a rank read what is not there yet, or write what a
peer has still to read, and is found by the test beside it.

  mutants.py BUILD [NUMBER...]   builds and runs them, in the build folder BUILD
  mutants.py --check             whether all can still be made, and tests/README.md lists them
  mutants.py --table             prints the table for tests/README.md

Exit status 0: all that were asked for are found."""

import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED, SLOTS = "lib/shared_memory/", "lib/slots/"
ORDER = "Walks.EveryWayAfterEveryOtherIsRightInAnyOrderOfMoves"
ABORT = "Walks.AnAbortAnywhereEndsAllAndNoResultIsWrong"
DIRECT = "Walks.WhatIsReadWhereItLiesIsRightOrTheCallFails"
UNSEEN = "Walks.WhatComesAfterACallThatDiffersUnseenIsNeverWrong"
COPIED = "Walks.WhatIsCopiedIsRightOrTheCallFails"
STRAY = "Walks.ACallThatDiffersOnOneRankEndsInMismatchOrWhereNobodyNeedsIt"

# What is wrong with it, the file, what stands there, what the mutant has instead, the test.
MUTANTS = [
    ("two-shot's first slices lie over the block that one-shot has left (the library before it was mended)",
     SHARED + "staging.cc",
     "slots.clear = (first_unread + slots.published - slots.first) % slots.published;",
     "slots.clear = slots.published;", ORDER),
    ("the window of two-shot is too large (by two slices: one more would still be right)", SHARED + "staging.cc",
     "slots.window = std::min({slots.published, slots.results, tuning_.two_shot_window});",
     "slots.window = std::min({slots.published, slots.results, tuning_.two_shot_window}) + 2;", ORDER),
    ("two-shot has too few slots for results (by two: one less would still be right)", SHARED + "two_shot.cc",
     "(slots_.first + index) % slots_.results", "(slots_.first + index) % (slots_.window - 2)", ORDER),
    ("two-shot has a slot for slices too few for its window", SHARED + "two_shot.cc",
     "(slots_.first + index) % slots_.published", "(slots_.first + index) % (slots_.window - 1)", ORDER),
    ("a slice is published before a slot is free", SHARED + "two_shot.cc",
     "published_ + 2 > gathered_ + slots_.window", "published_ > gathered_ + slots_.window", ORDER),
    ("two-shot posts a slice before it is written", SHARED + "two_shot.cc",
     "  if (reduced_ == 0 && published_ == slots_.clear) return false;\n",
     "  if (reduced_ == 0 && published_ == slots_.clear) return false;\n"
     "  staging_.flags().post(line::publish, slices_before_ + published_ + 1, call_.digest);\n", ORDER),
    ("two-shot posts a result before it is there", SHARED + "two_shot.cc",
     "  const Slice slice = slice_of(self, reduced_);\n",
     "  const Slice slice = slice_of(self, reduced_);\n"
     "  staging_.flags().post(line::result, slices_before_ + reduced_ + 1, call_.digest);\n", ORDER),
    ("two-shot keeps a result to itself that it has written there first", SHARED + "two_shot.cc",
     "    if (own_first) copy_over(copy + done, result, now);\n", "", ORDER),
    ("two-shot does not wait for lower ranks", SHARED + "two_shot.cc",
     "if (rank != staging_.self() && !reached(rank, line, index)) return false;",
     "if (rank > staging_.self() && !reached(rank, line, index)) return false;", ORDER),
    ("two-shot takes a slice for there that is the next", SHARED + "two_shot.cc",
     "if (count <= int32_t(index)) return false;", "if (count < int32_t(index)) return false;", ORDER),
    ("two-shot gathers without a look", SHARED + "two_shot.cc",
     "if (gathered_ == reduced_ || !all_reached(line::result, gathered_)) return false;",
     "if (gathered_ == reduced_) return false;", ORDER),
    ("two-shot does not compare digests", SHARED + "two_shot.cc",
     "|| flag_digest(flag) == call_.digest) return true;", "|| true) return true;", STRAY),
    ("one-shot posts its vector before it is written", SHARED + "one_shot.cc",
     "void OneShot::stage() {\n",
     "void OneShot::stage() {\n  flags_.post(line(sequence_), sequence_, call_.digest);\n", ORDER),
    ("one-shot does not wait for the last rank", SHARED + "one_shot.cc",
     "for (; ready_peers_ < nranks_; ++ready_peers_) {", "for (; ready_peers_ + 1 < nranks_; ++ready_peers_) {", ORDER),
    ("one-shot's line is used again after one call", SHARED + "one_shot.h",
     "line::one_shot + 2 * (sequence & 1)", "line::one_shot", ORDER),
    ("one-shot's resident place is used again after one call", SHARED + "one_shot.cc",
     "? staging_.resident(sequence_)", "? staging_.resident(0)", ORDER),
    ("all blocks lie at the beginning of the arena", SHARED + "staging.cc",
     "(next_ + bytes > publish_arena_ ? 0 : next_);", "0;", ORDER),
    ("two-level posts its vector before it is written", SHARED + "two_level.cc",
     "  const size_t bytes = call_.bytes();\n  std::byte* const to = vector_of(staging_.self());\n",
     "  staging_.flags().post(vector_line(), sequence_, call_.digest);\n"
     "  const size_t bytes = call_.bytes();\n  std::byte* const to = vector_of(staging_.self());\n", ORDER),
    ("two-level does not wait for the other groups", SHARED + "two_level.cc",
     "    if (!own && !published_group(rank)) return false;\n", "", ORDER),
    ("two-level does not wait for its group", SHARED + "two_level.cc",
     "    if (rank != self && !published_vector(rank)) return false;\n", "", ORDER),
    ("two-level's group line is used again after one call", SHARED + "two_level.h",
     "line::group + 2 * (sequence_ & 1)", "line::group", ORDER),
    ("a call that could go direct goes so when one other could", SHARED + "or_direct.h",
     "    all = false;\n  }\n  if (!all) return false;", "  }\n  if (!all) return false;", ORDER),
    ("a call that goes direct after another is done at once", SHARED + "or_direct.h",
     "      route_ = Route::rendezvous;\n      done_ = false;\n", "      route_ = Route::rendezvous;\n", ORDER),
    ("direct copies results to the last rank alone", SHARED + "direct.cc",
     "    } else if (rank != flags_.self()) {", "    } else if (rank != flags_.self() && rank + 1 == flags_.nranks()) {", ORDER),
    ("direct in one shot leaves out what lies before its own share", SHARED + "direct.cc",
     "    then_ = {edges_.head, begin};\n", "", ORDER),
    ("direct goes in one shot where other ranks do not", SHARED + "rendezvous.cc",
     "    if (of(rank).one_shot == 0) return false;\n", "    if (rank == flags_.self() && of(rank).one_shot == 0) return false;\n", ORDER),
    ("direct goes in one shot where an input is overwritten", SHARED + "or_direct.h",
     "mine.one_shot = call.one_shot && call.input != call.output;", "mine.one_shot = call.one_shot;", ORDER),
    ("direct does not wait for the last rank", SHARED + "direct.cc",
     "for (; finished_peers_ < flags_.nranks(); ++finished_peers_) {",
     "for (; finished_peers_ + 1 < flags_.nranks(); ++finished_peers_) {", ORDER),
    ("a rank says where its vectors lie before that is written", SHARED + "rendezvous.cc",
     "  std::byte* const to = flags_.at(flags_.self(), line::places).payload;\n",
     "  flags_.post(line::places, turn, digest);\n"
     "  std::byte* const to = flags_.at(flags_.self(), line::places).payload;\n", ORDER),
    ("direct does not take back what it has said", SHARED + "direct.cc",
     "void Direct::withdraw() {\n  rendezvous_.withdraw();\n", "void Direct::withdraw() {\n", ABORT),
    ("who withdraws its vectors does not wait for who is at them", SHARED + "vector_access.h",
     "    if (!regions_.may_vanish()) return;\n", "    return;\n", ABORT),
    ("direct says done though an input was taken back meanwhile", SHARED + "direct.cc",
     "  withdrawn_ = !rendezvous_.all_posted();\n", "", DIRECT),
    ("who copies does not wait until a share is reduced", SHARED + "copied.cc",
     "if (at == share.end || !reduced(rank)) continue;", "if (at == share.end) continue;", ORDER),
    ("who copies leaves before the last rank has", SHARED + "copied.cc",
     "if (flags_.missing(line::finish, turn_, call_.digest) >= 0) return false;",
     "if (const int last = flags_.missing(line::finish, turn_, call_.digest);\n"
     "      last >= 0 && uint32_t(last) + 1 < flags_.nranks())\n    return false;", ORDER),
    ("a copy from a vector is not checked for having been taken back", SHARED + "copied.cc",
     "  if (!rendezvous_.posted(rank)) {\n", "  if (false) {\n", COPIED),
    ("a verdict's line is used again by the next call that tells one", SHARED + "verdicts.h",
     "line::verdict + 2 * (told_ & 1)", "line::verdict", ORDER),
    ("what is left out of one-hop's ring does not count as used", SHARED + "one_hop.cc",
     "next_begin_ : next_begin_ + ring - at;", "next_begin_ : next_begin_ - at;", ORDER),
    ("one-hop says a slice too early that it was read", SHARED + "one_hop.cc",
     "flags_.post(line::one_hop_read, before_ + taken_, 0);",
     "flags_.post(line::one_hop_read, before_ + taken_ + 1, 0);", ORDER),
    ("one-hop says with the first line of a call that it has read all", SHARED + "one_hop.cc",
     "  if (shape_->in_line && taken_ != shape_->slices) return true;",
     "  if (shape_->in_line && taken_ != shape_->slices) return flags_.post(line::one_hop_read, after_, 0), true;", ORDER),
    ("one-hop's ring has a flag too few", SHARED + "one_hop.cc",
     "if (sequence - read_ >= tuning_.ring_slices) return false;",
     "if (sequence - read_ > tuning_.ring_slices) return false;", ORDER),
    ("one-hop's ring is a line shorter than it thinks", SHARED + "one_hop.cc",
     "shape_->slice_in_ring() - begins_[index_of(read_)] <= tuning_.ring_bytes;",
     "shape_->slice_in_ring() - begins_[index_of(read_)] <= tuning_.ring_bytes + 64;", ORDER),
    ("one-hop does not ask the last rank how far it has read", SHARED + "one_hop.cc",
     "  read_ = before_ + std::min(taken_, published_);\n  for (uint32_t rank = 0; rank < nranks_; ++rank) {",
     "  read_ = before_ + std::min(taken_, published_);\n  for (uint32_t rank = 0; rank + 1 < nranks_; ++rank) {", ORDER),
    ("one-hop posts a slice before it is written", SHARED + "one_hop.cc",
     "  slots::FlagLine& line = line_at(self_, sequence);\n",
     "  slots::FlagLine& line = line_at(self_, sequence);\n"
     "  flags_.post(line_of(sequence), sequence + 1, call_.digest);\n", ORDER),
    ("who shows its input leaves before it was copied", SHARED + "one_hop.cc",
     "(!shows() || still_reading() < 0);", "true;", ORDER),
    ("a copy from a shown input is not checked for having been taken back", SHARED + "one_hop.cc",
     "  if (!there(source, 0)) return false;\n", "", ABORT),
    ("one-hop shows an input that its output overwrites", SHARED + "one_hop.cc",
     "  if (overwrites_input()) return {};\n", "", ORDER),
    ("what one-hop has read where it lies is not checked for having been taken back", SHARED + "one_hop.cc",
     "  return still_mapped();\n}\n\nbool OneHop::still_mapped", "  return true;\n}\n\nbool OneHop::still_mapped", DIRECT),
    ("one-hop does not wait for who is reading", SHARED + "one_hop.cc",
     "[](uint32_t) { return false; }", "[](uint32_t) { return true; }", DIRECT),
    ("one-hop reads what was taken back before it began", SHARED + "one_hop.cc",
     "[this] { return still_mapped(); }", "[] { return true; }", DIRECT),
    ("digests of flags are not compared", SHARED + "flag_lines.h",
     "if (there == make_flag(sequence, digest)) return true;",
     "if (flag_sequence(there) == sequence) return true;", STRAY),
    ("flags are posted without release", SHARED + "flag_lines.h",
     "slots::store(at(self_, line).flag, make_flag(sequence, digest), std::memory_order_release);",
     "slots::store(at(self_, line).flag, make_flag(sequence, digest), std::memory_order_relaxed);", ORDER),
    ("flags are read without acquire", SHARED + "flag_lines.h",
     "return slots::load(at(rank, line).flag, std::memory_order_acquire);",
     "return slots::load(at(rank, line).flag, std::memory_order_relaxed);", ORDER),
    ("a slot is filled before there is credit", SLOTS + "slot_link.h",
     "    return ring.sent - ring.credit < slots_;",
     "    return ring.sent - ring.credit <= slots_;", ORDER),
    ("a slot is posted without release", SLOTS + "slot_link.h",
     "store(line.flag, make_flag(ring.sent, digest_), std::memory_order_release);",
     "store(line.flag, make_flag(ring.sent, digest_), std::memory_order_relaxed);", ORDER),
    ("credit is given without release", SLOTS + "slot_link.h",
     "store(ring.credit_line->consumed, ring.received, std::memory_order_release);",
     "store(ring.credit_line->consumed, ring.received, std::memory_order_relaxed);", ORDER),
    ("a slot is read without acquire", SLOTS + "slot_link.h",
     "const uint64_t flag = load(line.flag, std::memory_order_acquire);",
     "const uint64_t flag = load(line.flag, std::memory_order_relaxed);", ORDER),
    ("whether a rank has left is looked at after its latest call", SLOTS + "slot_link.cc",
     "    const bool gone = load(segment_.rank(local).left, std::memory_order_acquire) != 0;\n"
     "    const uint64_t latest = latest_epoch(local);\n",
     "    const uint64_t latest = latest_epoch(local);\n"
     "    const bool gone = load(segment_.rank(local).left, std::memory_order_acquire) != 0;\n", ORDER),
    ("digests do not tell of calls that ranks end without hearing from all", "lib/call/call.h",
     "return (history ^ (hash + epoch)) * 0xff51afd7ed558ccdu;", "return history;", UNSEEN),
    ("a rank that waits does not compare the calls before", SLOTS + "slot_link.cc",
     "      if (latest >= mark_.epoch) TUTTI_TRY(compare_earlier(local));\n", "", UNSEEN),
]


def commands_of(build):
    """The compile command of each object of the test, and the link command."""
    text = subprocess.run(["ninja", "-C", build, "-t", "commands", "tests/simulation/walks_test"],
                          check=True, capture_output=True, text=True).stdout
    compiles, link = {}, None
    for line in text.splitlines():
        words = shlex.split(line)
        if "-o" not in words:
            continue
        output = words[words.index("-o") + 1]
        if "/libsimulated.a.p/" in output and "-c" in words:
            compiles[output] = words
        elif output == "tests/simulation/walks_test":
            link = words
    return compiles, link


def needs(build, header):
    """The objects of the simulated library that include `header`."""
    text = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True,
                          text=True).stdout
    users, current = [], None
    for line in text.splitlines():
        if line and not line.startswith(" "):
            current = line.split(":")[0]
        elif line.strip().endswith(header) and "/libsimulated.a.p/" in (current or ""):
            users.append(current)
    return users


def mutated_text(mutant):
    what, path, old, new, _ = mutant
    with open(os.path.join(ROOT, path)) as file:
        text = file.read()
    if old not in text:
        sys.exit(f"mutants.py: {path} no longer has\n{old}\nof the mutant '{what}': change both")
    return text.replace(old, new)


# Not the time that passes: on a loaded machine, a test that finds nothing would count as one that hangs.
def limit_cpu_time():
    resource.setrlimit(resource.RLIMIT_CPU, (120, 130))


def is_found(build, mutant, compiles, link):
    _, path, _, _, test = mutant
    text = mutated_text(mutant)
    with tempfile.TemporaryDirectory() as overlay:
        mutated = os.path.join(overlay, path)
        os.makedirs(os.path.dirname(mutated))
        with open(mutated, "w") as file:
            file.write(text)
        name = os.path.basename(path)
        changed = needs(build, path) if path.endswith(".h") else [
            o for o in compiles if o.endswith(name + ".o") and
            os.path.dirname(path).replace("/", "_") in o]
        assert changed, path
        objects = {}
        for number, output in enumerate(changed):
            words = [w for w in compiles[output] if w != "ccache"]
            target = os.path.join(overlay, f"{number}.o")
            words[words.index("-o") + 1] = target
            source = words.index("-c") + 1
            if path.endswith(".cc"):
                words[source] = mutated
            if words[0].endswith("++") or "++" in words[0]:
                words.insert(1, "-I" + overlay)
            for flag in ("-MQ", "-MF"):
                at = words.index(flag)
                del words[at:at + 2]
            words.remove("-MD")
            words.append("-w")
            subprocess.run(words, cwd=build, check=True)
            objects[output] = target
        archive = next(i for i, w in enumerate(link) if w.endswith("libsimulated.a"))
        linked = link[:archive] + [objects.get(o, o) for o in compiles] + link[archive + 1:]
        program = os.path.join(overlay, "walks")
        linked[linked.index("-o") + 1] = program
        subprocess.run(linked, cwd=build, check=True)
        done = subprocess.run([program, "--gtest_filter=" + test], preexec_fn=limit_cpu_time,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode == -signal.SIGXCPU:
            return "hangs"
        return "found" if done.returncode != 0 else None


def table():
    rows = ["| # | mutant | file | found by |", "|---|---|---|---|"]
    for number, (what, path, _, _, test) in enumerate(MUTANTS, 1):
        rows.append(f"| {number} | {what} | `{path}` | `{test.split('.')[1]}` |")
    return "\n".join(rows) + "\n"


def main():
    if sys.argv[1:] == ["--table"]:
        print(table(), end="")
        return 0
    if sys.argv[1:] == ["--check"]:
        for mutant in MUTANTS:
            mutated_text(mutant)
        with open(os.path.join(ROOT, "tests/README.md")) as file:
            if table() not in file.read():
                sys.exit("mutants.py: tests/README.md has another table; --table prints it")
        print(f"{len(MUTANTS)} mutants")
        return 0
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = os.path.abspath(sys.argv[1])
    chosen = [int(n) for n in sys.argv[2:]] or range(1, len(MUTANTS) + 1)
    compiles, link = commands_of(build)
    found = 0
    for number in chosen:
        mutant = MUTANTS[number - 1]
        result = is_found(build, mutant, compiles, link)
        found += result is not None
        print(f"{number:2} {result or 'NOT FOUND':9} {mutant[0]} ({mutant[1]})", flush=True)
    print(f"{found} of {len(chosen)} mutants found")
    return 0 if found == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
