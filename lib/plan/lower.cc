#include "lib/plan/lower.h"

#include <algorithm>
#include <optional>

#include "algorithms/patterns.h"
#include "lib/schedule/expressions.h"
#include "lib/schedule/hazards.h"

namespace tutti::plan {

namespace {

using schedule::Bracketing;
using schedule::Kind;
using schedule::Range;
using schedule::Role;
using schedule::Shape;
using schedule::Step;

// A step with resolved operands: reads of unwritten output have become reads of the input.
struct Resolved {
  Verb verb;
  Side side;
  uint32_t peer;
  Range to;                     // all but send
  Range from;                   // send, copy; recv_reduce: the local operand
  std::vector<Range> operands;  // reduce, in order
  bool joined = false;          // send, recv, recv_reduce: continues the message before it
};

// The symbolic values of ranges while a run of reduces combines what was received there.
class FoldedRanges {
 public:
  // `reduces`: how many there will be.
  explicit FoldedRanges(size_t reduces) : expressions_(uint32_t(2 * reduces)) {}

  // to = left op right. False when ranges overlap without being the same.
  bool combine(const Range& left, const Range& right, const Range& to) {
    const Id result = expressions_.combine(value(left), value(right));
    if (Id* const held = find(to)) {
      *held = result;
    } else {
      values_.push_back({to, result});
    }
    return !overlaps_;
  }

  // `operands`: the ranges whose fold in this bracketing is in `to`, in order. False if `to` holds
  // no such fold of all ranges.
  bool fold_of(const Range& to, Bracketing bracketing, std::vector<Range>* operands) {
    const Id result = *find(to);
    const auto order = expressions_.contributions(result, leaves_.size() + 1);
    if (order.size() != leaves_.size()) return false;
    const Id wanted = bracketed(
        bracketing, uint32_t(order.size()), [&](uint32_t k) { return Expressions::leaf(order[k]); },
        [&](Id left, Id right) { return expressions_.combine(left, right); });
    for (const uint32_t leaf : order) operands->push_back(leaves_[leaf]);
    return result == wanted;
  }

 private:
  using Expressions = schedule::Expressions;
  using Id = Expressions::Id;

  Id* find(const Range& range) {
    for (auto& [held, id] : values_) {
      if (held == range) return &id;
      overlaps_ = overlaps_ || held.overlaps(range);
    }
    return nullptr;
  }
  Id value(const Range& range) {
    if (const Id* const held = find(range)) return *held;
    values_.push_back({range, Expressions::leaf(uint32_t(leaves_.size()))});
    leaves_.push_back(range);
    return values_.back().second;
  }

  Expressions expressions_;
  std::vector<Range> leaves_;  // the ranges that were received, by their number
  std::vector<std::pair<Range, Id>> values_;
  bool overlaps_ = false;
};

// Collects steps and applies the first rewrite; cuts ranges of which only a part was written.
class Resolver final : public schedule::Sink {
 public:
  // `scattered`: chunks that are neighbours in the vector need not be so in memory.
  Resolver(const Goal& goal, uint32_t rank, bool scattered)
      : goal_(goal), rank_(rank), scattered_(scattered) {}

  void begin(uint32_t chunks, uint32_t scratch_rows) override {
    chunks_ = chunks;
    scratch_rows_ = scratch_rows;
    written_.assign(chunks, false);
  }

  void step(const Step& step) override {
    const Range& whole = step.kind == Kind::send ? step.from : step.to;
    for (uint32_t done = 0; done < whole.size();) {
      uint32_t cut = scattered_ ? 1 : whole.size() - done;
      const Range to = resolve(step.to, done, &cut);
      const Range from = resolve(step.from, done, &cut);
      put(step, part(step.to, done, cut), first(to, cut), first(from, cut));
      steps.back().joined = step.joined || done != 0;
      done += cut;
    }
  }

  // Second rewrite: consecutive reduces that are one fold in the bracketing of the n-ary kernels
  // become one step.
  void fold_reduces(Bracketing bracketing) {
    std::vector<Resolved> folded;
    for (size_t i = 0; i < steps.size();) {
      size_t end = i;
      while (end < steps.size() && steps[end].verb == Verb::reduce) ++end;
      if (end - i > 1) {
        if (auto fold = one_fold(i, end, bracketing)) {
          folded.push_back(std::move(*fold));
          i = end;
          continue;
        }
      }
      for (end = std::max(end, i + 1); i < end; ++i) folded.push_back(std::move(steps[i]));
    }
    steps = std::move(folded);
  }

  // A message that is received only to be combined with one other operand is combined as it
  // arrives: the link's bounded buffers replace the scratch. The record then waits for earlier
  // sends of that operand. If those went to the same partner, which does the same, one slice of
  // buffer per stream is enough, and every link has that. Waiting for a third rank could close a
  // cycle in the wait-for graph.
  void fuse_receives() {
    for (size_t i = 0; i + 1 < steps.size(); ++i) {
      if (steps[i].verb == Verb::recv && steps[i].to.role == Role::scratch &&
          steps[i + 1].verb == Verb::reduce && steps[i + 1].operands.size() == 2) {
        fuse_receive(i);
      }
    }
  }

  // Output that no step wrote is copied from the input.
  void copy_rest() {
    const auto left = [&](uint32_t c) {
      return !written_[c] && goal_.gets(rank_, c) && goal_.has(rank_, c);
    };
    for (uint32_t begin = 0; begin < chunks_;) {
      uint32_t end = begin;
      while (end < chunks_ && left(end) && (end == begin || !scattered_)) ++end;
      if (end > begin) {
        steps.push_back(
            {Verb::copy, Side::left, 0, {Role::output, begin, end}, {Role::input, begin, end}, {}});
      }
      begin = std::max(end, begin + 1);
    }
  }

  uint32_t chunks() const { return chunks_; }
  uint32_t scratch_rows() const { return scratch_rows_; }
  std::vector<Resolved> steps;

 private:
  void fuse_receive(size_t at) {
    const Resolved& reduce = steps[at + 1];
    const bool left = reduce.operands[0] == steps[at].to;
    const bool right = reduce.operands[1] == steps[at].to;
    if (left == right || reduce.to.role != Role::output) return;
    for (size_t i = at; i-- > 0;) {
      const Resolved& before = steps[i];
      if (before.verb != Verb::send || before.from.role == Role::scratch) continue;
      if (before.from.begin >= reduce.to.end || reduce.to.begin >= before.from.end) continue;
      if (before.peer != steps[at].peer) return;
      break;
    }
    steps[at] = {Verb::recv_reduce, left ? Side::left : Side::right, steps[at].peer,
                 reduce.to,         reduce.operands[left ? 1 : 0],   {},
                 steps[at].joined};
    steps.erase(steps.begin() + ptrdiff_t(at) + 1);
  }

  static Range part(const Range& range, uint32_t from, uint32_t size) {
    return {range.role, range.begin + from, range.begin + from + size};
  }
  static Range first(const Range& range, uint32_t size) { return part(range, 0, size); }

  // Where `range` from `done` on is read: output, or input while it is unwritten. Lowers `*cut` to
  // the number of chunks for which that is the same.
  Range resolve(const Range& range, uint32_t done, uint32_t* cut) const {
    Range rest{range.role, range.begin + done, range.end};
    if (range.role != Role::output || range.size() == 0) return rest;
    const bool written = written_[rest.begin], gets = goal_.gets(rank_, rest.begin);
    uint32_t same = 1;
    while (same < *cut && written_[rest.begin + same] == written &&
           goal_.gets(rank_, rest.begin + same) == gets) {
      ++same;
    }
    *cut = std::min(*cut, same);
    if (!written) rest.role = Role::input;
    return rest;
  }

  void put(const Step& step, const Range& to, const Range& to_read, const Range& from) {
    switch (step.kind) {
      case Kind::send:
        steps.push_back({Verb::send, step.side, step.peer, {}, from, {}});
        return;
      case Kind::recv:
        steps.push_back({Verb::recv, step.side, step.peer, to, {}, {}});
        break;
      case Kind::recv_reduce:
        steps.push_back({Verb::recv_reduce, step.side, step.peer, to, to_read, {}});
        break;
      case Kind::copy:
        steps.push_back({Verb::copy, step.side, 0, to, from, {}});
        break;
      case Kind::reduce:
        put_reduce(step.side, to, to_read, from);
        break;
    }
    if (to.role == Role::output) {
      std::fill(written_.begin() + to.begin, written_.begin() + to.end, true);
    }
  }

  void put_reduce(Side side, const Range& to, const Range& to_read, const Range& from) {
    const bool left = side == Side::left;
    steps.push_back(
        {Verb::reduce, side, 0, to, {}, {left ? from : to_read, left ? to_read : from}});
  }

  // The reduces [begin, end) as one fold, if they are one in this bracketing and nothing reads
  // their intermediate results in scratch later.
  std::optional<Resolved> one_fold(size_t begin, size_t end, Bracketing bracketing) const {
    FoldedRanges ranges(end - begin);
    for (size_t i = begin; i < end; ++i) {
      const Resolved& step = steps[i];
      if (!ranges.combine(step.operands[0], step.operands[1], step.to)) return {};
    }
    const Range& to = steps[end - 1].to;
    for (size_t i = begin; i < end; ++i) {
      if (steps[i].to != to && !is_dead(steps[i].to, end)) return {};
    }
    Resolved fold{Verb::reduce, Side::left, 0, to, {}, {}};
    if (!ranges.fold_of(to, bracketing, &fold.operands)) return {};
    return fold;
  }

  // Whether nothing from step `from` on reads the range before it is written again.
  bool is_dead(const Range& range, size_t from) const {
    if (range.role != Role::scratch) return false;
    for (size_t i = from; i < steps.size(); ++i) {
      const auto reads = [&](const Range& read) { return read.overlaps(range); };
      const Resolved& step = steps[i];
      if (reads(step.from) || std::any_of(step.operands.begin(), step.operands.end(), reads)) {
        return false;
      }
      if (step.to == range) return true;
    }
    return true;
  }

  const Goal& goal_;
  uint32_t rank_;
  bool scattered_;
  uint32_t chunks_ = 1;
  uint32_t scratch_rows_ = 0;
  std::vector<bool> written_;
};

// Output that the rank does not get becomes working memory. Only the chunks that are used have a
// place in it, one after the other.
class WorkingMemory {
 public:
  WorkingMemory(const Goal& goal, uint32_t rank, uint32_t chunks)
      : goal_(goal), rank_(rank), used_(chunks, false) {}

  void use(const Range& range) {
    if (range.role != Role::output || range.size() == 0 || goal_.gets(rank_, range.begin)) return;
    std::fill(used_.begin() + range.begin, used_.begin() + range.end, true);
  }
  void place() {
    places_.resize(used_.size());
    for (uint32_t c = 0; c < used_.size(); ++c) {
      places_[c] = uint32_t(chunks_.size());
      if (used_[c]) chunks_.push_back(c);
    }
  }
  Operand operator()(const Range& range) const {
    if (range.role == Role::input) return {Memory::input, range.begin};
    if (range.role == Role::scratch) return {Memory::scratch, range.begin};
    if (range.size() == 0 || goal_.gets(rank_, range.begin)) return {Memory::output, range.begin};
    return {Memory::work, places_[range.begin]};
  }
  const std::vector<uint32_t>& chunks() const { return chunks_; }

 private:
  const Goal& goal_;
  uint32_t rank_;
  std::vector<bool> used_;
  std::vector<uint32_t> places_, chunks_;
};

// Third rewrite: what each record waits for in the other lane.
void add_record(const Resolved& step, const WorkingMemory& place, schedule::Hazards* hazards,
                Plan* plan) {
  const bool sends = step.verb == Verb::send;
  const Operand to = place(step.to), from = place(step.from);
  Record record;
  record.verb = step.verb;
  record.side = step.side;
  record.peer = step.peer;
  record.to_memory = to.memory;
  record.to = to.chunk;
  record.from_memory = from.memory;
  record.from = from.chunk;
  record.chunks = sends ? step.from.size() : step.to.size();

  hazards->begin(sends ? schedule::Lane::outgoing : schedule::Lane::incoming);
  if (step.from.size() != 0) hazards->reads(step.from);
  for (const Range& operand : step.operands) hazards->reads(operand);
  if (!sends) hazards->writes(step.to);
  record.wait = hazards->wait().steps;
  record.follow = hazards->wait().same_range ? 1 : 0;
  record.joined = step.joined ? 1 : 0;

  if (step.verb == Verb::reduce) {
    record.from = uint32_t(plan->operands.size());
    record.operands = uint32_t(step.operands.size());
    for (const Range& operand : step.operands) plan->operands.push_back(place(operand));
    plan->most_operands = std::max(plan->most_operands, record.operands);
  }
  (sends ? plan->outgoing : plan->incoming).push_back(record);
}

}  // namespace

Plan lower(const Algorithm& algorithm, const Shape& shape, Chunks chunks) {
  const Goal goal(algorithm.collective, shape.nranks, shape.root);
  Resolver resolver(goal, shape.rank, chunks != Chunks::together);
  algorithm.emit(shape, resolver);
  resolver.fold_reduces(shape.bracketing);
  resolver.fuse_receives();
  if (chunks != Chunks::out_of_reach) resolver.copy_rest();

  schedule::Layout layout(resolver.chunks(), resolver.scratch_rows());
  WorkingMemory work(goal, shape.rank, resolver.chunks());
  for (const Resolved& step : resolver.steps) {
    for (const Range* range : {&step.to, &step.from}) {
      layout.use(*range);
      work.use(*range);
    }
    for (const Range& operand : step.operands) {
      layout.use(operand);
      work.use(operand);
    }
  }
  layout.place();
  work.place();

  Plan plan;
  plan.chunks = resolver.chunks();
  for (const auto& row : layout.rows()) plan.rows.push_back({row.begin, row.end});
  plan.work = work.chunks();
  schedule::Hazards hazards(layout);
  for (const Resolved& step : resolver.steps) add_record(step, work, &hazards, &plan);
  return plan;
}

}  // namespace tutti::plan
