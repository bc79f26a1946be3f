#include "lib/control/kept_key.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>
#include <string>

namespace tutti {
namespace {

bool is_blank(const JobKey& key) {
  return std::all_of(key.begin(), key.end(), [](uint8_t byte) { return byte == 0; });
}

TEST(JobKeyTest, IsWipedWhereItEnds) {
  alignas(JobKey) unsigned char place[sizeof(JobKey)];
  JobKey* const key = new (place) JobKey{{1, 2, 3}};
  key->back() = 4;
  key->~JobKey();
  asm volatile("" ::: "memory");  // what is there is looked at, though nothing lives there
  EXPECT_TRUE(std::all_of(std::begin(place), std::end(place), [](int byte) { return byte == 0; }));
}

// What the kernel says of the mapping: dd, not in a core dump; wf, blank after a fork.
TEST(KeptKeyTest, IsInNoCoreDumpAndInNoChild) {
  const KeptKey kept(JobKey{{5, 6, 7}});
  const JobKey& key = kept;
  EXPECT_EQ(key[2], 7);
  const pid_t child = fork();
  if (child == 0) _exit(is_blank(key) ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::ifstream maps("/proc/self/smaps");
  const auto at = reinterpret_cast<uintptr_t>(key.data());
  bool inside = false, found = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) inside = begin <= at && at < end;
    if (!inside || !line.starts_with("VmFlags:")) continue;
    found = true;
    EXPECT_NE(line.find(" dd"), std::string::npos) << line;
    EXPECT_NE(line.find(" wf"), std::string::npos) << line;
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace tutti
