#include "lib/config/launch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>

#include "lib/base/fd.h"
#include "lib/config/config.h"

namespace tutti {
namespace {

class LaunchEnvironment : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const VariableInfo& info : config_variables()) unsetenv(info.name);
  }
  static void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

  // What `tutti run` leaves for a rank.
  void be_rank(int rank, int nranks) {
    for (size_t i = 0; i < sizeof id_.bytes; ++i) id_.bytes[i] = static_cast<unsigned char>(i + 1);
    int fd = -1;
    ASSERT_TRUE(share_id(id_, &fd).ok());
    job_ = Fd(fd);
    listener_ = Fd(socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(listen(listener_.get(), 1), 0);
    set("TUTTI_RANK", std::to_string(rank));
    set("TUTTI_SIZE", std::to_string(nranks));
    set("TUTTI_LOCAL_RANK", std::to_string(rank));
    set("TUTTI_LOCAL_SIZE", std::to_string(nranks));
    set("TUTTI_JOB_FD", std::to_string(job_.get()));
    if (rank == 0) set("TUTTI_LISTEN_FD", std::to_string(listener_.get()));
  }

  tutti_unique_id id_{};
  Fd job_, listener_;
  Launch launch_;
};

TEST_F(LaunchEnvironment, NothingSetIsOneRank) {
  ASSERT_TRUE(read_launch(&launch_).ok());
  EXPECT_EQ(launch_.by, Launch::By::nobody);
  EXPECT_EQ(launch_.rank, 0);
  EXPECT_EQ(launch_.nranks, 1);
}

TEST_F(LaunchEnvironment, RankZeroGetsTheIdAndTheListener) {
  be_rank(0, 3);
  const Status status = read_launch(&launch_);
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(launch_.by, Launch::By::tutti_run);
  EXPECT_EQ(launch_.nranks, 3);
  EXPECT_EQ(launch_.local_nranks, 3);
  EXPECT_EQ(launch_.listen_fd, listener_.get());
  EXPECT_EQ(std::memcmp(launch_.id.bytes, id_.bytes, sizeof id_.bytes), 0);
}

TEST_F(LaunchEnvironment, OtherRanksGetTheIdOnly) {
  be_rank(2, 3);
  ASSERT_TRUE(read_launch(&launch_).ok());
  EXPECT_EQ(launch_.rank, 2);
  EXPECT_EQ(launch_.local_rank, 2);
  EXPECT_EQ(launch_.listen_fd, -1);
  EXPECT_EQ(std::memcmp(launch_.id.bytes, id_.bytes, sizeof id_.bytes), 0);
}

TEST_F(LaunchEnvironment, TheIdCanBeReadAgainAndIsKeptFromChildren) {
  be_rank(0, 2);
  ASSERT_TRUE(read_launch(&launch_).ok());
  EXPECT_EQ(fcntl(job_.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(fcntl(listener_.get(), F_GETFD), FD_CLOEXEC);
  ASSERT_TRUE(read_launch(&launch_).ok());
  EXPECT_EQ(std::memcmp(launch_.id.bytes, id_.bytes, sizeof id_.bytes), 0);
}

TEST_F(LaunchEnvironment, TheSharedIdCannotBeChanged) {
  be_rank(0, 2);
  EXPECT_EQ(write(job_.get(), "x", 1), -1);
  EXPECT_EQ(ftruncate(job_.get(), 0), -1);
}

TEST_F(LaunchEnvironment, ContradictionsAreInvalid) {
  const struct {
    const char* name;
    const char* value;
    const char* sentence;
  } cases[] = {
      {"TUTTI_RANK", "3", "TUTTI_RANK is 3, but must be less than TUTTI_SIZE, which is 3"},
      {"TUTTI_RANK", "", "TUTTI_SIZE is set, but TUTTI_RANK is not"},
      {"TUTTI_SIZE", "", "TUTTI_RANK is set, but TUTTI_SIZE is not"},
      {"TUTTI_JOB_FD", "", "TUTTI_RANK is set, but TUTTI_JOB_FD is not"},
      {"TUTTI_LISTEN_FD", "", "TUTTI_JOB_FD is set, but TUTTI_LISTEN_FD is not"},
      {"TUTTI_JOB_FD", "99", "TUTTI_JOB_FD is 99, which is not the memory file of a job"},
      {"TUTTI_LISTEN_FD", "1", "TUTTI_LISTEN_FD is 1, which is not a listening socket"},
  };
  for (const auto& c : cases) {
    be_rank(0, 3);
    set(c.name, c.value);
    const Status status = read_launch(&launch_);
    EXPECT_EQ(status.code(), TUTTI_INVALID) << c.name << "=" << c.value;
    EXPECT_TRUE(status.text().starts_with(c.sentence)) << status.text();
  }
}

TEST_F(LaunchEnvironment, AFileThatIsNotSealedIsNoJob) {
  be_rank(1, 2);
  const Fd open_file(memfd_create("not-a-job", 0));
  ASSERT_EQ(write(open_file.get(), id_.bytes, sizeof id_.bytes), ssize_t(sizeof id_.bytes));
  set("TUTTI_JOB_FD", std::to_string(open_file.get()));
  EXPECT_EQ(read_launch(&launch_).code(), TUTTI_INVALID);
}

TEST_F(LaunchEnvironment, AnAddressNeedsAKeyFile) {
  set("RANK", "1");
  set("WORLD_SIZE", "2");
  set("MASTER_ADDR", "node0");
  EXPECT_EQ(read_launch(&launch_).text(), "RANK is set, but MASTER_PORT is not");
  set("MASTER_PORT", "29500");
  EXPECT_EQ(read_launch(&launch_).code(), TUTTI_AUTH);
  set("TUTTI_KEY_FILE", "/run/job.key");
  const Status status = read_launch(&launch_);
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(launch_.by, Launch::By::rendezvous);
  EXPECT_EQ(launch_.rank, 1);
  EXPECT_EQ(launch_.host, "node0");
  EXPECT_EQ(launch_.port, 29500);
  EXPECT_EQ(launch_.key_file, "/run/job.key");
}

TEST_F(LaunchEnvironment, ThePortThatTorchrunItselfHasIsNotTaken) {
  set("RANK", "0");
  set("WORLD_SIZE", "2");
  set("MASTER_ADDR", "node0");
  set("TUTTI_KEY_FILE", "/run/job.key");
  for (const auto& [port, agent, taken] :
       {std::tuple("29500", "True", 29501), std::tuple("65535", "True", 65534),
        std::tuple("29500", "False", 29500)}) {
    set("MASTER_PORT", port);
    set("TORCHELASTIC_USE_AGENT_STORE", agent);
    ASSERT_TRUE(read_launch(&launch_).ok());
    EXPECT_EQ(launch_.port, taken) << port << " " << agent;
  }
}

TEST_F(LaunchEnvironment, SeveralProcessesOfAnotherLauncherAreNotAloneWithoutAWord) {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "PET_NNODES"}) {
    clear();
    set(name, "1");
    EXPECT_TRUE(read_launch(&launch_).ok());
    set(name, "4");
    const Status status = read_launch(&launch_);
    EXPECT_EQ(status.code(), TUTTI_INVALID);
    EXPECT_TRUE(status.text().starts_with(std::string(name) + " is 4, but nothing says how"))
        << status.text();
    set("RANK", "0");
    set("WORLD_SIZE", "1");
    EXPECT_TRUE(read_launch(&launch_).ok()) << "each is meant to be alone";
    be_rank(1, 2);
    EXPECT_TRUE(read_launch(&launch_).ok()) << "`tutti run` in a process of theirs";
  }
}

TEST_F(LaunchEnvironment, AWorldOfOneNeedsNoKey) {
  set("RANK", "0");
  set("WORLD_SIZE", "1");
  ASSERT_TRUE(read_launch(&launch_).ok());
  EXPECT_EQ(launch_.by, Launch::By::nobody);
}

}  // namespace
}  // namespace tutti
