#include "lib/schedule/prove.h"

#include <algorithm>
#include <array>
#include <optional>

#include "lib/schedule/bracketing.h"
#include "lib/schedule/check.h"
#include "lib/schedule/expressions.h"
#include "lib/schedule/formula.h"
#include "lib/schedule/hazards.h"
#include "lib/schedule/text.h"

namespace tutti::schedule {

namespace {

using Id = Expressions::Id;

// By rounds with one port, and with many.
struct Rounds {
  std::array<uint32_t, 2> at{};
  void raise(const Rounds& other) {
    for (size_t i = 0; i < at.size(); ++i) at[i] = std::max(at[i], other.at[i]);
  }
};

struct Cell {
  Id value = Expressions::none;
  uint32_t fold = 0;     // the fold that made it, from 1; 0: none
  Rounds written, read;  // in which rounds last
};

// One rank while its program runs.
struct Rank {
  explicit Rank(const Program& program)
      : layout(program), waits(hazards(program, layout)), cells(layout.cells()) {
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
      lanes[size_t(lane_of(program.steps[s].kind))].push_back(s);
      const bool reduces = program.steps[s].kind == Kind::reduce;
      const bool goes_on = reduces && s > 0 && program.steps[s - 1].kind == Kind::reduce;
      folds.push_back(goes_on ? folds.back() : reduces ? s + 1 : 0);
    }
  }

  Layout layout;
  std::vector<uint32_t> waits;  // by step: how many of the other lane must be done
  std::vector<uint32_t> folds;  // by step: the run of reduces that it belongs to, from 1; 0: none
  std::vector<Cell> cells;
  std::array<std::vector<uint32_t>, 2> lanes;  // step numbers
  std::array<uint32_t, 2> done{};              // steps done of each lane
  uint32_t last_send = 0, last_receive = 0;    // rounds, one port
};

class Prover {
 public:
  Prover(const std::vector<Program>& programs, Collective collective, uint32_t root, Trace* trace)
      : programs_(programs),
        goal_(collective, uint32_t(programs.size()), root),
        trace_(trace),
        nranks_(goal_.nranks()),
        chunks_(programs[0].chunks),
        expressions_(nranks_) {}

  Verdict run() {
    verdict_.well_formed = well_formed();
    if (!verdict_.well_formed) return std::move(verdict_);
    for (const Program& program : programs_) {
      Counter counter(goal_.buffers());
      counter.begin(program.chunks, program.scratch_rows);
      for (const Step& step : program.steps) counter.step(step);
      verdict_.counts.add(counter);
    }
    verdict_.defined =
        every_program([&](const Program& program) { return undefined_read(program, goal_); });
    verdict_.in_place_safe = verdict_.defined && every_program(overwritten_input);
    verdict_.matched = verdict_.in_place_safe && messages_match();
    verdict_.deadlock_free = verdict_.matched && execute();
    if (verdict_.deadlock_free) judge();
    return std::move(verdict_);
  }

 private:
  enum : size_t { one_port, many_ports };

  struct Position {
    uint32_t rank = 0;
    Lane lane = Lane::incoming;
    bool operator==(const Position&) const = default;
  };

  std::string name(uint32_t rank, uint32_t step) const {
    return "rank " + std::to_string(rank) + ", step " + std::to_string(step + 1) + " (" +
           print(programs_[rank].steps[step]) + ")";
  }
  bool fail(std::string sentence) {
    if (verdict_.failure.empty()) verdict_.failure = std::move(sentence);
    return false;
  }

  // ---- without running

  template <class Check>
  bool every_program(const Check& check) {
    for (uint32_t r = 0; r < nranks_; ++r) {
      if (const std::optional<Fault> fault = check(programs_[r])) {
        return fail(name(r, fault->step) + ": " + fault->cause);
      }
    }
    return true;
  }

  bool well_formed() {
    for (uint32_t r = 0; r < nranks_; ++r) {
      const Program& program = programs_[r];
      if (program.rank != r || program.nranks != nranks_ || program.chunks != chunks_) {
        return fail("rank " + std::to_string(r) + ": its rank, rank count or chunk count is not " +
                    "what the others' say");
      }
      if (goal_.blocks() != 1 && chunks_ != goal_.blocks()) {
        return fail("rank " + std::to_string(r) + ": its chunks are not the blocks of the " +
                    collective_name(goal_.collective()));
      }
    }
    return every_program(misshapen_step);
  }

  struct Message {
    uint32_t receiver = 0;
    uint32_t step = 0;
  };

  // The k-th send of a directed pair and its k-th receive must be of the same chunks.
  bool messages_match() {
    std::vector<std::vector<uint32_t>> sends(nranks_);    // of one rank by receiver: step numbers
    std::vector<std::vector<Message>> expected(nranks_);  // by sender
    for (uint32_t r = 0; r < nranks_; ++r) {
      for (uint32_t s = 0; s < programs_[r].steps.size(); ++s) {
        const Step& step = programs_[r].steps[s];
        if (receives(step.kind)) expected[step.peer].push_back({r, s});
      }
    }
    for (uint32_t r = 0; r < nranks_; ++r) {
      for (auto& steps : sends) steps.clear();
      for (uint32_t s = 0; s < programs_[r].steps.size(); ++s) {
        const Step& step = programs_[r].steps[s];
        if (step.kind == Kind::send) sends[step.peer].push_back(s);
      }
      std::vector<size_t> met(nranks_, 0);
      for (const Message& message : expected[r]) {
        const size_t k = met[message.receiver]++;
        if (k >= sends[message.receiver].size()) {
          return fail(name(message.receiver, message.step) + ": rank " + std::to_string(r) +
                      " has no send for it");
        }
        if (!same_chunks(r, sends[message.receiver][k], message)) return false;
      }
      for (uint32_t to = 0; to < nranks_; ++to) {
        if (met[to] < sends[to].size()) {
          return fail(name(r, sends[to][met[to]]) + ": rank " + std::to_string(to) +
                      " has no receive for it");
        }
      }
    }
    return true;
  }
  bool same_chunks(uint32_t sender, uint32_t send, const Message& message) {
    const Range& from = programs_[sender].steps[send].from;
    const Range& to = programs_[message.receiver].steps[message.step].to;
    const bool same = from.size() == to.size() && column(from, chunks_) == column(to, chunks_) &&
                      programs_[sender].steps[send].joined ==
                          programs_[message.receiver].steps[message.step].joined;
    return same || fail(name(message.receiver, message.step) + ": it gets other chunks from " +
                        name(sender, send));
  }

  // ---- running

  bool finished(Position place) const {
    const Rank& rank = ranks_[place.rank];
    return rank.done[size_t(place.lane)] == rank.lanes[size_t(place.lane)].size();
  }
  // The next step of a lane that is not finished, or the `ahead`-th after it.
  uint32_t next(Position place, uint32_t ahead = 0) const {
    const Rank& rank = ranks_[place.rank];
    return rank.lanes[size_t(place.lane)][rank.done[size_t(place.lane)] + ahead];
  }
  // How many steps the next message of a lane is.
  uint32_t parts(Position place) const {
    const Rank& rank = ranks_[place.rank];
    const size_t left = rank.lanes[size_t(place.lane)].size() - rank.done[size_t(place.lane)];
    uint32_t n = 1;
    while (n < left && programs_[place.rank].steps[next(place, n)].joined) ++n;
    return n;
  }
  // A message goes when all its parts can.
  bool held_back(Position place) const {
    const Rank& rank = ranks_[place.rank];
    for (uint32_t i = 0, n = parts(place); i < n; ++i) {
      if (rank.waits[next(place, i)] > rank.done[size_t(other_lane(place.lane))]) return true;
    }
    return false;
  }
  bool can_run(Position place) const { return !finished(place) && !held_back(place); }

  // Runs everything that can run. Which of two runnable steps goes first does not matter: running
  // one never disables the other.
  bool execute() {
    ranks_.reserve(nranks_);
    for (uint32_t r = 0; r < nranks_; ++r) {
      ranks_.emplace_back(programs_[r]);
      for (uint32_t c = 0; c < chunks_; ++c) {
        if (goal_.has(r, c)) ranks_[r].cells[c].value = Expressions::leaf(r);
      }
    }
    last_of_pair_.assign(size_t(nranks_) * nranks_, 0);

    std::vector<uint32_t> todo(nranks_);
    for (uint32_t r = 0; r < nranks_; ++r) todo[r] = nranks_ - 1 - r;
    while (!todo.empty()) {
      const uint32_t r = todo.back();
      todo.pop_back();
      advance(r, &todo);
    }
    for (uint32_t r = 0; r < nranks_; ++r) {
      for (const Lane lane : {Lane::incoming, Lane::outgoing}) {
        if (!finished({r, lane})) return fail(cycle({r, lane}));
      }
    }
    return true;
  }

  // Moves a rank as far as it goes; partners of its messages may go on then too.
  void advance(uint32_t r, std::vector<uint32_t>* todo) {
    for (bool moved = true; moved;) {
      moved = false;
      if (can_run({r, Lane::incoming})) {
        const Step& step = programs_[r].steps[next({r, Lane::incoming})];
        if (!receives(step.kind)) {
          run_local(r, step);
          moved = true;
        } else if (try_message(step.peer, r)) {
          todo->push_back(step.peer);
          moved = true;
        }
      }
      if (can_run({r, Lane::outgoing})) {
        const uint32_t peer = programs_[r].steps[next({r, Lane::outgoing})].peer;
        if (try_message(r, peer)) {
          todo->push_back(peer);
          moved = true;
        }
      }
    }
  }

  // Runs the message from `from` to `to` if it is next on both sides.
  bool try_message(uint32_t from, uint32_t to) {
    const Position source{from, Lane::outgoing}, target{to, Lane::incoming};
    if (!can_run(source) || !can_run(target)) return false;
    const Step& send = programs_[from].steps[next(source)];
    const Step& receive = programs_[to].steps[next(target)];
    if (send.peer != to || !receives(receive.kind) || receive.peer != from) return false;

    Rounds round;
    const uint32_t n = parts(source);
    for (uint32_t i = 0; i < n; ++i) {
      round.raise(reading(ranks_[from], programs_[from].steps[next(source, i)].from));
      round.raise(writing(ranks_[to], programs_[to].steps[next(target, i)].to));
    }
    uint32_t& pair = last_of_pair_[size_t(from) * nranks_ + to];
    round.at[one_port] =
        std::max({round.at[one_port], ranks_[from].last_send, ranks_[to].last_receive}) + 1;
    round.at[many_ports] = std::max(round.at[many_ports], pair) + 1;
    ranks_[from].last_send = ranks_[to].last_receive = round.at[one_port];
    pair = round.at[many_ports];
    verdict_.rounds = std::max(verdict_.rounds, round.at[one_port]);
    verdict_.rounds_multiport = std::max(verdict_.rounds_multiport, round.at[many_ports]);

    std::vector<uint32_t> chunks;
    for (uint32_t i = 0; i < n; ++i) {
      const Range& part = programs_[from].steps[next(source, i)].from;
      apply(from, part, to, programs_[to].steps[next(target, i)], round);
      if (trace_ == nullptr) continue;
      for (uint32_t c = 0; c < part.size(); ++c) chunks.push_back(column(part, chunks_) + c);
    }
    if (trace_ != nullptr) {
      trace_->transfers.push_back(
          {round.at[one_port], from, to, std::move(chunks), receive.kind == Kind::recv_reduce});
    }
    ranks_[from].done[size_t(Lane::outgoing)] += n;
    ranks_[to].done[size_t(Lane::incoming)] += n;
    return true;
  }

  // Copies and reduces take no round of their own.
  void run_local(uint32_t r, const Step& step) {
    Rounds round = reading(ranks_[r], step.from);
    round.raise(writing(ranks_[r], step.to));
    apply(r, step.from, r, step, round);
    ++ranks_[r].done[size_t(Lane::incoming)];
  }

  // The round by which the chunks of a range are there to read, or free to be written.
  static Rounds reading(const Rank& rank, const Range& range) {
    Rounds round;
    const Cell* cell = &rank.cells[rank.layout.first(range)];
    for (uint32_t i = 0; i < range.size(); ++i) round.raise(cell[i].written);
    return round;
  }
  static Rounds writing(const Rank& rank, const Range& range) {
    Rounds round = reading(rank, range);
    const Cell* cell = &rank.cells[rank.layout.first(range)];
    for (uint32_t i = 0; i < range.size(); ++i) round.raise(cell[i].read);
    return round;
  }

  // In one fold every operand is a single contribution, or what this fold itself has made. Two
  // contributions that are combined on arrival are a fold of their own.
  void judge_operand(Id value, uint32_t made_by, uint32_t fold) {
    if (expressions_.size(value) > 1 && (fold == 0 || made_by != fold)) one_fold_ = false;
  }

  // Takes range `from` of a rank into the range `step.to` of a rank, combining if the step does.
  void apply(uint32_t from_rank, const Range& from, uint32_t to_rank, const Step& step,
             const Rounds& round) {
    Cell* source = &ranks_[from_rank].cells[ranks_[from_rank].layout.first(from)];
    Cell* target = &ranks_[to_rank].cells[ranks_[to_rank].layout.first(step.to)];
    const uint32_t fold = ranks_[to_rank].folds[size_t(&step - programs_[to_rank].steps.data())];
    for (uint32_t i = 0; i < from.size(); ++i) {
      // The input is never written, even if the output in the same cell was.
      Id value = from.role == Role::input ? Expressions::leaf(from_rank) : source[i].value;
      source[i].read.raise(round);
      if (reads_to(step.kind)) {
        judge_operand(value, source[i].fold, fold);
        judge_operand(target[i].value, target[i].fold, fold);
        value = step.side == Side::left ? expressions_.combine(value, target[i].value)
                                        : expressions_.combine(target[i].value, value);
      }
      target[i].value = value;
      target[i].fold = fold;
      target[i].written.raise(round);
      if (trace_ != nullptr && step.to.role == Role::output) {
        trace_->changes.push_back(
            {round.at[one_port], to_rank, step.to.begin + i, expressions_.size(value)});
      }
    }
  }

  // ---- when nothing moves any more

  // The lane that the next step of a lane waits for. All messages have partners, so there is one.
  Position blocker(Position place) const {
    if (held_back(place)) return {place.rank, other_lane(place.lane)};
    return {programs_[place.rank].steps[next(place)].peer, other_lane(place.lane)};
  }

  std::string cycle(Position start) const {
    std::vector<Position> path;
    while (std::find(path.begin(), path.end(), start) == path.end()) {
      path.push_back(start);
      start = blocker(start);
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), start));
    std::string text = name(start.rank, next(start)) + ": it waits for ever";
    const size_t most = 4;
    for (size_t i = 0; i < path.size() && i < most; ++i) {
      const Position then = path[(i + 1) % path.size()];
      text += (i == 0 ? " for " : ", which waits for ") + name(then.rank, next(then));
    }
    if (path.size() > most) text += ", and so on over " + std::to_string(path.size()) + " steps";
    return text;
  }

  // ---- judging what came out

  Id result(uint32_t rank, uint32_t chunk) const { return ranks_[rank].cells[chunk].value; }

  void judge() {
    verdict_.complete = verdict_.ordered = verdict_.same_bits = true;
    verdict_.position_independent = verdict_.canonical = true;
    verdict_.one_fold = one_fold_;
    for (uint32_t c = 0; c < chunks_; ++c) {
      std::optional<uint32_t> first;  // who gets the chunk
      for (uint32_t r = 0; r < nranks_; ++r) {
        if (!goal_.gets(r, c)) continue;
        judge_value(r, c);
        if (!first) first = r;
        if (is_scan(goal_.collective())) {
          if (result(r, c) != result(r, 0)) verdict_.position_independent = false;
        } else if (result(r, c) != result(*first, c)) {
          differ(r, c, *first);
        }
      }
      if (reduces(goal_.collective()) && !is_scan(goal_.collective()) && first) {
        if (result(*first, c) != one_result()) verdict_.position_independent = false;
      }
    }
    if (!verdict_.complete) {
      verdict_.same_bits = verdict_.ordered = verdict_.position_independent = false;
      verdict_.canonical = verdict_.one_fold = false;
    }
    if (reduces(goal_.collective()) && verdict_.position_independent) verdict_.tree = tree_id();
  }

  // What the first rank that gets chunk 0 has there.
  Id one_result() const {
    uint32_t r = 0;
    while (!goal_.gets(r, 0)) ++r;
    return result(r, 0);
  }

  std::string tree_id() {
    if (!is_scan(goal_.collective())) return expressions_.tree_id(one_result());
    Id all = Expressions::none;
    for (uint32_t r = 0; r < nranks_; ++r) {
      if (goal_.gets(r, 0)) all = expressions_.combine(all, result(r, 0));
    }
    return expressions_.tree_id(all);
  }

  void differ(uint32_t rank, uint32_t chunk, uint32_t first) {
    verdict_.same_bits =
        fail("rank " + std::to_string(rank) + last_write(rank, chunk) + ": it ends with chunk " +
             std::to_string(chunk) + " bracketed otherwise than rank " + std::to_string(first));
  }

  void judge_value(uint32_t rank, uint32_t chunk) {
    const Id value = result(rank, chunk);
    // Where all results have all contributions, each distinct result is judged once.
    const bool of_all = reduces(goal_.collective()) && !is_scan(goal_.collective());
    if (judged_.size() <= value) judged_.resize(size_t(value) + 1);
    if (of_all && judged_[value]) return;
    judged_[value] = true;
    std::vector<uint32_t> expected;
    for (uint32_t r = 0; r < nranks_; ++r) {
      if (goal_.combines(r, rank, chunk)) expected.push_back(r);
    }
    std::vector<uint32_t> found;
    if (value != Expressions::none) found = expressions_.contributions(value, expected.size() + 1);
    if (found == expected) {
      if (value != canonical(expected)) verdict_.canonical = false;
      return;
    }
    verdict_.ordered = verdict_.canonical = false;
    std::sort(found.begin(), found.end());
    if (found == expected) return;
    verdict_.complete =
        fail("rank " + std::to_string(rank) + last_write(rank, chunk) + ": it ends with chunk " +
             std::to_string(chunk) + wrong_in(found, rank, chunk));
  }

  Id canonical(const std::vector<uint32_t>& ranks) {
    if (ranks.empty()) return Expressions::none;
    return canonical_tree(
        uint32_t(ranks.size()), [&](uint32_t k) { return Expressions::leaf(ranks[k]); },
        [&](Id left, Id right) { return expressions_.combine(left, right); });
  }

  std::string wrong_in(const std::vector<uint32_t>& found, uint32_t rank, uint32_t chunk) const {
    for (uint32_t r = 0; r < nranks_; ++r) {
      const auto times = std::count(found.begin(), found.end(), r);
      if (times > 1) return " holding the contribution of rank " + std::to_string(r) + " twice";
      if (times == 1 && !goal_.combines(r, rank, chunk)) {
        return " holding what rank " + std::to_string(r) + " had";
      }
    }
    for (uint32_t r = 0; r < nranks_; ++r) {
      if (goal_.combines(r, rank, chunk) && std::count(found.begin(), found.end(), r) == 0) {
        return " lacking the contribution of rank " + std::to_string(r);
      }
    }
    return " wrong";
  }

  // ", step 7 (...)": the step that wrote a chunk of the output last, if one did.
  std::string last_write(uint32_t rank, uint32_t chunk) const {
    const auto& steps = programs_[rank].steps;
    for (uint32_t s = uint32_t(steps.size()); s-- > 0;) {
      if (has_to(steps[s].kind) && steps[s].to.overlaps({Role::output, chunk, chunk + 1})) {
        return ", step " + std::to_string(s + 1) + " (" + print(steps[s]) + ")";
      }
    }
    return {};
  }

  const std::vector<Program>& programs_;
  Goal goal_;
  Trace* trace_;
  uint32_t nranks_;
  uint32_t chunks_;
  Expressions expressions_;
  std::vector<Rank> ranks_;
  std::vector<uint32_t> last_of_pair_;  // many ports: the round of a directed pair's last message
  std::vector<bool> judged_;
  bool one_fold_ = true;
  Verdict verdict_;
};

// "N rounds, its formula says M"; empty if they agree.
std::string difference(const char* what, const Rational& counted, const char* formula,
                       uint32_t nranks) {
  Rational claimed;
  if (const Status status = evaluate(formula, nranks, &claimed); !status.ok()) return status.text();
  if (claimed == counted) return {};
  return std::string(what) + " are " + counted.text() + ", its formula " + formula + " says " +
         claimed.text();
}

}  // namespace

Verdict prove(const std::vector<Program>& programs, Collective collective, uint32_t root,
              Trace* trace) {
  return Prover(programs, collective, root, trace).run();
}

Verdict prove(const Algorithm& algorithm, const Shape& shape, Trace* trace) {
  return prove(build_all(algorithm.emit, shape), algorithm.collective, shape.root, trace);
}

Verdict prove(const Algorithm& algorithm, uint32_t nranks, uint32_t root, Trace* trace) {
  return prove(algorithm, Shape{.nranks = nranks, .root = root}, trace);
}

std::string broken_claim(const Algorithm& algorithm, uint32_t nranks, const Verdict& verdict,
                         uint32_t root) {
  if (!verdict.sound()) return verdict.failure;
  const bool claims_order =
      algorithm.applies({.nranks = nranks, .root = root, .ordered = true}).empty();
  if (claims_order && !verdict.ordered) return "it serves ordered operators but breaks rank order";
  if (!claims_order && verdict.ordered) return "it refuses ordered operators but keeps rank order";
  const Claims& claims = algorithm.claims;
  const Counts& counts = verdict.counts;
  for (std::string wrong :
       {difference("rounds", verdict.rounds, claims.rounds, nranks),
        difference("rounds with p-1 ports", verdict.rounds_multiport, claims.rounds_multiport,
                   nranks),
        difference("messages", int64_t(counts.messages), claims.messages, nranks),
        difference("vectors sent", counts.sent, claims.sent, nranks),
        difference("vectors reduced", counts.reduced, claims.reduced, nranks)}) {
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace tutti::schedule
