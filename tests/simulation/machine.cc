#include "tests/simulation/machine.h"
#include "algorithms/registry.h"

#include <algorithm>
#include <cstring>

#include "tests/support/slot_parts.h"

namespace tutti::simulation {

namespace {

constexpr uint64_t jump_ns = 10'000'000;
constexpr uint32_t most_jumps = 60;
constexpr uint32_t most_moves = 100'000;  // of a rank in a call

uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 32);
}

// x -> a x + b modulo 2^32, composed: associative, not commutative, exact; `a` is odd.
uint64_t compose(uint64_t first, uint64_t second) {
  const auto a = uint32_t(first), b = uint32_t(first >> 32);
  const auto c = uint32_t(second), d = uint32_t(second >> 32);
  return uint64_t(a * c) | uint64_t(b * c + d) << 32;
}
uint64_t element(const void* vector, size_t i) {
  uint64_t value;
  std::memcpy(&value, static_cast<const std::byte*>(vector) + 8 * i, 8);
  return value;
}
void put(void* vector, size_t i, uint64_t value) {
  std::memcpy(static_cast<std::byte*>(vector) + 8 * i, &value, 8);
}
void compose_all(void* out, const void* const* operands, size_t n, size_t elements) {
  for (size_t i = 0; i < elements; ++i) {
    uint64_t total = element(operands[0], i);
    for (size_t k = 1; k < n; ++k) total = compose(total, element(operands[k], i));
    put(out, i, total);
  }
}
void compose2(void* out, const void* a, const void* b, size_t elements) {
  for (size_t i = 0; i < elements; ++i) put(out, i, compose(element(a, i), element(b, i)));
}
void compose2_twice(void* out, void* other, const void* a, const void* b, size_t elements, Stores) {
  for (size_t i = 0; i < elements; ++i) {
    const uint64_t value = compose(element(a, i), element(b, i));
    put(out, i, value);
    put(other, i, value);
  }
}

uint64_t value_of(uint32_t call, uint32_t rank, size_t i) {
  return mix(mix(mix(1, call), rank), i) | 1;
}

bool has_parts(Collective collective) {
  return collective == Collective::scatter || collective == Collective::alltoall ||
         collective == Collective::reduce_scatter;
}
bool gets_blocks(Collective collective) {
  return collective == Collective::allgather || collective == Collective::gather ||
         collective == Collective::alltoall;
}

}  // namespace

std::string CallSpec::describe() const {
  static constexpr const char* paths[] = {"schedule",        "one-shot",  "one-shot or direct",
                                          "sliced one-shot", "two-level", "two-shot",
                                          "one-hop"};
  return std::string(paths[size_t(path)]) + " " + collective_name(collective) + " of " +
         std::to_string(count * 8) + " bytes" + (reached != 0 ? ", reached" : "") +
         (narrow != 0 ? ", narrow" : "") + (copies ? ", copied" : "") + (staged ? ", staged" : "") +
         (own_first ? ", own result first" : "") + (one_shot != 0 ? ", one shot" : "") +
         (whole ? ", whole slices" : "") + (past != 0 ? ", past caches" : "") +
         (in_place ? ", in place" : "");
}

struct Machine::Rank {
  uint32_t number = 0;
  std::unique_ptr<slots::SlotLink> link;
  shared::Regions regions{shared::Regions::Reach::none};
  CallProtocols protocols;
  CallPlan call_plan;
  std::byte *input = nullptr, *output = nullptr;

  uint32_t call = 0;
  uint64_t unheard = 0;  // hash of calls that only later digests check
  uint64_t own_accesses = 0;
  bool ended = true, blocked = false, aborted = false, looks = false, in_fault = false;
  bool leaving = false;              // in order; no fault strikes it any more
  bool missed = false;               // a watched word has changed since the look began
  uint64_t history = 0;              // digest of everything that it has seen
  uint64_t look = 0, last_look = 0;  // digests of what this and the previous look have seen
  std::vector<const void*> watched;  // words loaded since it last moved
  // Vectors of others that it may have read since its last access to a flag.
  std::vector<std::pair<const void*, size_t>> reading;
  Status failure;
};

namespace {

// The deaths of ranks, as links see them.
class DeadRanks final : public slots::DeathWatch {
 public:
  explicit DeadRanks(std::shared_ptr<std::array<bool, most_ranks>> dead) : dead_(std::move(dead)) {}
  bool dead(uint32_t local) override { return (*dead_)[local]; }

 private:
  std::shared_ptr<std::array<bool, most_ranks>> dead_;
};

}  // namespace

Machine::Machine(const MachineSettings& settings)
    : settings_(settings), dead_(std::make_shared<std::array<bool, most_ranks>>()) {
  geometry_.nranks = settings.nranks;
  geometry_.slots = settings.slots;
  geometry_.slice_bytes = settings.slot_bytes;
  geometry_.flag_lines = slots::Geometry::cell_flag_lines;
  geometry_.cell_bytes =
      settings.cell_bytes + settings.tuning.ring_bytes + 2 * settings.tuning.resident_bytes;
  vector_bytes_ = 16 << 10;
  total_bytes_ = geometry_.total_bytes() + 2 * settings.nranks * vector_bytes_;
  if (!map_private(total_bytes_, &memory_).ok()) std::abort();
}

Machine::~Machine() { slots::observer = nullptr; }

void Machine::make_ranks() {
  ranks_.clear();
  std::memset(memory_.base, 0, geometry_.total_bytes());
  dead_->fill(false);
  for (uint32_t r = 0; r < settings_.nranks; ++r) {
    auto rank = std::make_unique<Rank>();
    rank->number = r;
    rank->link = std::make_unique<slots::SlotLink>(testing::slot_parts(
        memory_, geometry_, settings_.nranks, r, std::make_unique<DeadRanks>(dead_)));
    rank->protocols.open(rank->link.get(), rank->link.get());
    rank->protocols.schedules().open(r, settings_.nranks, 2, false, settings_.tuning);
    rank->protocols.share(std::make_unique<shared::Protocols>(
        *rank->link, rank->regions, Use::never, settings_.single_copy, 2, settings_.tuning));
    rank->input = memory_.base + geometry_.total_bytes() + 2 * r * vector_bytes_;
    rank->output = rank->input + vector_bytes_;
    ranks_.push_back(std::move(rank));
  }
}

std::string Machine::run(const std::vector<CallSpec>& calls, Schedule& schedule) {
  slots::observer = nullptr;
  make_ranks();
  calls_ = &calls;
  schedule_ = &schedule;
  stopping_ = false;
  wrong_.clear();
  now_ns_ = 1;
  jumps_ = 0;
  const auto* const staging =
      reinterpret_cast<const std::byte*>(slots::Segment(memory_.base, geometry_).slot_lines(0, 0));
  flags_begin_ = &slots::Segment(memory_.base, geometry_).credit(0, 0);
  model_.reset(memory_.base, total_bytes_, size_t(staging - memory_.base), geometry_.total_bytes(),
               settings_.nranks, settings_.weak);
  for (uint32_t r = 0; r < settings_.nranks; ++r) {
    ranks_[r]->ended = false;
    fibers_.begin(r, [this, r] { return body(r); });
  }
  slots::observer = this;
  for (int next = next_rank(); next >= 0; next = next_rank()) fibers_.run(size_t(next));
  // Ranks that still run end where they are.
  stopping_ = true;
  for (uint32_t r = 0; r < settings_.nranks; ++r) {
    if (!ranks_[r]->ended) fibers_.run(r);
  }
  slots::observer = nullptr;
  return wrong_;
}

int Machine::body(uint32_t number) {
  Rank& rank = *ranks_[number];
  try {
    for (uint32_t call = 1; call <= calls_->size(); ++call) {
      if (!make_call(rank, call, (*calls_)[call - 1])) break;
    }
    rank.leaving = true;
    rank.link->leave(false);
  } catch (const Killed&) {
  }
  rank.ended = true;
  return stopping_ ? -1 : next_rank();
}

bool Machine::make_call(Rank& rank, uint32_t number, CallSpec spec) {
  rank.call = number;
  if (int(rank.number) == strays_ && number == stray_call_) stray(&spec);
  const uint64_t n = settings_.nranks;
  const uint64_t in = spec.count * (has_parts(spec.collective) ? n : 1);
  const uint64_t out = spec.count * (gets_blocks(spec.collective) ? n : 1);
  std::byte* const output = spec.in_place ? rank.input : rank.output;
  writes(rank.input, in * 8);
  for (size_t i = 0; i < in; ++i) put(rank.input, i, value_of(number, rank.number, i));
  if (!spec.in_place) {
    writes(output, out * 8);
    std::memset(output, 0xa5, out * 8);
  }
  CallMark mark;
  mark.epoch = number;
  mark.signature.count = spec.count;
  mark.signature.collective = spec.collective;
  mark.signature.root = int32_t(spec.root);
  mark.signature.flags = uint8_t(spec.path);
  const uint64_t hash = signature_hash(mark.signature);
  mark.digest = call_digest(mark.epoch, hash ^ rank.unheard);
  if (ends_unheard(spec.collective, spec.count == 0, false)) {
    rank.unheard = history_after(rank.unheard, mark.epoch, hash);
  }
  rank.link->begin(mark);
  if (spec.count == 0) return true;
  prepare(rank, spec);
  using Reach = shared::Regions::Reach;
  // Of threads all reach what one-hop shows, if any do.
  const bool reached = settings_.processes || spec.path != Path::one_hop
                           ? (spec.reached >> rank.number & 1) != 0
                           : spec.reached != 0;
  if (settings_.processes) {
    rank.regions = shared::Regions(Reach::host);
    std::vector<shared::Regions::Part> parts;
    for (const auto& each : ranks_) parts.push_back({{nullptr, each->input}, 2 * vector_bytes_});
    // A rank whose vectors are not reached has none in this memory, but sees the others'.
    if (!reached) parts[rank.number].mapping.base = memory_.base;
    if (!reached) parts[rank.number].bytes = 0;
    rank.regions.add(std::move(parts), rank.number);
  } else {
    rank.regions = shared::Regions(reached ? Reach::process : Reach::none);
  }
  Call call;
  call.key = rank.call_plan.key;
  call.input = rank.input;
  call.output = output;
  const bool in_lines = spec.verdict && !ends_unheard(spec.collective, false, false);
  const bool after = spec.verdict && !in_lines && spec.path == Path::schedule;
  if (in_lines) tell_verdict(rank);
  if (after) tell_verdict_after(rank);
  rank.protocols.with(rank.call_plan.choice.path,
                      [&](auto&& protocol, auto&) { start(protocol, rank.call_plan, call, mark); });
  rank.failure = wait_for_end(rank);
  if (rank.failure.ok()) {
    check_result(rank, number, spec);
    check_all_alike(rank, number, spec);
    if (in_lines) check_verdicts(rank);
    if (after) check_verdicts_told_after(rank);
    return !rank.aborted;
  }
  rank.protocols.with(spec.path, [&](auto&& protocol, auto&) { protocol.withdraw(); });
  if (rank.failure.text().empty()) rank.failure = rank.link->inspect(now_ns_);  // the cause
  rank.leaving = true;
  rank.link->abort(rank.failure);
  // The rank's memory is its own again: no other rank may access it any more.
  if (!settings_.processes && reached) {
    writes(rank.input, in * 8);
    writes(output, out * 8);
  }
  spoil(rank, rank.input, in * 8);
  spoil(rank, output, out * 8);
  judge_failure(rank);
  return false;
}

// By the same way, of which only one-hop has no longest vector.
void Machine::stray(CallSpec* spec) const {
  if (stray_ == Stray::root && is_rooted(spec->collective)) {
    const bool is_root = int(spec->root) == strays_;
    spec->root = is_root ? (spec->root + 1) % settings_.nranks : uint32_t(strays_);
    return;
  }
  const bool one_hop = spec->path == Path::one_hop;
  if (stray_ == Stray::empty && one_hop) {
    spec->count = 0;
  } else {
    spec->count += spec->count <= 1 || (stray_ == Stray::more && one_hop) ? 1 : -1;
  }
}

void Machine::tell_verdict(Rank& rank) {
  rank.protocols.shared()->verdicts.tell(uint16_t(rank.call),
                                         value_of(rank.call, rank.number, 0) >> 16);
}

void Machine::tell_verdict_after(Rank& rank) {
  Schedules& schedules = rank.protocols.schedules();
  CachedPlan* const allgather =
      schedules.plan_for(*find_algorithm(Collective::allgather, "bruck"), 0, plan::Chunks::together,
                         schedule::Bracketing::left);
  schedules.reserve_words(*allgather);
  schedules.tell_after(*allgather, value_of(rank.call, rank.number, 0));
}

void Machine::check_verdicts_told_after(Rank& rank) {
  const std::span<const uint64_t> heard = rank.protocols.schedules().heard();
  for (uint32_t peer = 0; peer < settings_.nranks; ++peer) {
    if (heard[peer] == value_of(rank.call, peer, 0)) continue;
    found("rank " + std::to_string(rank.number) + ", call " + std::to_string(rank.call) +
          ", has not heard what rank " + std::to_string(peer) + " told after it");
  }
}

// All ranks have told theirs when they entered the call, which has ended.
void Machine::check_verdicts(Rank& rank) {
  for (uint32_t peer = 0; peer < settings_.nranks; ++peer) {
    uint64_t verdict = 0;
    if (!rank.protocols.shared()->verdicts.heard(peer, uint16_t(rank.call), &verdict) ||
        verdict != value_of(rank.call, peer, 0) >> 16) {
      found("rank " + std::to_string(rank.number) + ", call " + std::to_string(rank.call) +
            ", has not heard the verdict of rank " + std::to_string(peer));
    }
  }
}

void Machine::judge_failure(const Rank& rank) {
  const bool right = dies_ >= 0       ? rank.failure.rank() == dies_
                     : aborts_ >= 0   ? rank.failure.code() == TUTTI_ABORTED
                     : strays_ >= 0   ? rank.failure.code() == TUTTI_MISMATCH
                     : gives_up_ >= 0 ? rank.failure.code() == TUTTI_TIMEOUT
                                      : false;
  if (right) return;
  found("rank " + std::to_string(rank.number) + ", call " + std::to_string(rank.call) +
        ", ends with " + std::to_string(rank.failure.code()) + ": " + rank.failure.text());
}

void Machine::prepare(Rank& rank, const CallSpec& spec) {
  CallPlan& call_plan = rank.call_plan;
  call_plan.key = {};
  call_plan.key.count = spec.count;
  call_plan.key.root = int32_t(spec.root);
  call_plan.key.collective = spec.collective;
  call_plan.key.dtype = TUTTI_UINT64;
  call_plan.choice.path = spec.path;
  call_plan.element_size = 8;
  call_plan.kernels = {};
  call_plan.kernels.reduce_fn = compose_all;
  call_plan.kernels.reduce2_fn = compose2;
  call_plan.kernels.reduce2_twice_fn = compose2_twice;
  call_plan.manner.single_copy = spec.copies;
  call_plan.manner.staged = spec.staged;
  call_plan.manner.own_first = spec.own_first;
  call_plan.manner.one_shot = (spec.one_shot >> rank.number & 1) != 0;
  call_plan.manner.narrow = (spec.narrow >> rank.number & 1) != 0;
  if (spec.path == Path::one_hop || spec.path == Path::sliced_one_shot) {
    call_plan.one_hop = shared::OneHopShape(spec.collective, spec.root, spec.count, 8,
                                            settings_.nranks, rank.number, settings_.tuning);
    call_plan.one_hop->vary(spec.whole, (spec.past >> rank.number & 1) != 0);
  }
  if (spec.path == Path::schedule) {
    call_plan.choice.algorithm = find_algorithm(spec.collective, spec.algorithm);
    call_plan.plan =
        rank.protocols.schedules().plan_for(*call_plan.choice.algorithm, int(spec.root),
                                            plan::Chunks::together, schedule::Bracketing::left);
  }
}

Status Machine::wait_for_end(Rank& rank) {
  return rank.protocols.with(rank.call_plan.choice.path,
                             [&](auto&& protocol, auto& link) -> Status {
                               for (uint32_t moves = 0; moves < most_moves; ++moves) {
                                 rank.watched.clear();
                                 rank.missed = false;
                                 rank.look = 0;
                                 const uint64_t history = rank.history;
                                 if (int(rank.number) == gives_up_ && moves_left_-- == 0)
                                   return {TUTTI_TIMEOUT, "limit"};
                                 const bool moved = protocol.advance();
                                 if (protocol.done()) return protocol.failure();
                                 if (moved) {
                                   jumps_ = 0;
                                   rank.last_look = 0;
                                   continue;
                                 }
                                 // A look that sees the same as the previous one changes nothing.
                                 if (rank.look == rank.last_look) rank.history = history;
                                 rank.last_look = rank.look;
                                 wait_for_change(rank);
                                 if (!rank.looks && !schedule_->looks()) continue;
                                 rank.looks = false;
                                 if (Status why = link.inspect(now_ns_); !why.ok()) return why;
                               }
                               found("rank " + std::to_string(rank.number) +
                                     " moves for ever in call " + std::to_string(rank.call));
                               return {};
                             });
}

void Machine::check_result(Rank& rank, uint32_t number, const CallSpec& spec) {
  const uint32_t n = settings_.nranks, self = rank.number;
  const Goal goal(spec.collective, n, spec.root);
  const std::byte* const output = spec.in_place ? rank.input : rank.output;
  const uint64_t in_at = has_parts(spec.collective) ? self * spec.count : 0;
  const auto check = [&](size_t i, uint64_t expected) {
    if (element(output, i) == expected) return;
    found("rank " + std::to_string(self) + ", call " + std::to_string(number) + ", " +
          spec.describe() + ": OK, but element " + std::to_string(i) + " is wrong");
  };
  if (gets_blocks(spec.collective)) {
    if (spec.collective == Collective::gather && self != spec.root) return;
    reads(output, spec.count * n * 8);
    for (uint32_t source = 0; source < n; ++source) {
      for (size_t i = 0; i < spec.count; ++i) {
        check(source * spec.count + i, value_of(number, source, in_at + i));
      }
    }
  } else {
    const uint32_t block = goal.block(self, self);
    if (!goal.gets(self, block)) return;
    reads(output, spec.count * 8);
    for (size_t i = 0; i < spec.count; ++i) {
      bool first = true;
      uint64_t expected = 0;
      for (uint32_t source = 0; source < n; ++source) {
        if (!goal.combines(source, self, block)) continue;
        const uint64_t value = value_of(number, source, in_at + i);
        expected = first ? value : compose(expected, value);
        first = false;
      }
      if (!first) check(i, expected);
    }
  }
  ++right_;
}

// A call in which ranks hear from all others does not end OK if a rank has made another call there,
// or before.
void Machine::check_all_alike(const Rank& rank, uint32_t number, const CallSpec& spec) {
  if (strays_ < 0 || number < stray_call_ || ends_unheard(spec.collective, false, false)) return;
  found("rank " + std::to_string(rank.number) + ", call " + std::to_string(number) + ", " +
        spec.describe() + ": OK, but rank " + std::to_string(strays_) + " has made another call " +
        std::to_string(stray_call_));
}

// ---------------------------------------------------------------- who moves

uint64_t Machine::state() const {
  uint64_t hash = 7;
  for (const auto& rank : ranks_) {
    hash = mix(hash, rank->history * 4 + rank->blocked * 2 + rank->ended);
  }
  return hash;
}

int Machine::next_rank() {
  if (stopping_ || schedule_->stop()) return -1;
  for (;;) {
    ready_.clear();
    bool alive = false;
    for (const auto& rank : ranks_) {
      alive = alive || !rank->ended;
      if (!rank->ended && !rank->blocked) ready_.push_back(rank->number);
    }
    if (!alive) return -1;
    if (!ready_.empty()) break;
    if (!time_passes()) return -1;
  }
  const uint32_t chosen = schedule_->choose_rank(ready_, fibers_.current(), state());
  return schedule_->stop() ? -1 : int(ready_[chosen]);
}

// All ranks wait: they look for the cause (a dead peer, an abort).
bool Machine::time_passes() {
  now_ns_ += jump_ns;
  if (++jumps_ > most_jumps) {
    slots::observer = nullptr;  // asking is no move
    std::string text = "nobody moves:";
    for (const auto& rank : ranks_) {
      if (rank->ended) continue;
      const int peer = rank->protocols.with(
          rank->call_plan.choice.path, [](auto&& protocol, auto&) { return protocol.waits_for(); });
      text += " rank " + std::to_string(rank->number) + " waits for " + std::to_string(peer) +
              " in call " + std::to_string(rank->call) + ";";
    }
    slots::observer = this;
    found(text);
    return false;
  }
  for (const auto& rank : ranks_) {
    rank->looks = true;
    rank->blocked = false;
  }
  return true;
}

void Machine::found(const std::string& text) {
  if (wrong_.empty()) wrong_ = text;
  stopping_ = true;
}

// Waits until one of the words that the rank has loaded changes.
void Machine::wait_for_change(Rank& rank) {
  if (stopping_) throw Killed();
  const bool stale =
      settings_.weak && std::any_of(rank.watched.begin(), rank.watched.end(), [&](const void* w) {
        return !model_.has_seen_latest(rank.number, w);
      });
  const bool has_limit = int(rank.number) == gives_up_;  // it may pass while nothing changes
  if (!stale && !rank.looks && !rank.missed && !has_limit) rank.blocked = true;
  fibers_.switch_to(next_rank());
  if (stopping_) throw Killed();
}

void Machine::changed(const void* word, const Rank& by) {
  for (const auto& rank : ranks_) {
    if (rank.get() == &by) continue;
    const auto& watched = rank->watched;
    if (std::find(watched.begin(), watched.end(), word) == watched.end()) continue;
    rank->blocked = false;
    rank->missed = true;  // by a look in progress
  }
}

// ---------------------------------------------------------------- accesses

void Machine::step(const void* word) {
  Rank& rank = self();
  rank.reading.clear();
  if (!may_switch(rank)) return;
  ++accesses_;
  if (!rank.leaving && rank.own_accesses++ == fault_at_) {
    if (int(rank.number) == dies_) {
      (*dead_)[rank.number] = true;
      throw Killed();
    }
    if (int(rank.number) == aborts_) {
      rank.in_fault = true;
      rank.link->abort({TUTTI_ABORTED, "asked for", aborts_});
      rank.in_fault = false;
      rank.aborted = true;
    }
  }
  if (!schedule_->every_access() && word < flags_begin_) return;
  let_others_move(rank);
}

bool Machine::may_switch(const Rank& rank) const {
  if (rank.in_fault || std::uncaught_exceptions() > 0) return false;
  if (rank.leaving && stopping_) return false;
  if (stopping_) throw Killed();
  return true;
}

void Machine::let_others_move(const Rank& rank) {
  fibers_.switch_to(next_rank());
  if (stopping_ && !rank.leaving) throw Killed();
}

// Between a look at a flag and a read of the vector that it has announced, its owner may give up.
void Machine::step_before_read(const void* at, size_t bytes) {
  Rank& rank = self();
  const auto* const byte = static_cast<const std::byte*>(at);
  const std::byte* const vectors = memory_.base + geometry_.total_bytes();
  const bool is_vector = byte >= vectors && byte < memory_.base + total_bytes_;
  const bool is_own = byte >= rank.input && byte < rank.input + 2 * vector_bytes_;
  if (!is_vector || is_own || !schedule_->every_access() || !may_switch(rank)) return;
  rank.reading.emplace_back(at, bytes);
  let_others_move(rank);
}

uint64_t Machine::load(const void* word, uint64_t latest, std::memory_order order) {
  Rank& rank = self();
  // A compare-exchange that fails has read what the word holds; no other load has this order.
  const bool compares = order == std::memory_order_seq_cst;
  const uint64_t value = model_.load(rank.number, word, latest, order, [&](uint32_t options) {
    return options <= 1 || compares ? 0 : schedule_->choose_load(options);
  });
  rank.history = mix(rank.history, value);
  rank.look = mix(rank.look, value);
  rank.watched.push_back(word);
  return value;
}

void Machine::store(const void* word, uint64_t before, uint64_t value, std::memory_order order) {
  Rank& rank = self();
  model_.store(rank.number, word, before, value, order);
  rank.history = mix(rank.history, 1);
  changed(word, rank);
}

void Machine::exchanged(const void* word, uint64_t before, uint64_t value) {
  Rank& rank = self();
  model_.exchange(rank.number, word, before, value);
  rank.history = mix(rank.history, before);
  changed(word, rank);
}

void Machine::fence(std::memory_order order) {
  const Rank& rank = self();
  // Other ranks may have moved since it said that it would read them, before it did.
  for (const auto& [at, bytes] : rank.reading) model_.read_racing(rank.number, at, bytes);
  model_.fence(rank.number, order);
}

void Machine::reads(const void* at, size_t bytes) {
  step_before_read(at, bytes);
  const Rank& rank = self();
  if (std::string wrong = model_.read(rank.number, rank.call, at, bytes); !wrong.empty()) {
    found(wrong + " in " + (*calls_)[rank.call - 1].describe());
  }
}

void Machine::writes(const void* at, size_t bytes) {
  const Rank& rank = self();
  if (std::string wrong = model_.write(rank.number, rank.call, at, bytes); !wrong.empty()) {
    found(wrong + " in " + (*calls_)[rank.call - 1].describe());
  }
}

void Machine::reads_racing(const void* at, size_t bytes) {
  step_before_read(at, bytes);
  model_.read_racing(self().number, at, bytes);
}

void Machine::spoil(const Rank& rank, std::byte* at, size_t bytes) {
  model_.write_racing(rank.number, at, bytes);
  std::memset(at, 0x5a, bytes);
}

// ---------------------------------------------------------------- schedules

RandomSchedule::RandomSchedule(uint64_t seed) : random_(seed) {
  draw();
  static constexpr uint32_t kinds[] = {0, 4, 12, 15};
  stickiness_ = kinds[draw() % 4];
}

uint64_t RandomSchedule::draw() {  // splitmix64
  uint64_t z = random_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint32_t RandomSchedule::choose_load(uint32_t options) {
  const uint64_t drawn = draw();
  return drawn % 4 != 0 ? 0 : uint32_t((drawn >> 8) % options);
}

uint32_t RandomSchedule::choose_rank(const std::vector<uint32_t>& ranks, int current, uint64_t) {
  const uint64_t drawn = draw();
  if (sleeps_ == 0 && drawn % 64 == 0) {
    sleeper_ = int(ranks[(drawn >> 8) % ranks.size()]);
    sleeps_ = 1u << ((drawn >> 16) % 9);
  }
  if (sleeps_ != 0) --sleeps_;
  if ((drawn >> 32) % 16 < stickiness_ && current >= 0 && (sleeps_ == 0 || current != sleeper_)) {
    const auto found = std::find(ranks.begin(), ranks.end(), uint32_t(current));
    if (found != ranks.end()) return uint32_t(found - ranks.begin());
  }
  auto chosen = uint32_t((drawn >> 40) % ranks.size());
  if (sleeps_ != 0 && int(ranks[chosen]) == sleeper_) chosen = (chosen + 1) % ranks.size();
  return chosen;
}

uint32_t EverySchedule::choose_rank(const std::vector<uint32_t>& ranks, int, uint64_t state) {
  if (at_ < path_.size()) return path_[at_++].choice;
  if (!seen_.insert(state).second) {
    stop_ = true;
    return 0;
  }
  path_.push_back({0, uint32_t(ranks.size())});
  ++at_;
  return 0;
}

bool EverySchedule::next() {
  if (runs_++ != 0) {
    while (!path_.empty() && path_.back().choice + 1 == path_.back().options) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().choice;
  }
  at_ = 0;
  stop_ = false;
  return true;
}

}  // namespace tutti::simulation
