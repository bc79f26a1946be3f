// A host whose ranks are fibers, sharing memory as processes or threads would: the protocols, links
// and rings are the library's own (lib/comm/protocols.h), compiled so that every access to shared
// memory is seen (lib/slots/access.h). Runs a sequence of calls on all ranks; a Schedule decides
// which rank moves, which value a load returns, which rank dies or aborts, and when. Checks every
// result bit for bit, every access against the memory model, and the end of every call against the
// clock.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "lib/base/mapping.h"
#include "lib/comm/protocols.h"
#include "tests/simulation/fibers.h"
#include "tests/simulation/memory_model.h"

namespace tutti::simulation {

// Makes all nondeterministic choices.
class Schedule {
 public:
  virtual ~Schedule() = default;
  // Which of the `options` (at least 1) values that the load may return, 0 the latest.
  virtual uint32_t choose_load(uint32_t options) = 0;
  // Which rank moves next, an index into `ranks`; `current` ran last, if it is there. `state`:
  // equal only for machines that will behave alike, as far as that follows from what ranks have
  // seen.
  virtual uint32_t choose_rank(const std::vector<uint32_t>& ranks, int current, uint64_t state) = 0;
  // Whether a waiting rank looks for a cause now; all do when no rank can move.
  virtual bool looks() { return false; }
  // Whether the machine may stop: every continuation has been explored.
  virtual bool stop() { return false; }
  // Whether other ranks may move before accesses to memory that ranks read only after a failure.
  virtual bool every_access() const { return true; }
};

// A call of all ranks.
struct CallSpec {
  Path path = Path::one_shot;
  Collective collective = Collective::allreduce;
  const char* algorithm = nullptr;  // for calls by schedule
  uint64_t count = 0;  // elements of eight bytes, of a vector or of a block; 0: nothing
  uint32_t root = 0;
  uint32_t reached = 0;  // bit r: the vectors of rank r can be reached by the others
  bool in_place = false;
  uint32_t narrow = 0;     // bit r: rank r uses a part of its ring only
  bool copies = false;     // ranks may copy from each other's vectors
  bool staged = false;     // an allreduce does not go direct
  bool own_first = false;  // an allreduce's results are written to the own vector first
  uint32_t one_shot = 0;   // bit r: rank r lets an allreduce that goes direct do so in one shot
  bool whole = false;      // one-hop does not cut short parts
  uint32_t past = 0;       // bit r: rank r writes one-hop's results past the caches
  bool verdict = false;    // ranks tell each other of a trial

  std::string describe() const;
};

struct MachineSettings {
  uint32_t nranks = 2;
  Tuning tuning;
  uint32_t slots = 2, slot_bytes = 64;
  uint64_t cell_bytes = 0;  // on top of what the tuning takes
  shared::Copying single_copy = shared::Copying::never;
  bool weak = false;       // loads may return older values
  bool processes = false;  // ranks reach registered memory, and may die; else they are threads
};

class Machine final : public slots::Observer {
 public:
  explicit Machine(const MachineSettings& settings);
  ~Machine() override;

  // In runs from now on: the rank that dies, or aborts, and at which of its own accesses to flags;
  // -1: none.
  void set_fault(int dies, int aborts, uint64_t at) {
    dies_ = dies;
    aborts_ = aborts;
    fault_at_ = at;
  }
  // In runs from now on: the rank whose call `call` differs from the others': it has another root,
  // no elements (only by one-hop), one more (by one-hop, or of at most one), or one less.
  enum class Stray { root, empty, more, less };
  void set_stray(int rank, uint32_t call, Stray stray) {
    strays_ = rank;
    stray_call_ = call;
    stray_ = stray;
  }
  // In runs from now on: the rank whose calls end by their time limit, and at which of its moves.
  void set_limit(int rank, uint64_t moves) {
    gives_up_ = rank;
    moves_left_ = moves;
  }
  // Runs the calls on fresh memory. Returns what is wrong, or an empty string.
  std::string run(const std::vector<CallSpec>& calls, Schedule& schedule);

  uint64_t accesses() const { return accesses_; }  // to atomic words, in all runs so far
  uint64_t right_results() const { return right_; }

 private:
  struct Killed {};  // thrown where a rank dies, or the run stops
  struct Rank;

  void step(const void* word) override;
  uint64_t load(const void* word, uint64_t latest, std::memory_order order) override;
  void store(const void* word, uint64_t before, uint64_t value, std::memory_order order) override;
  void exchanged(const void* word, uint64_t before, uint64_t value) override;
  void fence(std::memory_order order) override;
  void reads(const void* at, size_t bytes) override;
  void writes(const void* at, size_t bytes) override;
  void reads_racing(const void* at, size_t bytes) override;
  bool may_switch(const Rank& rank) const;
  void let_others_move(const Rank& rank);
  void step_before_read(const void* at, size_t bytes);
  // After a failed call: its owner overwrites the buffer, even if other ranks still read it.
  void spoil(const Rank& rank, std::byte* at, size_t bytes);

  void make_ranks();
  int body(uint32_t rank);
  // False: the rank makes no further calls.
  bool make_call(Rank& rank, uint32_t number, CallSpec spec);
  void tell_verdict(Rank& rank);
  void check_verdicts(Rank& rank);
  void tell_verdict_after(Rank& rank);
  void check_verdicts_told_after(Rank& rank);
  void judge_failure(const Rank& rank);
  void prepare(Rank& rank, const CallSpec& spec);
  Status wait_for_end(Rank& rank);
  void stray(CallSpec* spec) const;
  void check_all_alike(const Rank& rank, uint32_t number, const CallSpec& spec);
  void check_result(Rank& rank, uint32_t number, const CallSpec& spec);
  void wait_for_change(Rank& rank);
  void changed(const void* word, const Rank& by);
  // The rank that runs next; -1: none can, or none need.
  int next_rank();
  bool time_passes();
  uint64_t state() const;
  void found(const std::string& text);
  Rank& self() { return *ranks_[size_t(fibers_.current())]; }

  const MachineSettings settings_;
  slots::Geometry geometry_;
  Mapping memory_;
  size_t total_bytes_ = 0, vector_bytes_ = 0;
  const void* flags_begin_ = nullptr;  // memory before it is read only after a failure
  std::shared_ptr<std::array<bool, most_ranks>> dead_;
  MemoryModel model_;
  Fibers fibers_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  const std::vector<CallSpec>* calls_ = nullptr;
  Schedule* schedule_ = nullptr;
  std::vector<uint32_t> ready_;
  uint64_t now_ns_ = 1;
  uint32_t jumps_ = 0;  // of the clock, since a rank last moved
  bool stopping_ = false;
  int dies_ = -1, aborts_ = -1, strays_ = -1, gives_up_ = -1;
  uint32_t stray_call_ = 0;
  Stray stray_ = Stray::less;
  uint64_t moves_left_ = 0;
  uint64_t fault_at_ = 0;
  std::string wrong_;
  uint64_t accesses_ = 0, right_ = 0;
};

// Random schedules: sometimes all ranks take turns, sometimes one runs far ahead or sleeps long.
class RandomSchedule final : public Schedule {
 public:
  explicit RandomSchedule(uint64_t seed);
  uint32_t choose_load(uint32_t options) override;
  uint32_t choose_rank(const std::vector<uint32_t>& ranks, int current, uint64_t state) override;
  bool looks() override { return draw() % 8 == 0; }
  uint64_t draw();  // from the same seed, for any other choice

 private:
  uint64_t random_;
  uint32_t stickiness_;  // of 16
  int sleeper_ = -1;
  uint32_t sleeps_ = 0;
};

// Every interleaving of the ranks' accesses to shared memory, one after the other: run the machine
// anew while next() is true. Machines in which every rank has seen the same are one state; its
// continuations are explored once.
class EverySchedule final : public Schedule {
 public:
  bool next();
  uint32_t choose_load(uint32_t) override { return 0; }
  uint32_t choose_rank(const std::vector<uint32_t>& ranks, int current, uint64_t state) override;
  bool stop() override { return stop_; }
  bool every_access() const override { return false; }
  uint64_t states() const { return seen_.size(); }
  uint64_t runs() const { return runs_; }

 private:
  struct Decision {
    uint32_t choice, options;
  };
  std::vector<Decision> path_;
  size_t at_ = 0;
  bool stop_ = false;
  uint64_t runs_ = 0;
  std::unordered_set<uint64_t> seen_;
};

}  // namespace tutti::simulation
