// What C++ promises of memory, as a machine: a word has a history of stores; a load may give any of
// them that is not older than what its rank has seen, or is ordered after, of that word (release,
// acquire, relaxed and sequentially consistent, and fences of each; without loads that see stores
// which come later in their own program). Plain bytes have to be ordered by that: two accesses of
// different ranks, one of them a write, with nothing between them that orders them, are a race,
// also where this very run has them one after the other. Besides, what lies in staging memory was
// written in the call that reads it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::simulation {

constexpr uint32_t most_ranks = 8;

class MemoryModel {
 public:
  // Of the memory [base, base + bytes); [staging_begin, staging_end) of it are for staging.
  void reset(const void* base, size_t bytes, size_t staging_begin, size_t staging_end,
             uint32_t nranks, bool weak);

  // Which of `options` loads that are allowed to give, 0 the latest.
  using Choose = std::function<uint32_t(uint32_t options)>;
  uint64_t load(uint32_t rank, const void* word, uint64_t latest, std::memory_order order,
                const Choose& choose);
  void store(uint32_t rank, const void* word, uint64_t before, uint64_t value,
             std::memory_order order);
  void exchange(uint32_t rank, const void* word, uint64_t before, uint64_t value);
  void fence(uint32_t rank, std::memory_order order);
  // Empty, or what is wrong. `call`: the number of the rank's call.
  std::string read(uint32_t rank, uint32_t call, const void* at, size_t bytes);
  std::string write(uint32_t rank, uint32_t call, const void* at, size_t bytes);
  // Of bytes that may be written and read at once, as by relaxed stores and loads.
  void read_racing(uint32_t rank, const void* at, size_t bytes);
  void write_racing(uint32_t rank, const void* at, size_t bytes);

  // Whether a load by the rank could give nothing newer than it has seen.
  bool has_seen_latest(uint32_t rank, const void* word);

 private:
  using Clock = std::array<uint32_t, most_ranks>;  // of each rank: how far one has heard of it
  // What one knows: clocks, and of each word the oldest store that it may still see.
  struct View {
    Clock clock{};
    std::vector<uint32_t> seen;
  };
  struct Message {
    uint64_t value;
    View view;
  };
  struct Word {
    uint32_t walk = 0;  // of reset(): older contents do not count
    uint32_t index = 0;
    uint32_t first = 0;  // number of messages that were forgotten
    std::vector<Message> messages;
  };
  struct Rank {
    View now, acquirable, released;
  };
  struct Plain {  // eight bytes
    uint32_t walk = 0;
    uint32_t write_clock = 0, write_call = 0;
    uint32_t writer = 0;
    uint32_t racing_writer = 0;  // 1 more than its number
    Clock reads{};
  };

  Word& word_of(const void* word, uint64_t initial);
  void append(Word& word, uint64_t value, const View& view, uint32_t rank);
  static void join(View* to, const View& from);
  // The first that such memory touches, and the one after the last; none of other memory.
  std::pair<size_t, size_t> granules(const void* at, size_t bytes) const;
  Plain& plain_at(size_t granule);
  std::string describe(const char* what, uint32_t rank, uint32_t call, size_t granule,
                       const Plain& plain, uint32_t other) const;

  uintptr_t base_ = 0;
  size_t bytes_ = 0, staging_begin_ = 0, staging_end_ = 0;
  uint32_t nranks_ = 0;
  bool weak_ = false;
  uint32_t walk_ = 0;
  uint32_t words_used_ = 0;
  std::vector<Word> words_;   // by eight bytes of memory
  std::vector<Plain> plain_;  // the same
  std::array<Rank, most_ranks> ranks_;
  View sequential_;  // of the last sequentially consistent fence
};

}  // namespace tutti::simulation
