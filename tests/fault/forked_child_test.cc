// A rank forks a child that has its memory and descriptors, as data loaders do: whatever the child
// does with the parent's communicator, the parent's calls go on, and deaths are still seen.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/processes.h"
#include "tests/support/with_ucx.h"

namespace {
bool is_child = false;
}

// A child has not all pages that its parent has, so what only those point to would look like leaks.
extern "C" int __lsan_is_turned_off();  // NOLINT(bugprone-reserved-identifier)
extern "C" int __lsan_is_turned_off() { return is_child ? 1 : 0; }

namespace {

using tutti::testing::Child;
using tutti::testing::finish;
using tutti::testing::Report;
using tutti::testing::report_of;
using tutti::testing::start;

tutti_status sum(tutti_comm comm, size_t count = 4) {
  std::vector<float> in(count, 1), out(count);
  return tutti_allreduce(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm);
}

tutti_status sum_forever(tutti_comm comm) {
  for (;;) {
    if (const tutti_status status = sum(comm); status != TUTTI_OK) return status;
  }
}

// Runs `body` in a forked child, in which an alarm ends what hangs; its exit status, -1 where a
// signal has ended it.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    is_child = true;
    alarm(10);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct Doing {
  const char* what;
  std::function<int(tutti_comm, tutti_request)> body;
};

int expect_refused(tutti_status status) {
  return status == TUTTI_INVALID &&
                 std::string(tutti_last_error()).find("fork()") != std::string::npos
             ? 0
             : 1;
}

const std::vector<Doing>& doings() {
  static const std::vector<Doing> all = {
      {"ends at once", [](tutti_comm, tutti_request) { return 0; }},
      {"exits", [](tutti_comm, tutti_request) -> int { exit(0); }},
      {"exits quickly", [](tutti_comm, tutti_request) -> int { quick_exit(0); }},
      {"frees the communicator and exits",
       [](tutti_comm comm, tutti_request) -> int {
         exit(tutti_comm_free(comm) == TUTTI_OK ? 0 : 1);
       }},
      {"aborts it",
       [](tutti_comm comm, tutti_request) { return expect_refused(tutti_comm_abort(comm, "no")); }},
      {"makes a call", [](tutti_comm comm, tutti_request) { return expect_refused(sum(comm)); }},
      {"sends",
       [](tutti_comm comm, tutti_request) {
         float value = 0;
         return expect_refused(tutti_send(&value, 1, TUTTI_FLOAT32, 0, 0, comm));
       }},
      {"splits it",
       [](tutti_comm comm, tutti_request) {
         tutti_comm made = nullptr;
         return expect_refused(tutti_comm_dup(comm, &made));
       }},
      {"waits for the parent's request",
       [](tutti_comm, tutti_request request) { return expect_refused(tutti_wait(&request)); }},
      {"waits for any",
       [](tutti_comm, tutti_request request) {
         size_t index = 0;
         return expect_refused(tutti_waitany(1, &request, &index));
       }},
      {"tests it",
       [](tutti_comm, tutti_request request) {
         int ended = 0;
         return expect_refused(tutti_test(&request, &ended));
       }},
      {"is killed",
       [](tutti_comm, tutti_request) {
         raise(SIGKILL);
         return 1;
       }},
  };
  return all;
}

class ForkedChild : public ::testing::TestWithParam<const char*> {};

TEST_P(ForkedChild, HarmsNobodyWhateverItDoes) {
  const auto children = start(3, GetParam(), [](int rank, tutti_comm comm) {
    if (sum(comm) != TUTTI_OK) return report_of(TUTTI_INTERNAL, comm);
    for (const Doing& doing : doings()) {
      // In flight while the child is there: the others have yet to begin it.
      float in = 1, out = 0;
      tutti_request request = nullptr;
      tutti_status status =
          tutti_iallreduce(&in, &out, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr, &request);
      if (rank == 1 && status == TUTTI_OK) {
        const int wrong = in_child([&] { return doing.body(comm, request); });
        if (wrong != (std::string(doing.what) == "is killed" ? -1 : 0)) {
          Report report = report_of(TUTTI_INTERNAL, comm);
          snprintf(report.text, sizeof(report.text), "the child %s: %d", doing.what, wrong);
          return report;
        }
      }
      if (status == TUTTI_OK) status = tutti_wait(&request);
      for (int i = 0; i < 20 && status == TUTTI_OK; ++i) status = sum(comm, i % 2 ? 50'000 : 4);
      if (status != TUTTI_OK) {
        Report report = report_of(status, comm);
        const std::string said = report.text;
        snprintf(report.text, sizeof(report.text), "the child %s: %.500s", doing.what,
                 said.c_str());
        return report;
      }
    }
    return report_of(TUTTI_OK, comm);
  });
  for (const Child& child : children) {
    Report report;
    ASSERT_TRUE(finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
}

TEST_P(ForkedChild, ThatFreedTheCommunicatorHidesNoDeath) {
  const auto children = start(3, GetParam(), [](int rank, tutti_comm comm) {
    if (rank == 1) in_child([&]() -> int { exit(tutti_comm_free(comm)); });
    return report_of(sum_forever(comm), comm);
  });
  usleep(300'000);
  tutti::testing::kill_and_expect_it_named(children, 1, 1'000'000'000);
}

TEST_P(ForkedChild, MayMakeACommunicatorOfItsOwn) {
  int ids[2];
  ASSERT_EQ(pipe(ids), 0);
  const auto children = start(2, GetParam(), [&](int rank, tutti_comm comm) {
    const int wrong = in_child([&] {
      tutti_unique_id id;
      if (rank == 0) {
        if (tutti_unique_id_create(nullptr, &id) != TUTTI_OK) return 1;
        if (write(ids[1], &id, sizeof(id)) != ssize_t(sizeof(id))) return 2;
      } else if (read(ids[0], &id, sizeof(id)) != ssize_t(sizeof(id))) {
        return 3;
      }
      tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
      config.transports = std::string(GetParam()) == "ucx" ? "tcp" : GetParam();
      tutti_comm own = nullptr;
      if (tutti_comm_create_from_id(&id, rank, 2, &config, &own) != TUTTI_OK) return 4;
      for (int i = 0; i < 20; ++i) {
        if (sum(own, 1000) != TUTTI_OK) return 5;
      }
      return tutti_comm_free(own) == TUTTI_OK ? 0 : 6;
    });
    const tutti_status status = wrong == 0 ? sum(comm) : TUTTI_INTERNAL;
    Report report = report_of(status, comm);
    if (wrong != 0) snprintf(report.text, sizeof(report.text), "the child failed at %d", wrong);
    return report;
  });
  for (const Child& child : children) {
    Report report;
    ASSERT_TRUE(finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
  close(ids[0]);
  close(ids[1]);
}

// A rank that leaves between calls is none that died: what it has given, the others still get.
TEST(Exit, BetweenCallsIsNoDeath) {
  const auto children = start(3, "shm", [](int rank, tutti_comm comm) {
    float value = float(rank);
    tutti_status status = sum(comm);
    if (rank == 2) usleep(200'000);  // the others wait for it after rank 0 has left
    if (status == TUTTI_OK) status = tutti_broadcast(&value, 1, TUTTI_FLOAT32, 0, comm);
    if (rank == 0) exit(0);
    if (status == TUTTI_OK && value != 0) status = TUTTI_INTERNAL;
    return report_of(status, comm);
  });
  for (int rank = 0; rank < 3; ++rank) {
    Report report;
    EXPECT_EQ(finish(children[size_t(rank)], &report), rank != 0);
    if (rank != 0) {
      EXPECT_EQ(report.status, TUTTI_OK) << report.text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ForkedChild,
                         ::testing::ValuesIn(tutti::testing::with_ucx({"shm", "tcp"})),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
