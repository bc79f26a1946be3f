#include "tools/tutti-soak/ranks.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace tutti::soak {
namespace {

using MakeComm = std::function<tutti_status(const tutti_comm_config&, tutti_comm*)>;

// Ends the process; the other ranks detect that.
[[noreturn]] void give_up(const RankOptions& options, Board* board, int rank, int thread,
                          const std::exception& error) {
  std::fprintf(stderr, "tutti-soak: rank %d, thread %d: %s\n", rank, thread, error.what());
  const auto* failed = dynamic_cast<const Failed*>(&error);
  const bool late = failed && failed->status == TUTTI_TIMEOUT;
  board->slots[rank * options.threads + thread].ending = late ? Ending::timed_out : Ending::failed;
  std::_Exit(1);
}

// One thread with communicators of its own; every thread of a rank has its own sequence of calls.
void run_thread(const RankOptions& options, Board* board, int rank, int thread, tutti_comm comm) {
  Slot* slot = &board->slots[rank * options.threads + thread];
  WorkerOptions work = options.work;
  work.thread = thread;
  try {
    Worker worker(work, comm, slot, board);
    worker.run();
    slot->ending = Ending::done;
  } catch (const std::exception& error) {
    give_up(options, board, rank, thread, error);
  }
}

int run_rank(const RankOptions& options, Board* board, const MakeComm& make) {
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.timeout_ms = int64_t(options.timeout_s * 1000);
  tutti_comm world = nullptr;
  const tutti_status status = make(config, &world);
  if (status == TUTTI_UNSUPPORTED) {
    std::fprintf(stderr, "tutti-soak: %s\n", tutti_last_error());
    return not_here_status;
  }
  int rank = 0;
  try {
    require(status, nullptr, "making the communicator");
    tutti_comm_rank(world, &rank);
    std::vector<tutti_comm> comms(size_t(options.threads), nullptr);
    for (tutti_comm& comm : comms) require(tutti_comm_dup(world, &comm), world, "tutti_comm_dup");
    std::vector<std::thread> threads;
    threads.reserve(size_t(options.threads));
    for (int thread = 1; thread < options.threads; ++thread)
      threads.emplace_back(run_thread, options, board, rank, thread, comms[size_t(thread)]);
    run_thread(options, board, rank, 0, comms[0]);
    for (std::thread& thread : threads) thread.join();
  } catch (const std::exception& error) {
    give_up(options, board, rank, 0, error);
  }
  tutti_comm_free(world);
  return 0;
}

int run_all_ranks(const RankOptions& options, Board* board) {
  tutti_unique_id id;
  if (tutti_unique_id_create(nullptr, &id) != TUTTI_OK) {
    std::fprintf(stderr, "tutti-soak: %s\n", tutti_last_error());
    return 1;
  }
  std::vector<int> ends(size_t(options.as_threads), 0);
  std::vector<std::thread> threads;
  threads.reserve(size_t(options.as_threads));
  for (int rank = 0; rank < options.as_threads; ++rank) {
    threads.emplace_back([&, rank] {
      ends[size_t(rank)] =
          run_rank(options, board, [&](const tutti_comm_config& config, tutti_comm* comm) {
            return tutti_comm_create_from_id(&id, rank, options.as_threads, &config, comm);
          });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends[0];
}

}  // namespace

int run_ranks(const RankOptions& options) {
  Board* board = open_board(options.board);
  if (options.as_threads > 0) return run_all_ranks(options, board);
  return run_rank(options, board, [](const tutti_comm_config& config, tutti_comm* comm) {
    return tutti_comm_create_from_env(&config, comm);
  });
}

}  // namespace tutti::soak
