// A contender's processes may hang, die or talk nonsense: the comparison goes on without them.
#include "bench/peers/team.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

namespace tutti::bench {
namespace {

using std::chrono::milliseconds;

// A rank that says hello, takes the gate's descriptor and then does what `after` says, in Python.
Commandline rank(const Meeting& meeting, int number, const std::string& after) {
  const std::string program =
      "import os, socket, struct, sys, time\n"
      "s = socket.socket(socket.AF_UNIX)\n"
      "s.connect('\\0' + sys.argv[1])\n"
      "s.sendall(struct.pack('IiiI64s128s', 0x70656572, 0, int(sys.argv[2]), 0, b'0', b'fake "
      "1'))\n"
      "socket.recv_fds(s, 1, 1)\n";
  return {"python3", "-c", program + after, meeting.name(), std::to_string(number)};
}

void gather(Team& team, const Meeting& meeting) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!team.settled() && std::chrono::steady_clock::now() < deadline) {
    PeerHello hello;
    const int fd = meeting.accept(&hello);
    if (fd >= 0) team.join(fd, hello);
  }
  ASSERT_TRUE(team.settled());
}

constexpr char answer_one_run[] =
    "s.recv(48)\n"
    "s.sendall(struct.pack('Qdd', 0, 10.0 + int(sys.argv[2]), 20.0))\n"
    "s.recv(48)\n";

TEST(Team, TakesTheSlowestRankOfEachBatch) {
  const Meeting meeting;
  Team team({"fake",
             Role::peer,
             "",
             {rank(meeting, 0, answer_one_run), rank(meeting, 1, answer_one_run)},
             {}},
            2, milliseconds(20000));
  team.start();
  gather(team, meeting);
  ASSERT_TRUE(team.alive()) << team.failure();
  EXPECT_EQ(team.version(), "fake 1");
  EXPECT_EQ(team.binding(), "0 | 0");
  std::vector<double> us;
  ASSERT_TRUE(team.run(1, 1, 2, Data::still, &us)) << team.failure();
  EXPECT_EQ(us, (std::vector<double>{11, 20}));
}

TEST(Team, ARankThatHangsIsKilledAndNamed) {
  const Meeting meeting;
  Team team({"fake",
             Role::peer,
             "",
             {rank(meeting, 0, answer_one_run), rank(meeting, 1, "time.sleep(1000)")},
             {}},
            2, milliseconds(1500));
  team.start();
  gather(team, meeting);
  ASSERT_TRUE(team.alive()) << team.failure();
  std::vector<double> us;
  EXPECT_FALSE(team.run(1, 1, 2, Data::still, &us));
  EXPECT_NE(team.failure().find("rank 1 did not answer within 1.5 s"), std::string::npos)
      << team.failure();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
  EXPECT_FALSE(team.prepare(4));  // stays failed, does not block
}

TEST(Team, ARankThatDiesFailsItsTeam) {
  const Meeting meeting;
  Team team({"fake", Role::peer, "", {rank(meeting, 0, "s.recv(48)\nos._exit(3)")}, {}}, 1,
            milliseconds(20000));
  team.start();
  gather(team, meeting);
  uint64_t wrong = 0;
  EXPECT_FALSE(team.check(&wrong));
  EXPECT_NE(team.failure().find("rank 0 ended"), std::string::npos) << team.failure();
}

TEST(Team, AProgramThatEndsAtOnceSaysWhy) {
  const Meeting meeting;
  Team team({"fake", Role::peer, "", {{"sh", "-c", "echo no licence >&2; exit 1"}}, {}}, 2,
            milliseconds(20000));
  team.start();
  gather(team, meeting);
  EXPECT_FALSE(team.alive());
  EXPECT_NE(team.failure().find("no licence"), std::string::npos) << team.failure();
}

TEST(Team, ARankThatComesTwiceIsRefused) {
  const Meeting meeting;
  Team team({"fake",
             Role::peer,
             "",
             {rank(meeting, 0, "time.sleep(1000)"), rank(meeting, 0, "time.sleep(1000)")},
             {}},
            2, milliseconds(20000));
  team.start();
  gather(team, meeting);
  EXPECT_FALSE(team.alive());
  EXPECT_NE(team.failure().find("each once"), std::string::npos) << team.failure();
}

}  // namespace
}  // namespace tutti::bench
