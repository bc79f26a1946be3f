#include "tests/simulation/memory_model.h"

#include <algorithm>

namespace tutti::simulation {

namespace {

constexpr size_t granule_bytes = 8;

bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_seq_cst ||
         order == std::memory_order_acq_rel;
}
bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_seq_cst ||
         order == std::memory_order_acq_rel;
}

}  // namespace

void MemoryModel::reset(const void* base, size_t bytes, size_t staging_begin, size_t staging_end,
                        uint32_t nranks, bool weak) {
  base_ = reinterpret_cast<uintptr_t>(base);
  bytes_ = bytes;
  staging_begin_ = staging_begin;
  staging_end_ = staging_end;
  nranks_ = nranks;
  weak_ = weak;
  ++walk_;
  words_used_ = 0;
  words_.resize(std::max(words_.size(), bytes / granule_bytes));
  plain_.resize(words_.size());
  for (uint32_t r = 0; r < nranks; ++r) {
    ranks_[r] = {};
    ranks_[r].now.clock[r] = 1;
  }
  sequential_ = {};
}

// No two words share eight bytes.
MemoryModel::Word& MemoryModel::word_of(const void* word, uint64_t initial) {
  Word& found = words_[(reinterpret_cast<uintptr_t>(word) - base_) / granule_bytes];
  if (found.walk != walk_) {
    found.walk = walk_;
    found.index = words_used_++;
    found.first = 0;
    found.messages.clear();
    found.messages.push_back({initial, {}});
  }
  return found;
}

void MemoryModel::join(View* to, const View& from) {
  for (uint32_t r = 0; r < most_ranks; ++r) to->clock[r] = std::max(to->clock[r], from.clock[r]);
  if (to->seen.size() < from.seen.size()) to->seen.resize(from.seen.size());
  for (size_t i = 0; i < from.seen.size(); ++i) to->seen[i] = std::max(to->seen[i], from.seen[i]);
}

uint64_t MemoryModel::load(uint32_t rank, const void* word, uint64_t latest,
                           std::memory_order order, const Choose& choose) {
  Word& of = word_of(word, latest);
  Rank& self = ranks_[rank];
  auto chosen = uint32_t(of.messages.size()) - 1;
  if (weak_) {
    if (self.now.seen.size() <= of.index) self.now.seen.resize(of.index + 1);
    const uint32_t oldest = std::max(self.now.seen[of.index], of.first) - of.first;
    chosen -= choose(chosen - oldest + 1);
    self.now.seen[of.index] = of.first + chosen;
  }
  const Message& message = of.messages[chosen];
  join(acquires(order) ? &self.now : &self.acquirable, message.view);
  return chosen + 1 == of.messages.size() ? latest : message.value;
}

void MemoryModel::append(Word& word, uint64_t value, const View& view, uint32_t rank) {
  if (weak_) {
    word.messages.push_back({value, view});
    const uint32_t time = word.first + uint32_t(word.messages.size()) - 1;
    for (View* const seen : {&ranks_[rank].now, &word.messages.back().view}) {
      if (seen->seen.size() <= word.index) seen->seen.resize(word.index + 1);
      seen->seen[word.index] = time;
    }
  } else {
    word.messages.back() = {value, view};
  }
}

void MemoryModel::store(uint32_t rank, const void* word, uint64_t before, uint64_t value,
                        std::memory_order order) {
  Word& of = word_of(word, before);
  Rank& self = ranks_[rank];
  append(of, value, releases(order) ? self.now : self.released, rank);
  if (releases(order)) ++self.now.clock[rank];
}

void MemoryModel::exchange(uint32_t rank, const void* word, uint64_t before, uint64_t value) {
  Word& of = word_of(word, before);
  Rank& self = ranks_[rank];
  join(&self.now, of.messages.back().view);
  append(of, value, self.now, rank);
  ++self.now.clock[rank];
}

void MemoryModel::fence(uint32_t rank, std::memory_order order) {
  Rank& self = ranks_[rank];
  if (acquires(order)) join(&self.now, self.acquirable);
  if (order == std::memory_order_seq_cst) {
    // They order what ranks see of words, not accesses to plain bytes.
    View& now = self.now;
    now.seen.resize(std::max(now.seen.size(), sequential_.seen.size()));
    for (size_t i = 0; i < sequential_.seen.size(); ++i) {
      now.seen[i] = std::max(now.seen[i], sequential_.seen[i]);
    }
    sequential_.seen = now.seen;
  }
  if (releases(order)) {
    self.released = self.now;
    ++self.now.clock[rank];
  }
}

bool MemoryModel::has_seen_latest(uint32_t rank, const void* word) {
  if (!weak_) return true;
  const Word& of = words_[(reinterpret_cast<uintptr_t>(word) - base_) / granule_bytes];
  if (of.walk != walk_) return true;
  const std::vector<uint32_t>& seen = ranks_[rank].now.seen;
  const uint32_t mine = of.index < seen.size() ? seen[of.index] : 0;
  return mine + 1 >= of.first + of.messages.size();
}

MemoryModel::Plain& MemoryModel::plain_at(size_t granule) {
  Plain& plain = plain_[granule];
  if (plain.walk != walk_) {
    plain = {};
    plain.walk = walk_;
  }
  return plain;
}

std::string MemoryModel::describe(const char* what, uint32_t rank, uint32_t call, size_t granule,
                                  const Plain& plain, uint32_t other) const {
  return "rank " + std::to_string(rank) + ", call " + std::to_string(call) + ": " + what +
         " byte " + std::to_string(granule * granule_bytes) + ", rank " + std::to_string(other) +
         " (written in call " + std::to_string(plain.write_call) + ")";
}

std::pair<size_t, size_t> MemoryModel::granules(const void* at, size_t bytes) const {
  const size_t begin = reinterpret_cast<uintptr_t>(at) - base_;
  if (begin >= bytes_ || bytes == 0) return {0, 0};
  return {begin / granule_bytes, (begin + bytes - 1) / granule_bytes + 1};
}

std::string MemoryModel::read(uint32_t rank, uint32_t call, const void* at, size_t bytes) {
  const Clock& clock = ranks_[rank].now.clock;
  const auto [begin, end] = granules(at, bytes);
  for (size_t i = begin; i < end; ++i) {
    Plain& plain = plain_at(i);
    if (plain.write_clock > clock[plain.writer] && plain.writer != rank) {
      return describe("reads what was written by nobody it has heard of,", rank, call, i, plain,
                      plain.writer);
    }
    if (plain.racing_writer != 0) {
      join(&ranks_[rank].acquirable, ranks_[plain.racing_writer - 1].released);
    }
    const size_t byte = i * granule_bytes;
    const bool staged = byte >= staging_begin_ && byte < staging_end_ && plain.write_clock != 0;
    if (staged && plain.write_call != call) {
      return describe("reads what is of another call,", rank, call, i, plain, plain.writer);
    }
    plain.reads[rank] = clock[rank];
  }
  return {};
}

std::string MemoryModel::write(uint32_t rank, uint32_t call, const void* at, size_t bytes) {
  const Clock& clock = ranks_[rank].now.clock;
  const auto [begin, end] = granules(at, bytes);
  for (size_t i = begin; i < end; ++i) {
    Plain& plain = plain_at(i);
    if (plain.write_clock > clock[plain.writer] && plain.writer != rank) {
      return describe("writes over what it has not heard of, of", rank, call, i, plain,
                      plain.writer);
    }
    for (uint32_t r = 0; r < nranks_; ++r) {
      if (r != rank && plain.reads[r] > clock[r]) {
        return describe("writes what may still be read by", rank, call, i, plain, r);
      }
    }
    plain.racing_writer = 0;
    plain.write_clock = clock[rank];
    plain.write_call = call;
    plain.writer = rank;
    plain.reads = {};
  }
  return {};
}

void MemoryModel::write_racing(uint32_t rank, const void* at, size_t bytes) {
  const size_t begin = reinterpret_cast<uintptr_t>(at) - base_;
  for (size_t i = begin / granule_bytes; i < (begin + bytes) / granule_bytes; ++i) {
    plain_at(i).racing_writer = rank + 1;
  }
}

// A rank that sees the write and then executes an acquire fence also sees everything before the
// writer's release fence.
void MemoryModel::read_racing(uint32_t rank, const void* at, size_t bytes) {
  const size_t begin = reinterpret_cast<uintptr_t>(at) - base_;
  if (begin >= bytes_) return;
  for (size_t i = begin / granule_bytes; i < (begin + bytes) / granule_bytes; ++i) {
    const Plain& plain = plain_at(i);
    if (plain.racing_writer == 0) continue;
    join(&ranks_[rank].acquirable, ranks_[plain.racing_writer - 1].released);
  }
}

}  // namespace tutti::simulation
