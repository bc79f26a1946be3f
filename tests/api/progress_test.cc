// The program's own library, moved on while ranks wait (tutti_comm_config, `progress`).
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
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

void on_two(const char* transport, tutti_progress_fn progress, Told (&told)[2],
            const std::function<void(int, tutti_comm)>& body) {
  tutti_unique_id id{};
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  on_threads(2, [&](int rank) {
    told[rank].waits = std::this_thread::get_id();
    tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
    config.transports = transport;
    config.progress = progress;
    config.progress_context = &told[rank];
    tutti_comm comm = nullptr;
    ASSERT_EQ(tutti_comm_create_from_id(&id, rank, 2, &config, &comm), TUTTI_OK)
        << tutti_last_error();
    body(rank, comm);
    ASSERT_EQ(tutti_comm_free(comm), TUTTI_OK);
  });
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

}  // namespace
