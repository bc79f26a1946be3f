// Within one host UCX opens no port that another host could reach, and none at all unless the
// environment asks for a transport of UCX by name (UCX_TLS=tcp).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/processes.h"

namespace tutti::testing {
namespace {

// "socket:[4711]": the inodes of the process's sockets.
std::set<std::string> sockets_of(pid_t process) {
  std::set<std::string> found;
  const std::string folder = "/proc/" + std::to_string(process) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry, gone).string();
    if (gone || target.rfind("socket:[", 0) != 0) continue;
    found.insert(target.substr(8, target.size() - 9));
  }
  return found;
}

struct Port {
  std::string address;  // in hexadecimal, as the kernel prints it
  bool loopback = false;
};

// Where the process listens by IP.
std::vector<Port> ports_of(pid_t process) {
  const std::set<std::string> sockets = sockets_of(process);
  std::vector<Port> found;
  for (const char* name : {"tcp", "tcp6", "udp", "udp6"}) {
    const bool datagrams = name[0] == 'u';
    std::ifstream table("/proc/" + std::to_string(process) + "/net/" + name);
    std::string line;
    std::getline(table, line);
    while (std::getline(table, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, skipped, inode;
      words >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) words >> skipped;
      words >> inode;
      if ((state != "0A" && !datagrams) || !sockets.contains(inode)) continue;
      const std::string address = local.substr(0, local.find(':'));
      const bool loopback = address == "0100007F" || address == "00000000000000000000000001000000";
      found.push_back({local, loopback});
    }
  }
  return found;
}

TEST(UcxPorts, NoneIsOpenToOtherHosts) {
  const char* const asked = getenv("UCX_TLS");
  int go_on[2];
  ASSERT_EQ(pipe(go_on), 0);
  const auto ranks = start(3, "ucx", [&](int, tutti_comm comm) {
    std::vector<float> values(100'000, 1.f);
    tutti_status status = tutti_allreduce(TUTTI_IN_PLACE, values.data(), values.size(),
                                          TUTTI_FLOAT32, TUTTI_SUM, comm);
    char word = 0;
    if (read(go_on[0], &word, 1) != 1) return Report();
    if (status == TUTTI_OK) status = tutti_barrier(comm);
    return report_of(status, comm);
  });
  usleep(100'000);  // so that they are beyond the allreduce, most likely; ports stay open anyway
  size_t within = 0;
  for (const Child& rank : ranks) {
    for (const Port& port : ports_of(rank.pid)) {
      EXPECT_TRUE(port.loopback) << port.address;
      ++within;
    }
  }
  // By sockets UCX listens, so this also shows that ports are found.
  if (asked != nullptr && std::string(asked) == "tcp") {
    EXPECT_GE(within, ranks.size());
  } else {
    EXPECT_EQ(within, 0u);
  }
  ASSERT_EQ(write(go_on[1], "...", 3), 3);
  for (const Child& rank : ranks) {
    Report report;
    ASSERT_TRUE(finish(rank, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
}

}  // namespace
}  // namespace tutti::testing
