// The C++ memory model as a machine. A word has a history of stores; a load may return any of them
// that is not older than the latest one that its rank has seen or that happens before the load.
// Covered: relaxed, release, acquire and sequentially consistent accesses and fences; not covered:
// load buffering (a load that sees a store later in its own program). Accesses to plain bytes must
// be ordered by happens-before: two accesses of different ranks, one of them a write, that are not
// so ordered are a data race, even if this run executes them one after the other. In addition,
// bytes of staging memory must have been written in the call that reads them.
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
  // Starts anew for the memory [base, base + bytes), of which [staging_begin, staging_end) is for
  // staging.
  void reset(const void* base, size_t bytes, size_t staging_begin, size_t staging_end,
             uint32_t nranks, bool weak);

  // Which of the `options` values that the load may return, 0 the latest.
  using Choose = std::function<uint32_t(uint32_t options)>;
  uint64_t load(uint32_t rank, const void* word, uint64_t latest, std::memory_order order,
                const Choose& choose);
  void store(uint32_t rank, const void* word, uint64_t before, uint64_t value,
             std::memory_order order);
  void exchange(uint32_t rank, const void* word, uint64_t before, uint64_t value);
  void fence(uint32_t rank, std::memory_order order);
  // Return what is wrong, or an empty string. `call`: the number of the rank's call.
  std::string read(uint32_t rank, uint32_t call, const void* at, size_t bytes);
  std::string write(uint32_t rank, uint32_t call, const void* at, size_t bytes);
  // For bytes that may be written and read concurrently, as by relaxed stores and loads.
  void read_racing(uint32_t rank, const void* at, size_t bytes);
  void write_racing(uint32_t rank, const void* at, size_t bytes);

  // Whether the rank has seen the latest store, so that no load of it can return a newer one.
  bool has_seen_latest(uint32_t rank, const void* word);

 private:
  using Clock = std::array<uint32_t, most_ranks>;  // a vector clock
  // What a rank knows: a vector clock, and for each word the oldest store that it may still see.
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
    uint32_t first = 0;  // number of messages that were dropped
    std::vector<Message> messages;
  };
  struct Rank {
    View now, acquirable, released;
  };
  struct Plain {  // eight bytes
    uint32_t walk = 0;
    uint32_t write_clock = 0, write_call = 0;
    uint32_t writer = 0;
    uint32_t racing_writer = 0;  // rank + 1; 0: none
    Clock reads{};
  };

  Word& word_of(const void* word, uint64_t initial);
  void append(Word& word, uint64_t value, const View& view, uint32_t rank);
  static void join(View* to, const View& from);
  // The first granule that the memory touches, and the one after the last; an empty range for other
  // memory.
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
  std::vector<Word> words_;   // one for every eight bytes of memory
  std::vector<Plain> plain_;  // the same
  std::array<Rank, most_ranks> ranks_;
  View sequential_;  // of the last sequentially consistent fence
};

}  // namespace tutti::simulation
