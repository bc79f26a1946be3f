// Ranks that call their communicators in different orders: who waits in a cycle is told so within
// seconds; who is only late, or moves on beside its wait, is not accused of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "tests/support/processes.h"
#include "tests/support/thread_comm.h"
#include "tests/support/with_ucx.h"
#include "tutti/tutti.hpp"

namespace {

using tutti::testing::Child;
using tutti::testing::finish;
using tutti::testing::on_comm;
using tutti::testing::Report;
using tutti::testing::report_of;
using tutti::testing::start;

// Longer than it takes to find a cycle.
void be_late() { usleep(2'500'000); }

// The ranks in `ranks` make a communicator; an empty one elsewhere.
tutti::communicator group(int rank, tutti_comm comm, const std::vector<int>& ranks) {
  tutti_comm made = nullptr;
  if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) {
    tutti_comm_create_group(comm, ranks.data(), ranks.size(), &made);
    tutti_barrier(made);
  }
  return tutti::communicator(made);
}

// Two communicators of all ranks, `used` or not yet.
struct Two {
  tutti_comm a = nullptr, b = nullptr;

  Two(tutti_comm comm, bool used) {
    tutti_comm_dup(comm, &a);
    tutti_comm_dup(comm, &b);
    if (!used) return;
    tutti_barrier(a);
    tutti_barrier(b);
  }
  Two(const Two&) = delete;
  Two& operator=(const Two&) = delete;
  ~Two() {
    tutti_comm_free(a);
    tutti_comm_free(b);
  }
};

tutti_status sum(tutti_comm comm) {
  float in[4] = {1, 2, 3, 4}, out[4] = {};
  return tutti_allreduce(in, out, 4, TUTTI_FLOAT32, TUTTI_SUM, comm);
}

// Two calls, and of the one that fails the sentence.
Report in_order(tutti_comm first, tutti_comm second) {
  if (const tutti_status status = sum(first); status != TUTTI_OK) return report_of(status, first);
  return report_of(sum(second), second);
}

struct Case {
  const char* what;
  int nranks;
  std::function<Report(int, tutti_comm)> body;
};

class Deadlock : public ::testing::TestWithParam<const char*> {
 protected:
  // All cases at once: they mostly wait.
  void run(const std::vector<Case>& cases, const std::function<void(const Report&)>& expect) {
    std::vector<std::vector<Child>> all;
    all.reserve(cases.size());
    for (const Case& one : cases) all.push_back(start(one.nranks, GetParam(), one.body));
    for (size_t i = 0; i < cases.size(); ++i) {
      for (size_t rank = 0; rank < all[i].size(); ++rank) {
        SCOPED_TRACE(std::string(cases[i].what) + ", rank " + std::to_string(rank));
        Report report;
        const bool told = finish(all[i][rank], &report);
        EXPECT_TRUE(told);
        if (told) expect(report);
      }
    }
  }
};

TEST_P(Deadlock, AcrossCommunicatorsIsReportedToAllInTheCycle) {
  std::vector<Case> cases = {
      {"two ranks, communicators in use", 2,
       [](int rank, tutti_comm comm) {
         const Two two(comm, true);
         sum(two.b);
         return rank == 0 ? in_order(two.a, two.b) : in_order(two.b, two.a);
       }},
      {"three ranks against one", 4,
       [](int rank, tutti_comm comm) {
         const Two two(comm, true);
         return rank != 3 ? in_order(two.a, two.b) : in_order(two.b, two.a);
       }},
      {"a cycle of three communicators", 3,
       [](int rank, tutti_comm comm) {
         const tutti::communicator ab = group(rank, comm, {0, 1}), bc = group(rank, comm, {1, 2}),
                                   ca = group(rank, comm, {2, 0});
         if (rank == 0) return in_order(ab.get(), ca.get());
         return rank == 1 ? in_order(bc.get(), ab.get()) : in_order(ca.get(), bc.get());
       }},
      {"two ranks, one of which was refused a send", 2,
       [](int rank, tutti_comm comm) {
         const Two two(comm, true);
         float out = 1;
         if (rank == 0) return in_order(two.a, two.b);
         EXPECT_EQ(tutti_send(&out, 1, TUTTI_FLOAT32, 9, 0, two.a), TUTTI_INVALID);
         return in_order(two.b, two.a);
       }},
      {"two ranks, one of which was refused a broadcast", 2,
       [](int rank, tutti_comm comm) {
         const Two two(comm, true);
         float out = 1;
         if (rank == 0) return in_order(two.a, two.b);
         EXPECT_EQ(tutti_broadcast(&out, 1, TUTTI_FLOAT32, 9, two.a), TUTTI_INVALID);
         return in_order(two.b, two.a);
       }},
      {"a broadcast and a wait for a nonblocking call", 2,
       [](int rank, tutti_comm comm) {
         const Two two(comm, true);
         float in = 1, out = 0;
         if (rank == 0) {
           const tutti_status status = tutti_broadcast(&out, 1, TUTTI_FLOAT32, 1, two.a);
           return status == TUTTI_OK ? report_of(sum(two.b), two.b) : report_of(status, two.a);
         }
         tutti_request request = nullptr;
         tutti_iallreduce(&in, &out, 1, TUTTI_FLOAT32, TUTTI_SUM, two.b, nullptr, &request);
         const tutti_status status = tutti_wait(&request);
         if (status != TUTTI_OK) return report_of(status, two.b);
         return report_of(tutti_broadcast(&out, 1, TUTTI_FLOAT32, 1, two.a), two.a);
       }},
  };
#if !defined(__SANITIZE_THREAD__)  // the sanitizer's own thread might use them
  cases.push_back({"two ranks, communicators not used before", 2, [](int rank, tutti_comm comm) {
                     const Two two(comm, false);
                     return rank == 0 ? in_order(two.a, two.b) : in_order(two.b, two.a);
                   }});
#endif
  const uint64_t start_ns = tutti::now_ns();
  run(cases, [&](const Report& report) {
    EXPECT_EQ(report.status, TUTTI_MISMATCH) << report.text;
    EXPECT_NE(std::string(report.text).find("a deadlock across communicators"), std::string::npos)
        << report.text;
    EXPECT_LT(report.ended_ns - start_ns, 10'000'000'000u) << report.text;
  });
}

TEST_P(Deadlock, IsNotSeenWhereACallIsOnlyLate) {
  run({{"a late rank", 3,
        [](int rank, tutti_comm comm) {
          const Two two(comm, false);
          if (rank == 2) be_late();
          return in_order(two.a, two.b);
        }},
       {"a call in flight that has yet to begin, beside the wait", 3,
        [](int rank, tutti_comm comm) {
          const Two two(comm, true);
          float in[4] = {}, out[4] = {};
          if (rank == 2) be_late();
          if (rank != 0) {
            const tutti_status status =
                tutti_reduce(in, out, 4, TUTTI_FLOAT32, TUTTI_SUM, 0, two.a);
            return status == TUTTI_OK ? in_order(two.a, two.b) : report_of(status, two.a);
          }
          // Rank 1 is through the first of these and waits in the second.
          float all[4] = {};
          tutti_request requests[2] = {};
          tutti_ireduce(in, out, 4, TUTTI_FLOAT32, TUTTI_SUM, 0, two.a, nullptr, &requests[0]);
          tutti_iallreduce(in, all, 4, TUTTI_FLOAT32, TUTTI_SUM, two.a, nullptr, &requests[1]);
          const Report report = report_of(sum(two.b), two.b);
          const tutti_status status = tutti_waitall(2, requests);
          return report.status == TUTTI_OK ? report_of(status, two.a) : report;
        }},
       {"a broadcast that needs only its root", 3,
        [](int rank, tutti_comm comm) {
          const tutti::communicator part = group(rank, comm, {1, 2});
          float value = 1;
          if (rank == 2) {
            if (const tutti_status status = sum(part.get()); status != TUTTI_OK) {
              return report_of(status, part.get());
            }
          }
          if (rank == 0) be_late();
          const tutti_status status = tutti_broadcast(&value, 1, TUTTI_FLOAT32, 0, comm);
          if (status != TUTTI_OK || rank != 1) return report_of(status, comm);
          return report_of(sum(part.get()), part.get());
        }},
       {"a thread for each communicator", 2,
        [](int rank, tutti_comm comm) {
          const Two two(comm, false);
          if (rank == 1) return in_order(two.b, two.a);
          Report first, second;
          std::thread other([&] {
            be_late();
            second = report_of(sum(two.b), two.b);
          });
          first = report_of(sum(two.a), two.a);
          other.join();
          return first.status == TUTTI_OK ? second : first;
        }},
       {"threads that take turns", 2,
        [](int rank, tutti_comm comm) {
          const Two two(comm, true);
          if (rank == 1) {
            tutti_barrier(two.b);
            return in_order(two.b, two.a);
          }
          Report first, second;
          std::thread other([&] {
            tutti_barrier(two.b);  // from now on it is not the first thread's alone
            be_late();
            second = report_of(sum(two.b), two.b);
          });
          first = report_of(sum(two.a), two.a);
          other.join();
          return first.status == TUTTI_OK ? second : first;
        }}},
      [](const Report& report) { EXPECT_EQ(report.status, TUTTI_OK) << report.text; });
}

INSTANTIATE_TEST_SUITE_P(Transports, Deadlock,
                         ::testing::ValuesIn(tutti::testing::with_ucx({"shm", "tcp"})),
                         [](const auto& info) { return std::string(info.param); });

TEST(DeadlockOfThreads, IsReportedWhereEachHasUsedItsCommunicators) {
  for (const char* transport : {"inproc", "tcp"}) {
    on_comm(3, transport, [](int rank, tutti_comm comm) {
      const Two two(comm, true);
      const Report report = rank == 0 ? in_order(two.a, two.b) : in_order(two.b, two.a);
      EXPECT_EQ(report.status, TUTTI_MISMATCH) << report.text;
      EXPECT_NE(std::string(report.text).find("a deadlock across communicators"), std::string::npos)
          << report.text;
    });
  }
}

}  // namespace
