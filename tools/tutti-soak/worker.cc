#include "tools/tutti-soak/worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tutti::soak {
namespace {

// Steps after which communicators are made anew.
constexpr uint64_t steps_of_teams = 2048;
// Steps after which rank 0 broadcasts whether to go on.
constexpr uint64_t steps_between_questions = 16;
constexpr size_t symmetric_bytes = 8 << 20;
// Vectors and what is around them.
constexpr size_t heap_bytes =
    most_step_bytes + 2 * most_step_calls * (Vector::room(0) + 128) + (1 << 20);
// Findings that are printed in full.
constexpr uint64_t most_told = 5;

}  // namespace

void require(tutti_status status, tutti_comm comm, const std::string& what) {
  if (status == TUTTI_OK) return;
  std::string text = what + ": " + tutti_status_name(status);
  tutti_error error{};
  if (comm && tutti_comm_last_error(comm, &error) == TUTTI_OK && error.text && error.text[0])
    text += std::string(": ") + error.text;
  else if (tutti_last_error()[0])
    text += std::string(": ") + tutti_last_error();
  throw Failed(status, text);
}

Worker::Worker(const WorkerOptions& options, tutti_comm all, Slot* slot, const Board* board)
    : options_(options),
      slot_(slot),
      board_(board),
      heap_memory_(new std::byte[heap_bytes]),
      heap_(heap_memory_.get(), heap_bytes),
      local_(0),
      begun_(std::chrono::steady_clock::now()) {
  seat(Team::all).comm = all;
}

Worker::~Worker() {
  free_teams();
  tutti_comm_free(seat(Team::all).comm);
}

// ---------------------------------------------------------------- communicators

void Worker::make_teams() {
  Seat& all = seat(Team::all);
  tutti_comm_rank(all.comm, &all.rank);
  tutti_comm_size(all.comm, &all.nranks);
  require(tutti_comm_dup(all.comm, &seat(Team::copy).comm), all.comm, "tutti_comm_dup");
  require(tutti_comm_split(all.comm, 0, -all.rank, &seat(Team::reversed).comm), all.comm,
          "tutti_comm_split");
  require(
      tutti_comm_split(all.comm, 2 * all.rank >= all.nranks, all.rank ^ 1, &seat(Team::half).comm),
      all.comm, "tutti_comm_split");
  for (Seat& one : seats_) {
    tutti_comm_rank(one.comm, &one.rank);
    tutti_comm_size(one.comm, &one.nranks);
  }
  for (const Team team : {Team::all, Team::half}) {
    void* memory = nullptr;
    require(tutti_mem_alloc(seat(team).comm, symmetric_bytes, &memory), seat(team).comm,
            "tutti_mem_alloc");
    symmetric_[size_t(team)] = Arena(memory, symmetric_bytes);
  }
}

void Worker::free_teams() {
  tutti_mem_free(seat(Team::all).comm, symmetric_[size_t(Team::all)].memory());
  symmetric_ = {};
  for (const Team team : {Team::copy, Team::reversed, Team::half}) {
    tutti_comm_free(seat(team).comm);
    seat(team).comm = nullptr;
  }
}

// ---------------------------------------------------------------- steps

// Rank 0's decision.
bool Worker::goes_on(uint64_t step) {
  if ((step - options_.from_step) % steps_between_questions != 0) return true;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun_;
  uint8_t over = (options_.steps > 0 && step >= options_.from_step + options_.steps) ||
                 (options_.seconds > 0 && passed.count() >= options_.seconds) ||
                 board_->stop.load(std::memory_order_relaxed) != 0;
  set_phase(Phase::call);
  const tutti_comm all = seat(Team::all).comm;
  require(tutti_broadcast(&over, 1, TUTTI_UINT8, 0, all), all, "the broadcast between steps");
  return over == 0;
}

void Worker::run() {
  uint64_t step = options_.from_step;
  make_teams();
  for (; goes_on(step); ++step) {
    if (step != options_.from_step && step % steps_of_teams == 0) {
      set_phase(Phase::setup);
      free_teams();
      make_teams();
    }
    take_step(step);
  }
  stalls_.set(false);
  set_phase(Phase::ended);
}

void Worker::take_step(uint64_t step) {
  step_ = step;
  slot_->step.store(step, std::memory_order_relaxed);
  slot_->call.store(0, std::memory_order_relaxed);
  const Seat& all = seat(Team::all);
  local_ = Random(mix(options_.seed, step, uint64_t(all.rank), uint64_t(options_.thread), 99));
  manner_ = manner_of(options_.seed, step);
  stalls_.set(manner_.stalled);
  heap_.clear();
  for (Arena& arena : symmetric_) arena.clear();

  if (local_.chance(100)) make_refused_call();
  const Step drawn = draw_step(mix(options_.seed, uint64_t(options_.thread)), step, all.nranks);
  Operations operations = make_operations(drawn);
  for (int round = 0; round < drawn.rounds; ++round) make_round(operations, round);
  for (const auto& operation : operations)
    accept(tutti_request_free(operation->request()), *operation, "freeing the request of");
}

// Of this rank alone: it is refused, and leaves the communicator as it was.
void Worker::make_refused_call() {
  const size_t bytes = size_t{1} << local_.below(20);
  unsigned char* const vector = heap_.take(bytes, 0);
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.algorithm = "none of this name";
  set_phase(Phase::call);
  const Seat& some = seat(Team(local_.below(uint64_t(Team::count))));
  const tutti_status status = tutti_allreduce_with(TUTTI_IN_PLACE, vector, bytes, TUTTI_UINT8,
                                                   TUTTI_BOR, some.comm, &config);
  if (status != TUTTI_INVALID)
    throw Failed(status, fmt::format("step {}: an algorithm that there is not was taken", step_));
}

Worker::Operations Worker::make_operations(const Step& step) {
  Operations operations;
  for (const Call& call : step.calls) {
    const Team near = call.team == Team::half ? Team::half : Team::all;
    const Arenas arenas{&heap_, &symmetric_[size_t(near)]};
    operations.push_back(
        std::make_unique<Operation>(call, seat(call.team), contents_, arenas, local_));
    Operation& operation = *operations.back();
    accept(operation.prepare(), operation, "preparing");
  }
  return operations;
}

void Worker::make_round(Operations& operations, int round) {
  set_phase(Phase::fill);
  for (const auto& operation : operations) operation->fill(round);
  make_calls(operations);
  set_phase(Phase::wait);
  wait_for_all(operations);
  set_phase(Phase::check);
  check(operations, round);
}

void Worker::make_calls(Operations& operations) {
  for (size_t i = 0; i < operations.size(); ++i) {
    Operation& operation = *operations[i];
    if (operation.refused) continue;
    be_late();
    slot_->call.store(i, std::memory_order_relaxed);
    set_phase(Phase::call);
    accept(operation.go(), operation, "");
    if (i > 0 && local_.chance(100)) wait_one(*operations[local_.below(i)]);
  }
}

void Worker::be_late() {
  if (!manner_.late) return;
  if (local_.chance(50))
    usleep(useconds_t(local_.below(300)));
  else if (local_.chance(8))
    usleep(useconds_t(local_.below(2000)));
  else if (local_.chance(1) && local_.chance(300))
    usleep(20'000);
}

// ---------------------------------------------------------------- waiting

void Worker::wait_for_all(Operations& operations) {
  std::vector<Operation*> waiting;
  for (const auto& operation : operations)
    if (*operation->request() && !operation->refused) waiting.push_back(operation.get());
  if (waiting.empty()) return;
  be_late();
  switch (local_.below(4)) {
    case 0:
      return wait_together(waiting);
    case 1:
      return wait_any(waiting);
    case 2:
      return wait_in_any_order(waiting);
    default:
      for (Operation* operation : waiting) wait_one(*operation);
  }
}

// Sometimes tests a few times before it blocks.
void Worker::wait_one(Operation& operation) {
  int ended = 0;
  for (uint64_t tries = local_.chance(300) ? local_.below(20) : 0; tries > 0 && !ended; --tries)
    accept(tutti_test(operation.request(), &ended), operation, "testing");
  accept(tutti_wait(operation.request()), operation, "waiting for");
}

void Worker::wait_together(const std::vector<Operation*>& waiting) {
  std::vector<tutti_request> requests;
  requests.reserve(waiting.size());
  for (Operation* operation : waiting) requests.push_back(*operation->request());
  accept(tutti_waitall(requests.size(), requests.data()), *waiting.front(),
         "waiting for all calls of the step, of which the first is");
  for (size_t i = 0; i < waiting.size(); ++i) *waiting[i]->request() = requests[i];
}

void Worker::wait_any(const std::vector<Operation*>& waiting) {
  std::vector<tutti_request> requests;
  requests.reserve(waiting.size());
  for (Operation* operation : waiting) requests.push_back(*operation->request());
  for (size_t index = 0;;) {
    const tutti_status status = tutti_waitany(requests.size(), requests.data(), &index);
    if (status == TUTTI_OK && index == TUTTI_NO_REQUEST) break;
    accept(status, *waiting[index < waiting.size() ? index : 0],
           "waiting for any of the step, of which one is");
  }
  for (size_t i = 0; i < waiting.size(); ++i) *waiting[i]->request() = requests[i];
}

void Worker::wait_in_any_order(std::vector<Operation*> waiting) {
  while (!waiting.empty()) {
    const size_t i = local_.below(waiting.size());
    wait_one(*waiting[i]);
    be_late();
    waiting.erase(waiting.begin() + std::ptrdiff_t(i));
  }
}

// ---------------------------------------------------------------- what came of it

void Worker::accept(tutti_status status, Operation& operation, const char* doing) {
  if (status == TUTTI_OK) return;
  if (status == TUTTI_UNSUPPORTED && operation.call().may_be_refused()) {
    operation.refused = true;
    return;
  }
  require(status, operation.comm(),
          fmt::format("step {}: {} {}", step_, doing, describe(operation.call())));
}

void Worker::check(const Operations& operations, int round) {
  for (size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = *operations[i];
    if (operation.refused) {
      slot_->refused.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    slot_->calls.fetch_add(1, std::memory_order_relaxed);
    slot_->bytes.fetch_add(operation.bytes(), std::memory_order_relaxed);
    const std::string text = operation.check(round);
    if (text.empty()) continue;
    if (slot_->wrong.fetch_add(1, std::memory_order_relaxed) >= most_told) continue;
    const Seat& all = seat(Team::all);
    std::fprintf(stderr,
                 "tutti-soak: WRONG on rank %d of %d, thread %d, step %llu, call %zu of %zu, round "
                 "%d: %s: %s\n",
                 all.rank, all.nranks, options_.thread, static_cast<unsigned long long>(step_),
                 i + 1, operations.size(), round + 1, describe(operation.call()).c_str(),
                 text.c_str());
  }
}

}  // namespace tutti::soak
