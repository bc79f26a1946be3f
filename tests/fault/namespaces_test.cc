// Ranks of one host in namespaces of their own, as containers make them: what the kernel refuses
// between them they do another way, or they are all told which rank could not do what.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "tests/support/processes.h"
#include "tests/support/refusal.h"
#include "tests/support/sanitized.h"
#include "tests/support/with_ucx.h"

namespace tutti::testing {
namespace {

constexpr int nranks = 3, apart = 1;
constexpr uint64_t at_once_ns = sanitized ? 5'000'000'000 : 1'000'000'000;

bool write_to(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  const bool written = file >= 0 && write(file, text.data(), text.size()) == ssize_t(text.size());
  close(file);
  return written;
}

// Goes on in a child, the first process of a namespace; this one ends with it, and it with this.
void become_child() {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return;
  }
  int status = 0;
  waitpid(child, &status, 0);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
}

// `user`: of a new user namespace whose root he is; -1: none.
bool enter(int namespaces, int user = -1, bool mapped = true) {
  if (user > 0 && setresuid(uid_t(user), uid_t(user), uid_t(user)) != 0) return false;
  prctl(PR_SET_DUMPABLE, 1);  // for /proc/self/uid_map
  if (unshare(namespaces | (user >= 0 ? CLONE_NEWUSER : 0)) != 0) return false;
  if (user >= 0 && mapped && !write_to("/proc/self/uid_map", "0 " + std::to_string(user) + " 1"))
    return false;
  if ((namespaces & CLONE_NEWPID) != 0) become_child();
  return true;
}

struct Row {
  const char* what;
  bool (*enter)();
  const char* transport;  // the one that rank 1 is reached by; null: it cannot take part
  const char* sentence = nullptr;
};

const Row rows[] = {
    {"mounts", [] { return enter(CLONE_NEWNS); }, "shm"},
    {"IPC", [] { return enter(CLONE_NEWIPC); }, "shm"},
    {"host name", [] { return enter(CLONE_NEWUTS); }, "shm"},
    {"control groups", [] { return enter(CLONE_NEWCGROUP); }, "shm"},
    {"processes", [] { return enter(CLONE_NEWPID); }, "tcp"},
    {"processes, with their own /proc",
     [] {
       return enter(CLONE_NEWPID | CLONE_NEWNS) &&
              mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
              mount("proc", "/proc", "proc", 0, nullptr) == 0;
     },
     "tcp"},
    // Neither may read the other's memory.
    {"users, the same one as root", [] { return enter(0, 0); }, "shm"},
    {"users, nobody of whom is known outside", [] { return enter(0, 0, false); }, "tcp"},
    {"users, another one as root", [] { return enter(0, 1234); }, "tcp"},
    {"all but that of the network",
     [] {
       return enter(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWPID, 0);
     },
     "tcp"},
    {"none, but nothing may be read of another process",
     [] {
       return refuse({SYS_process_vm_readv, EPERM}) && refuse({SYS_process_vm_writev, EPERM}) &&
              refuse({SYS_pidfd_open, EPERM}) && refuse({SYS_ptrace, EPERM});
     },
     "shm"},
    {"mounts, without /proc",
     [] {
       return enter(CLONE_NEWNS) &&
              mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
              mount("none", "/proc", "tmpfs", 0, nullptr) == 0;
     },
     nullptr, "cannot read /proc/"},
};

class Namespaces : public ::testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "namespaces need root";
    const pid_t probe = fork();
    if (probe == 0) _exit(GetParam().enter() ? 0 : 1);
    int status = 0;
    waitpid(probe, &status, 0);
    if (status != 0) GTEST_SKIP() << "no namespaces of " << GetParam().what << " here";
  }

  static std::vector<Child> start(const char* transport,
                                  const std::function<Report(int, tutti_comm)>& body) {
    Joining joining;
    joining.before = [](int rank) {
      if (rank == apart && !GetParam().enter()) _exit(94);
    };
    return testing::start(nranks, transport, body, joining);
  }
};

// Of lengths that go in several ways.
tutti_status sum_all(tutti_comm comm) {
  for (const size_t count : {1, 1000, 300'000}) {
    std::vector<float> in(count, 1), out(count);
    const tutti_status status =
        tutti_allreduce(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm);
    if (status != TUTTI_OK) return status;
    if (out != std::vector<float>(count, nranks)) return TUTTI_INTERNAL;
  }
  return TUTTI_OK;
}

// And memory that is shared, and a communicator that is derived.
tutti_status use(tutti_comm comm) {
  tutti_status status = sum_all(comm);
  void* memory = nullptr;
  if (status == TUTTI_OK) status = tutti_mem_alloc(comm, 1 << 20, &memory);
  if (status == TUTTI_OK) status = tutti_mem_free(comm, memory);
  tutti_comm derived = nullptr;
  if (status == TUTTI_OK) status = tutti_comm_dup(comm, &derived);
  if (status == TUTTI_OK) status = sum_all(derived);
  tutti_comm_free(derived);
  return status;
}

TEST_P(Namespaces, RanksInThemReachEachOtherOrAllAreTold) {
  const Row& row = GetParam();
  const uint64_t start_ns = now_ns();
  const auto ranks = start(nullptr, [](int rank, tutti_comm comm) {
    Report report = report_of(use(comm), comm);
    const char* transport = "";
    tutti_comm_transport(comm, &transport);
    if (report.status == TUTTI_OK) snprintf(report.text, sizeof(report.text), "%s", transport);
    report.rank = rank;
    return report;
  });
  for (int rank = 0; rank < nranks; ++rank) {
    Report report;
    ASSERT_TRUE(finish(ranks[size_t(rank)], &report));
    const std::string text = report.text;
    if (row.transport == nullptr) {
      EXPECT_EQ(report.status, TUTTI_SYSTEM) << text;
      EXPECT_NE(text.find(row.sentence), std::string::npos) << text;
      if (rank != apart) {
        EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
      }
      EXPECT_LT(report.ended_ns - start_ns, at_once_ns) << text;
      continue;
    }
    ASSERT_EQ(report.status, TUTTI_OK) << text;
    // Ranks 0 and 2 share memory in any case.
    const std::string mixed = rank == apart ? "tcp" : "shm+tcp";
    EXPECT_EQ(text, std::string(row.transport) == "tcp" ? mixed : "shm") << rank;
  }
}

TEST_P(Namespaces, WhoDiesInOneIsNamed) {
  const Row& row = GetParam();
  if (row.transport == nullptr) return;
  const auto ranks = start(nullptr, [](int, tutti_comm comm) {
    tutti_status status = sum_all(comm);
    while (status == TUTTI_OK) status = sum_all(comm);
    return report_of(status, comm);
  });
  usleep(50'000);
  kill_and_expect_it_named(ranks, apart, at_once_ns);
}

// Single copies are asked for where the kernel refuses them.
TEST_P(Namespaces, NeedNoMemoryOfAnotherProcess) {
  if (GetParam().transport == nullptr) return;
  setenv("TUTTI_SINGLE_COPY", "always", 1);
  const auto ranks =
      start(nullptr, [](int, tutti_comm comm) { return report_of(sum_all(comm), comm); });
  unsetenv("TUTTI_SINGLE_COPY");
  for (const Child& rank : ranks) {
    Report report;
    ASSERT_TRUE(finish(rank, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
}

// By name, too: where shared memory cannot be used that is said, and UCX finds a way.
TEST_P(Namespaces, GoOverATransportThatIsNamedOrRefuseIt) {
  const Row& row = GetParam();
  if (row.transport == nullptr) return;
  for (const char* const transport : with_ucx({"shm", "tcp"})) {
    SCOPED_TRACE(transport);
    const uint64_t start_ns = now_ns();
    const bool refused = std::string(transport) == "shm" && std::string(row.transport) == "tcp";
    const auto ranks =
        start(transport, [](int, tutti_comm comm) { return report_of(sum_all(comm), comm); });
    for (const Child& rank : ranks) {
      Report report;
      ASSERT_TRUE(finish(rank, &report));
      const std::string text = report.text;
      EXPECT_EQ(report.status, refused ? TUTTI_UNSUPPORTED : TUTTI_OK) << text;
      if (!refused) continue;
      EXPECT_NE(text.find("can join rank 0 and rank 1"), std::string::npos) << text;
      EXPECT_LT(report.ended_ns - start_ns, at_once_ns) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Namespaces, ::testing::ValuesIn(rows), [](const auto& row) {
  std::string name;
  for (const char* c = row.param.what; *c != '\0'; ++c) name += isalnum(*c) ? *c : '_';
  return name;
});

}  // namespace
}  // namespace tutti::testing
