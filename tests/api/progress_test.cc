// The program's own library, moved on while ranks wait (tutti_comm_config, `progress`).
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::on_threads;
using tutti::testing::sentence;

struct Told {
  std::atomic<int> calls{0};
  std::atomic<bool> elsewhere{false};
  std::thread::id waits;
};

void tell(void* context) {
  Told& told = *static_cast<Told*>(context);
  ++told.calls;
  if (std::this_thread::get_id() != told.waits) told.elsewhere = true;
}

// context_of(rank), called in the rank's thread: what its `progress` is called with.
void on_ranks(int nranks, const char* transport, tutti_progress_fn progress,
              const std::function<void*(int)>& context_of,
              const std::function<void(int, tutti_comm)>& body) {
  tutti_unique_id id{};
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  on_threads(nranks, [&](int rank) {
    tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
    config.transports = transport;
    config.progress = progress;
    config.progress_context = context_of(rank);
    tutti_comm comm = nullptr;
    ASSERT_EQ(tutti_comm_create_from_id(&id, rank, nranks, &config, &comm), TUTTI_OK)
        << tutti_last_error();
    body(rank, comm);
    ASSERT_EQ(tutti_comm_free(comm), TUTTI_OK);
  });
}

void on_two(const char* transport, tutti_progress_fn progress, Told (&told)[2],
            const std::function<void(int, tutti_comm)>& body) {
  const auto context_of = [&](int rank) {
    told[rank].waits = std::this_thread::get_id();
    return &told[rank];
  };
  on_ranks(2, transport, progress, context_of, body);
}

TEST(Progress, IsCalledAgainAndAgainWhileARankWaits) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    Told told[2];
    on_two(transport, tell, told, [&](int rank, tutti_comm comm) {
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
      const int before = told[rank].calls;
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
      // Asleep it is called every 100 us, or as often as this machine lets a thread run.
      if (rank == 0) {
        EXPECT_GT(told[rank].calls - before, 5) << transport;
      }
      EXPECT_FALSE(told[rank].elsewhere) << transport;
    });
  }
}

TEST(Progress, CommunicatorsThatAreDerivedCallItToo) {
  Told told[2];
  on_two("shm", tell, told, [&](int rank, tutti_comm comm) {
    tutti_comm copy = nullptr;
    ASSERT_EQ(tutti_comm_dup(comm, &copy), TUTTI_OK) << sentence(comm);
    const int before = told[rank].calls;
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ASSERT_EQ(tutti_barrier(copy), TUTTI_OK) << sentence(copy);
    if (rank == 0) {
      EXPECT_GT(told[rank].calls - before, 5);
    }
    ASSERT_EQ(tutti_comm_free(copy), TUTTI_OK);
  });
}

// Rank 2 finds nothing and is held, before one of its first looks for a reason, until the others
// have ended the call, rank 1 has left, and rank 0 has failed in the next call for that.
TEST(Progress, WhatHasComeEndsACallThoughAnotherRankHasFailedInTheNext) {
  constexpr int most_looks = 40;
  struct Held {
    int left = 0;  // looks until it is held
    std::atomic<bool> waits{false}, others_failed{false};
  };
  const auto hold = [](void* context) {
    if (context == nullptr) return;
    Held& own = *static_cast<Held*>(context);
    if (own.left == 0 || --own.left != 0) return;
    own.waits = true;
    own.waits.notify_all();
    own.others_failed.wait(false);
  };
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    for (int looks = 1; looks <= most_looks; ++looks) {
      SCOPED_TRACE(std::string(transport) + ", held before look " + std::to_string(looks));
      Held held;
      const auto context_of = [&](int rank) { return rank == 2 ? &held : nullptr; };
      on_ranks(3, transport, hold, context_of, [&](int rank, tutti_comm comm) {
        if (rank == 1) held.waits.wait(false);
        if (rank == 2) held.left = looks;
        const int32_t in = rank + 1;
        int32_t out = 0;
        EXPECT_EQ(tutti_allreduce(&in, &out, 1, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK)
            << sentence(comm);
        EXPECT_EQ(out, 6);
        if (rank != 0) return;
        // Of rank 1 alone: in what needs both a rank may wait for rank 2 first, which is held.
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.algorithm = "flat";
        EXPECT_EQ(tutti_broadcast_with(&out, 1, TUTTI_INT32, 1, comm, &config), TUTTI_PEER_FAILED)
            << sentence(comm);
        held.others_failed = true;
        held.others_failed.notify_all();
      });
    }
  }
}

}  // namespace
