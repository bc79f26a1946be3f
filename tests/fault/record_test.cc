// What the doctor reads out of the flight records of real processes that are killed, stopped, gone,
// late or wrong: the right rank, call, peer and link, while they live, afterwards, and from copies.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/processes.h"
#include "tools/doctor/folder.h"

namespace {

using tutti::doctor::Diagnosis;
using tutti::doctor::Finding;
using tutti::doctor::Folder;
using tutti::testing::Child;
using tutti::testing::finish;
using tutti::testing::Report;
using tutti::testing::report_of;

tutti_status sum(tutti_comm comm, size_t count, int64_t timeout_ms = 0) {
  const std::vector<float> in(count, 1);
  std::vector<float> out(count);
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.timeout_ms = timeout_ms;
  return tutti_allreduce_with(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm,
                              &config);
}

class Doctor : public ::testing::TestWithParam<const char*> {
 protected:
  Doctor() {
    std::string made = ::testing::TempDir() + "tutti-records-XXXXXX";
    folder_ = mkdtemp(made.data());
    setenv("TUTTI_RECORD_DIR", folder_.c_str(), 1);
  }
  ~Doctor() override {
    unsetenv("TUTTI_RECORD_DIR");
    std::filesystem::remove_all(folder_);
    std::filesystem::remove_all(copies());
  }

  std::vector<Child> start(int nranks, const std::function<tutti_status(int, tutti_comm)>& body) {
    return tutti::testing::start(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      return report_of(body(rank, comm), comm);
    });
  }
  // The reports of those that tell.
  static std::vector<Report> finish_all(const std::vector<Child>& children) {
    std::vector<Report> all;
    for (const Child& child : children) {
      Report report;
      if (finish(child, &report)) all.push_back(report);
    }
    return all;
  }

  std::string copies() const { return folder_ + "-copies"; }
  static Diagnosis diagnose(const std::string& path) {
    Folder folder;
    const tutti::Status read = read_folder(path, &folder);
    EXPECT_TRUE(read.ok()) << read.text();
    EXPECT_EQ(folder.damaged, std::vector<std::string>());
    return tutti::doctor::diagnose(folder.subjects, folder.now_ns);
  }
  Diagnosis diagnose() const { return diagnose(folder_); }
  Diagnosis diagnose_copies() const {
    std::filesystem::remove_all(copies());
    std::filesystem::copy(folder_, copies());
    return diagnose(copies());
  }

  // Rank 1 is what is wrong, on the communicator of all three.
  static void expect(const Diagnosis& found, Finding finding, const Child& culprit,
                     const std::vector<std::string>& words) {
    EXPECT_EQ(found.finding, finding) << name_of(found.finding) << ": " << found.sentence;
    EXPECT_EQ(found.who.rank, 1) << found.sentence;
    EXPECT_EQ(found.who.process, culprit.pid) << found.sentence;
    EXPECT_EQ(found.nranks, 3);
    EXPECT_EQ(found.link, GetParam()) << found.sentence;
    EXPECT_NE(found.waiting.rank, 1) << found.sentence;
    EXPECT_EQ(found.sentence.find('\n'), std::string::npos);
    for (const std::string& word : words)
      EXPECT_NE(found.sentence.find(word), std::string::npos) << word << ": " << found.sentence;
  }

  std::string folder_;
};

TEST_P(Doctor, NamesARankThatIsKilledInACall) {
  const auto children = start(3, [](int rank, tutti_comm comm) {
    tutti_barrier(comm);
    if (rank == 0) usleep(1'500'000);
    return sum(comm, 300'000);
  });
  usleep(500'000);
  kill(children[1].pid, SIGKILL);
  // Rank 0 may have all that it needs of rank 1.
  for (const Report& report : finish_all(children))
    EXPECT_EQ(report.rank, report.status == TUTTI_OK ? -1 : 1) << report.text;
  for (const Diagnosis& found : {diagnose(), diagnose_copies()}) {
    expect(found, Finding::died, children[1],
           {"rank 1", "has died in call 2, allreduce of 300000 float32, sum"});
    EXPECT_NE(found.why.find("rank 1 died"), std::string::npos) << found.why;
  }
}

TEST_P(Doctor, SeesAStoppedRankWhileOthersWait) {
  const auto children = start(3, [](int rank, tutti_comm comm) {
    tutti_barrier(comm);
    if (rank == 1) raise(SIGSTOP);
    return sum(comm, 5);
  });
  usleep(1'600'000);
  const Diagnosis stopped = diagnose();
  expect(stopped, Finding::stopped, children[1],
         {"rank 1", "is stopped", "after call 1, barrier", "before call 2, allreduce of 5"});
  if (std::string(GetParam()) == "tcp") {  // both ends of the link are named
    EXPECT_NE(stopped.sentence.find("over tcp (127.0.0.1:"), std::string::npos) << stopped.sentence;
    EXPECT_NE(stopped.sentence.find(" to 127.0.0.1:"), std::string::npos) << stopped.sentence;
  } else if (std::string(GetParam()) == "shm") {
    EXPECT_EQ(stopped.addresses, "") << stopped.sentence;
  }
  // Of copies nobody knows whether a process is stopped.
  expect(diagnose_copies(), Finding::late, children[1],
         {"rank 1", "has not entered call 2, allreduce of 5", "its latest is call 1, barrier"});
  kill(children[1].pid, SIGCONT);
  for (const Report& report : finish_all(children)) EXPECT_EQ(report.status, TUTTI_OK);
  EXPECT_EQ(diagnose().finding, Finding::healthy) << diagnose().sentence;
}

TEST_P(Doctor, NamesTheRankThatCallsSomethingElse) {
  const auto children = start(3, [](int rank, tutti_comm comm) {
    sum(comm, 5);
    return rank == 1 ? tutti_barrier(comm) : sum(comm, 7);
  });
  for (const Report& report : finish_all(children)) EXPECT_EQ(report.status, TUTTI_MISMATCH);
  for (const Diagnosis& found : {diagnose(), diagnose_copies()}) {
    expect(found, Finding::mismatch, children[1],
           {"rank 1", "makes call 2, barrier", "makes allreduce of 7 float32"});
    EXPECT_EQ(found.call, 2u);
  }
}

TEST_P(Doctor, NamesARankThatHasLeft) {
  const auto children = start(3, [](int rank, tutti_comm comm) {
    sum(comm, 5);
    if (rank == 1) quick_exit(0);
    return sum(comm, 7);
  });
  EXPECT_EQ(finish_all(children).size(), 2u);
  for (const Diagnosis& found : {diagnose(), diagnose_copies()})
    expect(found, Finding::left, children[1],
           {"rank 1", "has ended by exit after call 1, allreduce of 5"});
}

TEST_P(Doctor, NamesARankThatNeverCalls) {
  const auto children = start(3, [](int rank, tutti_comm comm) {
    if (rank == 1) pause();
    return sum(comm, 5, 2500);
  });
  usleep(1'500'000);
  expect(diagnose(), Finding::late, children[1],
         {"rank 1", "has not entered call 1, allreduce of 5", "it has not made any call"});
  for (const int rank : {0, 2}) {
    Report report;
    ASSERT_TRUE(finish(children[size_t(rank)], &report));
    EXPECT_EQ(report.status, TUTTI_TIMEOUT);
    EXPECT_EQ(report.rank, 1) << report.text;
  }
  for (const Diagnosis& found : {diagnose(), diagnose_copies()})
    expect(found, Finding::late, children[1],
           {"has not entered call 1, allreduce of 5", "until the deadline"});
  kill(children[1].pid, SIGKILL);
  Report report;
  finish(children[1], &report);
}

// Rank 0 waits for rank 2 as far as it knows, and that one on another communicator for rank 1.
TEST_P(Doctor, FollowsWhoWaitsForWhomAcrossCommunicators) {
  const auto children = start(3, [](int rank, tutti_comm comm) {
    tutti_comm part = nullptr;
    if (tutti_comm_split(comm, rank == 0 ? -1 : 0, rank, &part) != TUTTI_OK) return TUTTI_INTERNAL;
    tutti_status status = TUTTI_OK;
    if (rank == 2) status = sum(part, 9);
    if (rank == 1) pause();
    if (status == TUTTI_OK) status = sum(comm, 5);
    tutti_comm_free(part);
    return status;
  });
  usleep(2'000'000);
  const Diagnosis found = diagnose();
  EXPECT_EQ(found.finding, Finding::late) << found.sentence;
  EXPECT_EQ(found.who.process, children[1].pid) << found.sentence;
  EXPECT_EQ(found.waiting.process == children[2].pid ? 2 : 3, found.nranks) << found.sentence;
  for (const Child& child : children) kill(child.pid, SIGKILL);
  finish_all(children);
  // All were killed: who waited for whom says it still.
  EXPECT_EQ(diagnose().who.process, children[1].pid) << diagnose().sentence;
}

#if !defined(__SANITIZE_THREAD__)  // its own thread might make the call that others wait for
TEST_P(Doctor, SaysThatRanksWaitForEachOther) {
  const auto children = tutti::testing::start(2, GetParam(), [](int rank, tutti_comm comm) {
    tutti_comm a = nullptr, b = nullptr;
    tutti_comm_dup(comm, &a);
    tutti_comm_dup(comm, &b);
    if (rank == 1) std::swap(a, b);
    const Report report = report_of(sum(a, 3), a);
    tutti_comm_free(a);
    tutti_comm_free(b);
    return report;
  });
  for (const Report& report : finish_all(children))
    EXPECT_NE(std::string(report.text).find("deadlock"), std::string::npos) << report.text;
  EXPECT_EQ(diagnose().finding, Finding::deadlock) << diagnose().sentence;
}
#endif

TEST_P(Doctor, SaysWhichMessageIsMissing) {
  const auto children = start(3, [](int rank, tutti_comm comm) {
    float value = 0;
    if (rank == 1) pause();
    if (rank == 0) return tutti_recv(&value, 1, TUTTI_FLOAT32, 1, 6, comm);
    return TUTTI_OK;
  });
  usleep(1'600'000);
  expect(diagnose(), Finding::late, children[1],
         {"rank 1", "a message of 1 float32, tag 6, from rank 1", "rank 0 waited for it"});
  kill(children[1].pid, SIGKILL);
  finish_all(children);
  expect(diagnose(), Finding::died, children[1], {"rank 1", "has died before its first call"});
}

TEST_P(Doctor, SaysThatAReceiveWaitsForAnyRank) {
  const auto children = start(3, [](int rank, tutti_comm comm) {
    if (rank != 0) pause();
    float value = 0;
    int source = -1;
    tutti_request request = nullptr;
    tutti_irecv_any(&value, 1, TUTTI_FLOAT32, 6, &source, comm, nullptr, &request);
    return tutti_wait(&request);
  });
  usleep(1'600'000);
  const Diagnosis found = diagnose();
  EXPECT_EQ(found.finding, Finding::stuck) << found.sentence;
  for (const char* const words :
       {"rank 0", "a message of 1 float32, tag 6, from any rank for ", ", and none sends it"})
    EXPECT_NE(found.sentence.find(words), std::string::npos) << found.sentence;
  kill(children[1].pid, SIGKILL);
  kill(children[2].pid, SIGKILL);
  finish_all(children);
}

TEST_P(Doctor, FindsNothingWhereNothingIs) {
  const auto children = start(3, [](int, tutti_comm comm) {
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < 1000 && status == TUTTI_OK; ++i) status = sum(comm, 5);
    return status;
  });
  for (const Report& report : finish_all(children)) EXPECT_EQ(report.status, TUTTI_OK);
  for (const Diagnosis& found : {diagnose(), diagnose_copies()}) {
    EXPECT_EQ(found.finding, Finding::healthy) << found.sentence;
    EXPECT_EQ(found.calls, 1000u);
    EXPECT_NE(found.sentence.find("nothing is wrong: 3 processes, 1 communicator, 1000 calls"),
              std::string::npos)
        << found.sentence;
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Doctor, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
