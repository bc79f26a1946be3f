// One thread of one rank: its communicators, and the steps that it takes with them.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/tutti-soak/board.h"
#include "tools/tutti-soak/contents.h"
#include "tools/tutti-soak/draw.h"
#include "tools/tutti-soak/memory.h"
#include "tools/tutti-soak/operation.h"
#include "tools/tutti-soak/stalls.h"
#include "tutti/tutti.h"

namespace tutti::soak {

// A call of the library that should not have failed.
struct Failed : std::runtime_error {
  Failed(tutti_status status, const std::string& text) : std::runtime_error(text), status(status) {}
  tutti_status status;
};
// Throws Failed, with the library's sentence, unless `status` is OK. `comm` may be null.
void require(tutti_status status, tutti_comm comm, const std::string& what);

struct WorkerOptions {
  uint64_t seed = 1;
  uint64_t from_step = 0;
  uint64_t steps = 0;  // 0: until the time is over
  double seconds = 0;  // 0: until the steps are done
  int thread = 0;
};

class Worker {
 public:
  // `all`: from now on used by this thread only.
  Worker(const WorkerOptions& options, tutti_comm all, Slot* slot, const Board* board);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void run();  // throws Failed

 private:
  using Operations = std::vector<std::unique_ptr<Operation>>;

  void make_teams();
  void free_teams();
  Seat& seat(Team team) { return seats_[size_t(team)]; }
  bool goes_on(uint64_t step);
  void take_step(uint64_t step);
  void make_refused_call();
  Operations make_operations(const Step& step);
  void make_round(Operations& operations, int round);
  void make_calls(Operations& operations);
  void wait_for_all(Operations& operations);
  void wait_one(Operation& operation);
  void wait_together(const std::vector<Operation*>& waiting);
  void wait_any(const std::vector<Operation*>& waiting);
  void wait_in_any_order(std::vector<Operation*> waiting);
  void check(const Operations& operations, int round);
  void be_late();
  // Throws unless the call is OK, or was refused and may be.
  void accept(tutti_status status, Operation& operation, const char* doing);
  void set_phase(Phase phase) { slot_->phase.store(phase, std::memory_order_relaxed); }

  WorkerOptions options_;
  Slot* slot_;
  const Board* board_;
  std::array<Seat, size_t(Team::count)> seats_;
  std::array<Arena, size_t(Team::count)> symmetric_;
  std::unique_ptr<std::byte[]> heap_memory_;
  Arena heap_;
  Contents contents_;
  Stalls stalls_;
  Random local_;  // choices of this rank alone
  uint64_t step_ = 0;
  Manner manner_{};
  std::chrono::steady_clock::time_point begun_;
};

}  // namespace tutti::soak
