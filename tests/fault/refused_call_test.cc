// One rank's system call is refused while a communicator is made, by a seccomp filter. All ranks
// end at once and are told which rank it was and what it could not do; or they go another way.
#include <gtest/gtest.h>
#include <linux/mman.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <fcntl.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "tests/support/processes.h"
#include "tests/support/refusal.h"
#include "tests/support/sanitized.h"

namespace {

using tutti::testing::Child;
using tutti::testing::finish;
using tutti::testing::Joining;
using tutti::testing::Refusal;
using tutti::testing::refuse;
using tutti::testing::Report;
using tutti::testing::report_of;

constexpr int nranks = 3;
constexpr uint64_t at_once_ns = tutti::testing::sanitized ? 5'000'000'000 : 1'000'000'000;

struct Row {
  const char* what;
  int victim;
  std::vector<Refusal> refusals;
  // In the sentence of all ranks; null: the call is not needed, and the communicator works.
  const char* sentence;
  tutti_status status = TUTTI_SYSTEM;
};

void refuse_all(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    if (!refuse(refusal)) _exit(94);
  }
}

// A small allreduce, checked; with another status if that is not OK already.
Report sum(tutti_status status, tutti_comm comm) {
  float in = 1, out = 0;
  if (status == TUTTI_OK) {
    status = tutti_allreduce(&in, &out, 1, TUTTI_FLOAT32, TUTTI_SUM, comm);
    if (status == TUTTI_OK && out != nranks) status = TUTTI_INTERNAL;
  }
  return report_of(status, comm);
}

void check(const Row& row, const std::vector<Child>& children, uint64_t start_ns) {
  for (int rank = 0; rank < nranks; ++rank) {
    SCOPED_TRACE(std::string(row.what) + " refused to rank " + std::to_string(row.victim) +
                 ", as rank " + std::to_string(rank) + " sees it");
    Report report;
    ASSERT_TRUE(finish(children[size_t(rank)], &report)) << "it ended without a word";
    const std::string text = report.text;
    EXPECT_LT(report.ended_ns - start_ns, at_once_ns) << text;
    if (row.sentence == nullptr) {
      EXPECT_EQ(report.status, TUTTI_OK) << text;
      continue;
    }
    EXPECT_EQ(report.status, row.status) << text;
    EXPECT_NE(text.find(row.sentence), std::string::npos) << text;
    if (rank == row.victim) continue;
    EXPECT_NE(text.find("rank " + std::to_string(row.victim)), std::string::npos) << text;
  }
}

// Ranks that sum once; before the victim makes the communicator, `limit` is done to it.
std::vector<Child> start_limited(int victim, const char* transport,
                                 const std::function<void()>& limit, int64_t setup_ms = 20'000) {
  Joining joining;
  joining.setup_ms = setup_ms;
  joining.before = [&](int rank) {
    if (rank == victim) limit();
  };
  return tutti::testing::start(
      nranks, transport, [](int, tutti_comm comm) { return sum(TUTTI_OK, comm); }, joining);
}
std::vector<Child> start_refused(const Row& row, const char* transport, int64_t setup_ms = 20'000) {
  return start_limited(
      row.victim, transport, [&] { refuse_all(row.refusals); }, setup_ms);
}

class RefusedCall : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!tutti::testing::can_refuse()) GTEST_SKIP() << "no seccomp filters here";
  }

  // The first communicator of a process.
  static void make_first(const Row& row, const char* transport) {
    const uint64_t start_ns = tutti::now_ns();
    check(row, start_refused(row, transport), start_ns);
  }

  // Something else that all ranks of a communicator make together; where it fails on one that
  // shares memory, the communicator goes on.
  static void make_later(const Row& row, const char* transport,
                         const std::function<Report(tutti_comm)>& make) {
    const uint64_t start_ns = tutti::now_ns();
    const bool goes_on = std::string(transport) == "shm";
    check(row,
          tutti::testing::start(nranks, transport,
                                [&](int rank, tutti_comm comm) {
                                  if (sum(TUTTI_OK, comm).status != TUTTI_OK) _exit(95);
                                  if (!meets_everybody(comm)) _exit(95);
                                  if (rank == row.victim) refuse_all(row.refusals);
                                  const Report report = make(comm);
                                  if (goes_on && sum(TUTTI_OK, comm).status != TUTTI_OK) _exit(96);
                                  if (report.status != TUTTI_OK && rank != row.victim &&
                                      report.rank != row.victim) {
                                    _exit(97);
                                  }
                                  return report;
                                }),
          start_ns);
  }

  // So that all pairs of ranks have the connections that they make when they first need one: blocks
  // that are as long as these wait for them.
  static bool meets_everybody(tutti_comm comm) {
    constexpr size_t block = 256 << 10;
    const std::vector<uint8_t> mine(nranks * block);
    std::vector<uint8_t> all(nranks * block);
    return tutti_alltoall(mine.data(), all.data(), block, TUTTI_UINT8, comm) == TUTTI_OK;
  }

  static void derive(const Row& row, const char* transport) {
    make_later(row, transport, [](tutti_comm comm) {
      tutti_comm part = nullptr;
      const tutti_status made = tutti_comm_dup(comm, &part);
      return of_part(made, comm, part);
    });
  }
  // In another order; what is told is in the numbers of the communicator that there is.
  static void derive_in_another_order(const Row& row) {
    make_later(row, "tcp", [](tutti_comm comm) {
      int rank = 0;
      tutti_comm_rank(comm, &rank);
      tutti_comm part = nullptr;
      const tutti_status made = tutti_comm_split(comm, 0, (rank + 2) % nranks, &part);
      return of_part(made, comm, part);
    });
  }
  static Report of_part(tutti_status made, tutti_comm comm, tutti_comm part) {
    if (made != TUTTI_OK) return report_of(made, comm);
    const Report report = sum(made, part);
    tutti_comm_free(part);
    return report;
  }
};

std::vector<Row> of_shared_memory() {
  return {
      {"memfd_create", 0, {{SYS_memfd_create, EPERM}}, "cannot make shared memory"},
      {"memfd_create, as by a kernel without it",
       0,
       {{SYS_memfd_create, ENOSYS}},
       "cannot make shared memory"},
      {"memfd_create", 1, {{SYS_memfd_create, EPERM}}, nullptr},
      {"ftruncate", 0, {{SYS_ftruncate, EPERM}}, "cannot size"},
      {"fcntl(F_ADD_SEALS)", 0, {{SYS_fcntl, EPERM, 1, F_ADD_SEALS}}, "cannot seal shared memory"},
      {"mmap(MAP_SHARED)", 0, {{SYS_mmap, EPERM, 3, MAP_SHARED}}, "cannot map"},
      {"mmap(MAP_SHARED)", 1, {{SYS_mmap, EPERM, 3, MAP_SHARED}}, "cannot map"},
      {"socket(AF_UNIX)", 0, {{SYS_socket, EPERM, 0, AF_UNIX}}, "cannot make a Unix socket"},
      {"socket(AF_UNIX)", 1, {{SYS_socket, EPERM, 0, AF_UNIX}}, "cannot make a Unix socket"},
      {"bind", 0, {{SYS_bind, EPERM}}, "cannot listen on a Unix socket"},
      {"listen", 0, {{SYS_listen, EPERM}}, "cannot listen on a Unix socket"},
      {"getsockopt(SO_PEERCRED)",
       0,
       {{SYS_getsockopt, EPERM, 2, SO_PEERCRED}},
       "cannot find out whose process"},
      {"sendmsg", 0, {{SYS_sendmsg, EPERM}}, "cannot pass shared memory"},
      {"sendmsg", 1, {{SYS_sendmsg, EPERM}}, "cannot pass shared memory"},
      {"recvmsg", 0, {{SYS_recvmsg, EPERM}}, "cannot receive shared memory"},
      {"recvmsg", 1, {{SYS_recvmsg, EPERM}}, "cannot receive shared memory"},
      {"fcntl(F_SETLK)", 0, {{SYS_fcntl, EPERM, 1, F_SETLK}}, "cannot lock shared memory"},
      {"fcntl(F_SETLK)", 1, {{SYS_fcntl, EPERM, 1, F_SETLK}}, "cannot lock shared memory"},
      {"madvise(MADV_POPULATE_WRITE)", 1, {{SYS_madvise, EPERM, 2, MADV_POPULATE_WRITE}}, nullptr},
      {"pidfd_open, as by a kernel without it", 1, {{SYS_pidfd_open, ENOSYS}}, nullptr},
      {"membarrier", 1, {{SYS_membarrier, ENOSYS}}, nullptr},
      {"sched_getaffinity", 1, {{SYS_sched_getaffinity, EPERM}}, nullptr},
  };
}

TEST_F(RefusedCall, OfSharedMemoryIsNamedToAll) {
  for (const Row& row : of_shared_memory()) make_first(row, "shm");
}

TEST_F(RefusedCall, OfSharedMemoryIsNamedToAllOfADerivedCommunicator) {
  for (const Row& row : of_shared_memory()) derive(row, "shm");
  for (const Row& row : std::vector<Row>{
           {"connect", 1, {{SYS_connect, EPERM}}, "cannot reach the rank that hands out"},
           {"accept4", 0, {{SYS_accept4, EPERM}}, "cannot accept a rank of this host"},
           {"getrandom", 0, {{SYS_getrandom, EPERM}}, "random bytes"},
           {"getrandom", 1, {{SYS_getrandom, EPERM}}, "random bytes"},
       }) {
    derive(row, "shm");
  }
}

TEST_F(RefusedCall, OfSymmetricMemoryIsNamedToAll) {
  for (const int victim : {0, 1}) {
    std::vector<Row> rows = {
        {"memfd_create", victim, {{SYS_memfd_create, EPERM}}, "cannot make shared memory"},
        {"mmap(MAP_SHARED)", victim, {{SYS_mmap, EPERM, 3, MAP_SHARED}}, "cannot map"},
        {"mmap(MAP_SHARED)",
         victim,
         {{SYS_mmap, ENOMEM, 3, MAP_SHARED}},
         "cannot map",
         TUTTI_NO_MEMORY},
        {"socket", victim, {{SYS_socket, EPERM}}, "cannot make a Unix socket"},
        {"sendmsg", victim, {{SYS_sendmsg, EPERM}}, "cannot pass shared memory"},
        {"recvmsg", victim, {{SYS_recvmsg, EPERM}}, "cannot receive shared memory"},
    };
    rows.push_back(victim == 0
                       ? Row{"accept4", 0, {{SYS_accept4, EPERM}}, "cannot accept a rank"}
                       : Row{"connect", 1, {{SYS_connect, EPERM}}, "cannot reach the rank"});
    for (const Row& row : rows) {
      make_later(row, "shm", [](tutti_comm comm) {
        void* memory = nullptr;
        return report_of(tutti_mem_alloc(comm, 1 << 20, &memory), comm);
      });
    }
  }
}

// Nothing of it is needed where ranks may go another way.
TEST_F(RefusedCall, OfSharedMemoryMakesRanksGoOverTcp) {
  for (const int victim : {0, 1, 2}) {
    for (const int error : {EPERM, ENOSYS}) {
      make_first({"memfd_create", victim, {{SYS_memfd_create, error}}, nullptr}, nullptr);
      make_first({"socket(AF_UNIX)", victim, {{SYS_socket, error, 0, AF_UNIX}}, nullptr}, nullptr);
    }
  }
}

// In the order in which they are made. Those that a rank needs to find the others are below.
TEST_F(RefusedCall, OfTcpIsNamedToAll) {
  for (const int victim : {0, 1, 2}) {
    for (const Row& row : std::vector<Row>{
             {"socket(AF_NETLINK)",
              victim,
              {{SYS_socket, EPERM, 0, AF_NETLINK}},
              "cannot list the network interfaces"},
             {"listen", victim, {{SYS_listen, EPERM}}, "cannot listen on"},
             {"fcntl(F_DUPFD_CLOEXEC)",
              victim,
              {{SYS_fcntl, EPERM, 1, F_DUPFD_CLOEXEC}},
              "descriptors"},
             {"epoll_create1", victim, {{SYS_epoll_create1, EPERM}}, "cannot make an epoll"},
             {"eventfd2", victim, {{SYS_eventfd2, EPERM}}, "cannot make an eventfd"},
             {"epoll_ctl", victim, {{SYS_epoll_ctl, EPERM}}, "cannot watch a socket"},
         }) {
      // Rank 0 takes descriptors for all others before they come.
      if (victim == 0 && row.refusals[0].call == SYS_fcntl) continue;
      make_first(row, "tcp");
    }
  }
}

TEST_F(RefusedCall, OfTcpIsNamedToAllOfADerivedCommunicator) {
  for (const int victim : {0, 1, 2}) {
    std::vector<Row> rows = {
        {"socket(AF_INET)", victim, {{SYS_socket, EPERM, 0, AF_INET}}, "cannot make a socket"},
        {"ppoll", victim, {{SYS_ppoll, EPERM}}, "cannot wait on sockets"},
    };
    for (const Row& row : rows) derive_in_another_order(row);
    rows.push_back({"bind", victim, {{SYS_bind, EPERM}}, "cannot list the network interfaces"});
    // The higher rank calls the lower.
    if (victim != 0) rows.push_back({"connect", victim, {{SYS_connect, EPERM}}, "cannot reach"});
    if (victim != nranks - 1) {
      rows.push_back({"accept4", victim, {{SYS_accept4, EPERM}}, "cannot accept"});
      rows.push_back({"accept4", victim, {{SYS_accept4, ENOSYS}}, "cannot accept"});
    }
    for (const Row& row : rows) derive(row, "tcp");
  }
}

TEST_F(RefusedCall, ThatStartsTheProgressThreadIsNamedToAll) {
  setenv("TUTTI_PROGRESS_THREAD", "1", 1);
  for (const char* const transport : {"shm", "tcp"}) {
    make_first({"clone3", 1, {{SYS_clone3, EPERM}, {SYS_clone, EPERM}}, "the progress thread"},
               transport);
  }
  unsetenv("TUTTI_PROGRESS_THREAD");
}

// The victim says at once what it cannot do. The others cannot know it, and wait for it as long as
// they wait for a rank that comes late; then it is named.
TEST_F(RefusedCall, BeforeARankHasFoundTheOthersIsItsOwn) {
  for (const Row& row : std::vector<Row>{
           {"socket(AF_INET)", 1, {{SYS_socket, EPERM, 0, AF_INET}}, "cannot make a socket"},
           {"connect", 1, {{SYS_connect, EPERM}}, "cannot reach rank 0"},
           {"sendto", 1, {{SYS_sendto, EPERM}}, "cannot speak with rank 0"},
           {"recvfrom", 1, {{SYS_recvfrom, EPERM}}, "cannot speak with rank 0"},
           {"getrandom", 1, {{SYS_getrandom, EPERM}}, "random bytes"},
           {"ppoll", 1, {{SYS_ppoll, EPERM}}, "cannot wait on sockets"},
       }) {
    SCOPED_TRACE(row.what);
    const uint64_t start_ns = tutti::now_ns();
    const auto children = start_refused(row, "tcp", 1500);
    for (int rank = 0; rank < nranks; ++rank) {
      Report report;
      ASSERT_TRUE(finish(children[size_t(rank)], &report));
      const std::string text = report.text;
      if (rank == row.victim) {
        EXPECT_EQ(report.status, TUTTI_SYSTEM) << text;
        EXPECT_NE(text.find(row.sentence), std::string::npos) << text;
        EXPECT_LT(report.ended_ns - start_ns, at_once_ns);
      } else {
        EXPECT_TRUE(report.status == TUTTI_TIMEOUT || report.status == TUTTI_PEER_FAILED) << text;
        EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
        EXPECT_LT(report.ended_ns - start_ns, 1'500'000'000 + at_once_ns);
      }
    }
  }
}

// Rank 0 is the one that others find: they are told that it is gone.
TEST_F(RefusedCall, ByWhichRank0IsFoundEndsAll) {
  for (const Row& row : std::vector<Row>{
           {"accept4", 0, {{SYS_accept4, EPERM}}, "cannot accept a rank's connection"},
           {"accept4", 0, {{SYS_accept4, ENOSYS}}, "cannot accept a rank's connection"},
           {"sendto", 0, {{SYS_sendto, EPERM}}, "cannot answer a rank's call"},
           {"recvfrom", 0, {{SYS_recvfrom, EPERM}}, "cannot answer a rank's call"},
           {"ppoll", 0, {{SYS_ppoll, EPERM}}, "cannot wait on sockets"},
       }) {
    SCOPED_TRACE(row.what);
    const uint64_t start_ns = tutti::now_ns();
    const auto children = start_refused(row, "tcp");
    for (int rank = 0; rank < nranks; ++rank) {
      Report report;
      ASSERT_TRUE(finish(children[size_t(rank)], &report));
      const std::string text = report.text;
      // Where the others have been let in before, they are told why.
      const bool gone = rank != 0 && report.status == TUTTI_PEER_FAILED;
      EXPECT_TRUE(gone || report.status == TUTTI_SYSTEM) << report.status << ": " << text;
      EXPECT_NE(text.find(rank == 0 ? row.sentence : "rank 0"), std::string::npos) << text;
      EXPECT_LT(report.ended_ns - start_ns, at_once_ns) << text;
    }
  }
}

// ---------------------------------------------------------------- memory that is not to be had

TEST_F(RefusedCall, ForWantOfMemoryIsNamedToAll) {
  const Refusal before_5_14{SYS_madvise, EINVAL, 2, MADV_POPULATE_WRITE};
  for (const Row& row : std::vector<Row>{
           {"fallocate",
            0,
            {before_5_14, {SYS_fallocate, ENOSPC}},
            "cannot allocate",
            TUTTI_NO_MEMORY},
           {"madvise, as by a kernel before 5.14", 0, {before_5_14}, nullptr},
           {"memfd_create",
            0,
            {{SYS_memfd_create, ENOMEM}},
            "cannot make shared memory",
            TUTTI_NO_MEMORY},
           {"mmap(MAP_SHARED)",
            2,
            {{SYS_mmap, ENOMEM, 3, MAP_SHARED}},
            "cannot map",
            TUTTI_NO_MEMORY},
       }) {
    make_first(row, "shm");
  }
}

// Of the pages that come before the first call whose ways are tried.
TEST_F(RefusedCall, ForWantOfPagesFailsTheCallOnAll) {
  const Row row{"madvise(MADV_POPULATE_WRITE)",
                1,
                {{SYS_madvise, EFAULT, 2, MADV_POPULATE_WRITE}},
                "in call 2, allreduce of 16384 float32, sum",
                TUTTI_NO_MEMORY};
  const uint64_t start_ns = tutti::now_ns();
  check(row,
        tutti::testing::start(nranks, "shm",
                              [&](int rank, tutti_comm comm) {
                                if (sum(TUTTI_OK, comm).status != TUTTI_OK) _exit(95);
                                if (rank == row.victim) refuse_all(row.refusals);
                                std::vector<float> vector(16 << 10);
                                return report_of(
                                    tutti_allreduce(TUTTI_IN_PLACE, vector.data(), vector.size(),
                                                    TUTTI_FLOAT32, TUTTI_SUM, comm),
                                    comm);
                              }),
        start_ns);
}

size_t mapped_bytes() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * size_t(sysconf(_SC_PAGESIZE));
}

// Also where the limit is the process's own, and the kernel would end it by a signal.
TEST(Memory, BeyondALimitOfOneRankIsNamedToAll) {
  struct Limited {
    const char* what;
    int victim;
    std::function<void()> limit;
    const char* sentence;
  };
  const auto limit_to = [](int resource, size_t bytes) {
    const rlimit limit{bytes, bytes};
    setrlimit(__rlimit_resource_t(resource), &limit);
  };
  std::vector<Limited> all = {
      {"the size of files", 0, [&] { limit_to(RLIMIT_FSIZE, 1 << 20); }, "ulimit -f"}};
  if (!tutti::testing::sanitized) {
    all.push_back({"the address space", 1, [&] { limit_to(RLIMIT_AS, mapped_bytes() + (8 << 20)); },
                   "cannot map"});
  }
  for (const Limited& one : all) {
    const uint64_t start_ns = tutti::now_ns();
    check({one.what, one.victim, {}, one.sentence, TUTTI_NO_MEMORY},
          start_limited(one.victim, "shm", one.limit), start_ns);
  }
}

TEST(Memory, BeyondTheLimitForFilesLeavesOutTheFlightRecord) {
  std::string folder = ::testing::TempDir() + "record-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  setenv("TUTTI_RECORD_DIR", folder.c_str(), 1);
  const auto limit = [] {
    const rlimit few{512, 512};
    setrlimit(RLIMIT_FSIZE, &few);
  };
  const uint64_t start_ns = tutti::now_ns();
  check({"the size of files", 1, {}, nullptr}, start_limited(1, "tcp", limit), start_ns);
  unsetenv("TUTTI_RECORD_DIR");
  std::filesystem::remove_all(folder);
}

}  // namespace
