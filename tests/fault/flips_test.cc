// A bit is flipped in the shared memory of a job whose ranks check what they read there
// (TUTTI_INTEGRITY=checksum): through /proc/PID/mem, after rank 0 has written and before rank 1
// reads.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "tests/support/processes.h"
#include "tests/support/sanitized.h"

namespace tutti::testing {
namespace {

constexpr uint64_t word = 0x5ca1ab1e'0ddba11e;

struct Case {
  const char* name;
  tutti_status (*call)(std::vector<uint64_t>& in, std::vector<uint64_t>& out, tutti_comm comm);
};

// In each rank 0 sends before it needs anything of rank 1.
const Case cases[] = {
    {"allreduce",
     [](auto& in, auto& out, tutti_comm comm) {
       return tutti_allreduce(in.data(), out.data(), in.size() / 2, TUTTI_UINT64, TUTTI_MAX, comm);
     }},
    {"broadcast",
     [](auto& in, auto&, tutti_comm comm) {
       return tutti_broadcast(in.data(), in.size() / 2, TUTTI_UINT64, 0, comm);
     }},
    {"reduce",
     [](auto& in, auto& out, tutti_comm comm) {
       return tutti_reduce(in.data(), out.data(), in.size() / 2, TUTTI_UINT64, TUTTI_MAX, 1, comm);
     }},
    {"allgather",
     [](auto& in, auto& out, tutti_comm comm) {
       return tutti_allgather(in.data(), out.data(), in.size() / 2, TUTTI_UINT64, comm);
     }},
    {"alltoall",
     [](auto& in, auto& out, tutti_comm comm) {
       return tutti_alltoall(in.data(), out.data(), in.size() / 2, TUTTI_UINT64, comm);
     }},
};

// Where the word is in memory files that the process has mapped: "7f..-7f.. rw-s .. /memfd:tutti".
std::vector<uint64_t> places_of_word(pid_t process, int memory) {
  std::vector<uint64_t> found;
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("rw-s") == line.npos || line.find("/memfd:") == line.npos) continue;
    uint64_t begin = 0, end = 0;
    if (sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    std::vector<uint8_t> bytes(end - begin);
    const ssize_t got = pread(memory, bytes.data(), bytes.size(), off_t(begin));
    for (size_t at = 0; got > 0 && at + 8 <= size_t(got); at += 4) {
      if (std::memcmp(bytes.data() + at, &word, 8) == 0) found.push_back(begin + at);
    }
  }
  return found;
}

// Flips a bit of one of the words that are there; false: none comes within 10 s.
bool flip_a_bit(pid_t process, std::mt19937_64& random) {
  const std::string path = "/proc/" + std::to_string(process) + "/mem";
  const int memory = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (memory < 0) return false;
  std::vector<uint64_t> places;
  const uint64_t limit_ns = deadline_after_ms(10'000);
  while (places.empty() && now_ns() < limit_ns) {
    usleep(500);
    places = places_of_word(process, memory);
  }
  bool flipped = false;
  if (!places.empty()) {
    const auto at = off_t(places[random() % places.size()] + random() % 8);
    uint8_t byte = 0;
    flipped = pread(memory, &byte, 1, at) == 1;
    byte ^= uint8_t(1u << random() % 8);
    flipped = flipped && pwrite(memory, &byte, 1, at) == 1;
  }
  close(memory);
  return flipped;
}

void flip_and_expect_it_found(int trials) {
  setenv("TUTTI_INTEGRITY", "checksum", 1);
  std::mt19937_64 random(21);
  for (int trial = 0; trial < trials; ++trial) {
    const Case& chosen = cases[size_t(trial) % std::size(cases)];
    const size_t count = 2 * (1 + random() % (random() % 2 == 0 ? 20 : 5'000));
    int go_on[2];
    ASSERT_EQ(pipe(go_on), 0);
    const auto ranks = start(2, "shm", [&](int rank, tutti_comm comm) {
      std::vector<uint64_t> in(count, rank == 0 ? word : 1), out(count);
      char go = 0;
      if (rank == 1 && read(go_on[0], &go, 1) != 1) return Report();
      tutti_status status = chosen.call(in, out, comm);
      if (status == TUTTI_OK) status = tutti_barrier(comm);
      return report_of(status, comm);
    });
    EXPECT_TRUE(flip_a_bit(ranks[0].pid, random)) << chosen.name;
    EXPECT_EQ(write(go_on[1], "!", 1), 1);
    for (const int rank : {0, 1}) {
      Report report;
      ASSERT_TRUE(finish(ranks[size_t(rank)], &report));
      const std::string text = report.text;
      ASSERT_EQ(report.status, TUTTI_CORRUPT) << chosen.name << " of " << count << ": " << text;
      EXPECT_EQ(report.rank, 0) << text;
      // Rank 0 may have gone on to the next call.
      EXPECT_LE(report.call, rank == 0 ? 2u : 1u) << text;
      EXPECT_NE(text.find("(call 1)"), std::string::npos) << text;
      EXPECT_NE(text.find(std::string("rank 1 calls ") + chosen.name), std::string::npos) << text;
      EXPECT_NE(text.find("rank 0 has written"), std::string::npos) << text;
    }
    close(go_on[0]);
    close(go_on[1]);
  }
  unsetenv("TUTTI_INTEGRITY");
}

TEST(FlippedBit, OfARunningJobIsFound) { flip_and_expect_it_found(sanitized ? 10 : 25); }
TEST(LongFlippedBit, OfARunningJobIsFound) { flip_and_expect_it_found(1000); }

}  // namespace
}  // namespace tutti::testing
