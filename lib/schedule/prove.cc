#include "lib/schedule/prove.h"

#include <algorithm>
#include <array>
#include <optional>

#include "lib/schedule/expressions.h"
#include "lib/schedule/hazards.h"
#include "lib/schedule/text.h"

namespace tutti::schedule {

namespace {

using Id = Expressions::Id;

// When a chunk was last written and read, in rounds: with one port, and with many.
struct Rounds {
  std::array<uint32_t, 2> at{};
  void raise(const Rounds& other) {
    for (size_t i = 0; i < at.size(); ++i) at[i] = std::max(at[i], other.at[i]);
  }
};

struct Cell {
  Id value = Expressions::none;
  Rounds written, read;
};

// One rank while its program runs.
struct Rank {
  std::array<std::vector<Cell>, 3> cells;  // by role; input and output share rounds through both
  std::vector<bool> output_written;
  std::array<std::vector<uint32_t>, 2> lanes;  // step numbers
  std::array<uint32_t, 2> done{};              // steps done of each lane
  std::vector<uint32_t> waits;                 // by step: how many of the other lane
  uint32_t last_send = 0, last_receive = 0;    // rounds, one port
  std::vector<uint32_t> send_to, receive_from;  // rounds by peer, many ports
  uint64_t sent = 0, reduced = 0;
};

class Prover {
 public:
  Prover(const std::vector<Program>& programs, Collective goal, uint32_t root,
         std::vector<Transfer>* transfers)
      : programs_(programs),
        goal_(goal),
        root_(root),
        transfers_(transfers),
        nranks_(uint32_t(programs.size())),
        expressions_(nranks_),
        ranks_(nranks_) {}

  Verdict run() {
    verdict_.chunks = programs_[0].chunks;
    verdict_.well_formed = true;
    verdict_.in_place_safe = true;
    for (uint32_t r = 0; r < nranks_ && verdict_.well_formed; ++r) prepare(r);
    if (verdict_.well_formed) execute();
    if (verdict_.well_formed && verdict_.deadlock_free) judge();
    for (const Rank& rank : ranks_) {
      verdict_.most_sent = std::max(verdict_.most_sent, rank.sent);
      verdict_.total_sent += rank.sent;
      verdict_.most_reduced = std::max(verdict_.most_reduced, rank.reduced);
    }
    return std::move(verdict_);
  }

 private:
  void fail(bool Verdict::*field, uint32_t rank, uint32_t step, const std::string& cause) {
    verdict_.*field = false;
    if (!verdict_.failure.empty()) return;
    verdict_.failure = "rank " + std::to_string(rank) + ", step " + std::to_string(step + 1);
    if (step < programs_[rank].steps.size()) {
      verdict_.failure += " (" + print(programs_[rank].steps[step]) + ")";
    }
    verdict_.failure += ": " + cause;
  }

  uint32_t chunks() const { return verdict_.chunks; }
  uint32_t column(const Range& range) const { return range.begin % chunks(); }

  // ---- what can be seen without running

  std::string wrong_range(const Program& program, const Range& range) const {
    const uint64_t size = range.role == Role::scratch
                              ? uint64_t(program.chunks) * program.scratch_rows : program.chunks;
    if (range.begin >= range.end || range.end > size) return "the range is empty or out of bounds";
    if (column(range) + range.size() > chunks()) return "the range crosses the end of a row";
    return {};
  }

  std::string wrong_step(const Program& program, const Step& step) const {
    const bool has_from = step.kind != Kind::recv && step.kind != Kind::recv_reduce;
    const bool has_to = step.kind != Kind::send;
    const bool message = !has_from || !has_to;
    if (message && (step.peer >= nranks_ || step.peer == program.rank)) {
      return "there is no such peer";
    }
    if (has_to && step.to.role == Role::input) return "the input is written";
    for (const Range* range : {has_from ? &step.from : nullptr, has_to ? &step.to : nullptr}) {
      if (range == nullptr) continue;
      if (std::string wrong = wrong_range(program, *range); !wrong.empty()) return wrong;
    }
    if (has_from && has_to && (column(step.from) != column(step.to) ||
                               step.from.size() != step.to.size())) {
      return "the operands are different chunks of the vector";
    }
    return {};
  }

  void prepare(uint32_t r) {
    const Program& program = programs_[r];
    Rank& rank = ranks_[r];
    if (program.chunks != chunks() || program.rank != r || program.nranks != nranks_) {
      fail(&Verdict::well_formed, r, 0, "its chunks, rank or rank count differ from the others'");
      return;
    }
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
      if (std::string wrong = wrong_step(program, program.steps[s]); !wrong.empty()) {
        fail(&Verdict::well_formed, r, s, wrong);
        return;
      }
    }
    for (const Role role : {Role::input, Role::output}) {
      const bool known = goal_ != Collective::broadcast || r == root_;
      // Without a contribution of its own a rank's buffer holds something, but nothing of use.
      rank.cells[size_t(role)].assign(chunks(), {known ? Expressions::leaf(r) : Expressions::none});
    }
    rank.cells[size_t(Role::scratch)].resize(size_t(chunks()) * program.scratch_rows);
    rank.output_written.assign(chunks(), false);
    rank.send_to.assign(nranks_, 0);
    rank.receive_from.assign(nranks_, 0);

    Hazards hazards(chunks(), program.scratch_rows);
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      const Lane lane = lane_of(step.kind);
      const uint32_t index = uint32_t(rank.lanes[size_t(lane)].size());
      Hazards::Wait wait;
      if (step.kind != Kind::recv && step.kind != Kind::recv_reduce) {
        hazards.reads(lane, step.from, index, &wait);
      }
      if (step.kind == Kind::recv_reduce || step.kind == Kind::reduce) {
        hazards.reads(lane, step.to, index, &wait);
      }
      if (step.kind != Kind::send) hazards.writes(lane, step.to, index, &wait);
      rank.waits.push_back(wait.steps);
      rank.lanes[size_t(lane)].push_back(s);
    }
  }

  // ---- running

  // The next step of a lane, if what it waits for is done.
  std::optional<uint32_t> ready(uint32_t r, Lane lane) const {
    const Rank& rank = ranks_[r];
    const auto& steps = rank.lanes[size_t(lane)];
    const uint32_t next = rank.done[size_t(lane)];
    if (next >= steps.size()) return std::nullopt;
    const uint32_t other = rank.done[1 - size_t(lane)];
    if (rank.waits[steps[next]] > other) return std::nullopt;
    return steps[next];
  }

  void execute() {
    std::vector<uint32_t> todo(nranks_);
    for (uint32_t r = 0; r < nranks_; ++r) todo[r] = nranks_ - 1 - r;
    while (!todo.empty() && verdict_.well_formed) {
      const uint32_t r = todo.back();
      todo.pop_back();
      // A rank goes on as long as anything moves; a message moves its other end on too.
      for (bool moved = true; moved && verdict_.well_formed;) {
        moved = false;
        if (const auto step = ready(r, Lane::incoming)) {
          const Step& s = programs_[r].steps[*step];
          if (s.kind == Kind::recv || s.kind == Kind::recv_reduce) {
            moved = try_message(s.peer, r);
            if (moved) todo.push_back(s.peer);
          } else {
            local(r, *step);
            moved = true;
          }
        }
        if (const auto step = ready(r, Lane::outgoing); step && verdict_.well_formed) {
          const uint32_t peer = programs_[r].steps[*step].peer;
          if (try_message(r, peer)) {
            todo.push_back(peer);
            moved = true;
          }
        }
      }
    }
    if (!verdict_.well_formed) return;
    verdict_.deadlock_free = true;
    for (uint32_t r = 0; r < nranks_; ++r) {
      for (const Lane lane : {Lane::incoming, Lane::outgoing}) {
        const auto& steps = ranks_[r].lanes[size_t(lane)];
        if (ranks_[r].done[size_t(lane)] < steps.size()) {
          fail(&Verdict::deadlock_free, r, steps[ranks_[r].done[size_t(lane)]],
               "it waits for ever: nobody meets it, or ranks wait in a circle");
        }
      }
    }
  }

  // Runs the message from `from` to `to` if it is next on both sides.
  bool try_message(uint32_t from, uint32_t to) {
    const auto sends = ready(from, Lane::outgoing);
    const auto receives = ready(to, Lane::incoming);
    if (!sends || !receives) return false;
    const Step& send = programs_[from].steps[*sends];
    const Step& recv = programs_[to].steps[*receives];
    const bool is_receive = recv.kind == Kind::recv || recv.kind == Kind::recv_reduce;
    if (send.peer != to || !is_receive || recv.peer != from) return false;
    if (send.from.size() != recv.to.size() || column(send.from) != column(recv.to)) {
      fail(&Verdict::well_formed, to, *receives,
           "rank " + std::to_string(from) + " sends other chunks (" + print(send) + ")");
      return false;
    }
    Rank& source = ranks_[from];
    Rank& target = ranks_[to];
    const bool reduces = recv.kind == Kind::recv_reduce;

    Rounds round = reading(source, send.from);
    if (reduces) round.raise(reading(target, recv.to));
    round.raise(writing(target, recv.to));
    round.at[0] = std::max({round.at[0], source.last_send, target.last_receive});
    round.at[1] = std::max({round.at[1], source.send_to[to], target.receive_from[from]});
    for (uint32_t& at : round.at) ++at;
    source.last_send = target.last_receive = round.at[0];
    source.send_to[to] = target.receive_from[from] = round.at[1];
    verdict_.rounds = std::max(verdict_.rounds, round.at[0]);
    verdict_.rounds_multiport = std::max(verdict_.rounds_multiport, round.at[1]);

    for (uint32_t i = 0; i < recv.to.size(); ++i) {
      const Id incoming = read(from, *sends, send.from, i, round);
      Id value = incoming;
      if (reduces) {
        const Id own = read(to, *receives, recv.to, i, round);
        value = combine(recv.side, incoming, own);
        ++target.reduced;
      }
      write(to, recv.to, i, value, round);
    }
    source.sent += send.from.size();
    ++verdict_.messages;
    ++source.done[size_t(Lane::outgoing)];
    ++target.done[size_t(Lane::incoming)];
    if (transfers_ != nullptr) {
      transfers_->push_back({round.at[0], from, to, column(send.from),
                             column(send.from) + send.from.size(), reduces});
    }
    return verdict_.well_formed;
  }

  // Copies and reduces take no round of their own.
  void local(uint32_t r, uint32_t number) {
    const Step& step = programs_[r].steps[number];
    Rank& rank = ranks_[r];
    const bool reduces = step.kind == Kind::reduce;
    Rounds round = reading(rank, step.from);
    if (reduces) round.raise(reading(rank, step.to));
    round.raise(writing(rank, step.to));
    for (uint32_t i = 0; i < step.to.size(); ++i) {
      const Id incoming = read(r, number, step.from, i, round);
      Id value = incoming;
      if (reduces) {
        value = combine(step.side, incoming, read(r, number, step.to, i, round));
        ++rank.reduced;
      }
      write(r, step.to, i, value, round);
    }
    ++rank.done[size_t(Lane::incoming)];
  }

  Id combine(Side side, Id incoming, Id own) {
    if (incoming == Expressions::none || own == Expressions::none) return Expressions::none;
    return side == Side::left ? expressions_.combine(incoming, own)
                              : expressions_.combine(own, incoming);
  }

  // The round by which the chunks of a range are there to read, or free to be written.
  Rounds reading(const Rank& rank, const Range& range) const {
    Rounds round;
    for (uint32_t c = range.begin; c < range.end; ++c) {
      round.raise(rank.cells[size_t(range.role)][c].written);
    }
    return round;
  }
  Rounds writing(const Rank& rank, const Range& range) const {
    Rounds round;
    for (uint32_t c = range.begin; c < range.end; ++c) {
      const Cell& cell = rank.cells[size_t(range.role)][c];
      round.raise(cell.written);
      round.raise(cell.read);
      if (range.role == Role::output) round.raise(rank.cells[size_t(Role::input)][c].read);
    }
    return round;
  }

  Id read(uint32_t r, uint32_t step, const Range& range, uint32_t i, const Rounds& round) {
    Cell& cell = ranks_[r].cells[size_t(range.role)][range.begin + i];
    cell.read.raise(round);
    if (cell.value == Expressions::none) {
      fail(&Verdict::well_formed, r, step, "it reads what nobody has written");
    }
    if (range.role == Role::input && ranks_[r].output_written[range.begin + i]) {
      fail(&Verdict::in_place_safe, r, step,
           "it reads the input where the output was written; in place that is gone");
    }
    return cell.value;
  }
  void write(uint32_t r, const Range& range, uint32_t i, Id value, const Rounds& round) {
    Cell& cell = ranks_[r].cells[size_t(range.role)][range.begin + i];
    cell.value = value;
    cell.written.raise(round);
    if (range.role == Role::output) ranks_[r].output_written[range.begin + i] = true;
  }

  // ---- judging

  void judge() {
    verdict_.complete = verdict_.ordered = verdict_.same_bits = true;
    verdict_.position_independent = true;
    const auto& first = ranks_[0].cells[size_t(Role::output)];
    for (uint32_t c = 0; c < chunks(); ++c) {
      judge_value(0, c, first[c].value);
      if (first[c].value != first[0].value) verdict_.position_independent = false;
      for (uint32_t r = 1; r < nranks_; ++r) {
        const Id value = ranks_[r].cells[size_t(Role::output)][c].value;
        if (value == first[c].value) continue;
        verdict_.same_bits = verdict_.position_independent = false;
        judge_value(r, c, value);
      }
    }
    verdict_.tree = verdict_.position_independent ? expressions_.tree_id(first[0].value) : "-";
    if (!verdict_.same_bits && verdict_.failure.empty()) {
      verdict_.failure = "ranks end with different expression trees";
    }
  }

  void judge_value(uint32_t rank, uint32_t chunk, Id value) {
    if (judged_.size() <= value) judged_.resize(size_t(value) + 1);
    if (judged_[value]) return;
    judged_[value] = true;
    std::vector<uint32_t> expected(goal_ == Collective::broadcast ? 1 : nranks_, root_);
    if (goal_ != Collective::broadcast) {
      for (uint32_t r = 0; r < nranks_; ++r) expected[r] = r;
    }
    std::vector<uint32_t> found =
        value == Expressions::none ? std::vector<uint32_t>()
                                   : expressions_.contributions(value, expected.size() + 1);
    if (found != expected) verdict_.ordered = false;
    std::sort(found.begin(), found.end());
    if (found == expected) return;
    verdict_.complete = false;
    if (verdict_.failure.empty()) {
      verdict_.failure = "rank " + std::to_string(rank) + " ends without every contribution exactly "
                         "once in chunk " + std::to_string(chunk);
    }
  }

  const std::vector<Program>& programs_;
  Collective goal_;
  uint32_t root_;
  std::vector<Transfer>* transfers_;
  uint32_t nranks_;
  Expressions expressions_;
  std::vector<Rank> ranks_;
  std::vector<bool> judged_;
  Verdict verdict_;
};

}  // namespace

Verdict prove(const std::vector<Program>& programs, Collective goal, uint32_t root,
              std::vector<Transfer>* transfers) {
  return Prover(programs, goal, root, transfers).run();
}

Verdict prove(const Algorithm& algorithm, uint32_t nranks, uint32_t root,
              std::vector<Transfer>* transfers) {
  const std::vector<Program> programs =
      build_all(algorithm.emit, {.nranks = nranks, .root = root});
  return prove(programs, algorithm.collective, root, transfers);
}

}  // namespace tutti::schedule
