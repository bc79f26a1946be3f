// TUTTI_INTEGRITY as a user meets it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/processes.h"

namespace tutti {
namespace {

using testing::Child;
using testing::finish;
using testing::Report;
using testing::report_of;

std::string text_of_log;

void keep(tutti_log_level, const char* text, void*) { text_of_log += std::string(text) + "\n"; }

// Ranks on this host that all have the setting; each reports its log.
void expect_in_force(const char* transport, const char* setting, const char* said) {
  const testing::Joining joining{.before = [&](int) {
    setenv("TUTTI_INTEGRITY", setting, 1);
    tutti_log_set(keep, nullptr);
  }};
  const std::vector<Child> children = testing::start(
      3, transport,
      [&](int rank, tutti_comm comm) {
        std::vector<float> vector(300'000, float(rank + 1));
        tutti_status status = TUTTI_OK;
        for (const size_t count : {size_t(1), vector.size(), size_t(1000)}) {
          for (float& one : vector) one = float(rank + 1);
          if (status == TUTTI_OK)
            status = tutti_allreduce(TUTTI_IN_PLACE, vector.data(), count, TUTTI_FLOAT32, TUTTI_SUM,
                                     comm);
          for (size_t i = 0; i < count; ++i) {
            if (vector[i] != 6) status = TUTTI_INTERNAL;
          }
        }
        Report report = report_of(status, comm);
        snprintf(report.text, sizeof(report.text), "%s", text_of_log.c_str());
        return report;
      },
      joining);
  for (const Child& child : children) {
    Report report;
    ASSERT_TRUE(finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
    EXPECT_NE(std::string(report.text).find(said), std::string::npos) << report.text;
  }
}

TEST(IntegritySetting, IsInForceAndSaidInTheLog) {
  expect_in_force("tcp", "encrypted", "over tcp, encrypted (to ");
  expect_in_force("tcp", "checksum", "over tcp, with checksums (to ");
  expect_in_force("tcp", "none", "over tcp (to ");
  expect_in_force("tcp", "auto", "over tcp (to ");  // one host, one network namespace
  expect_in_force("shm", "checksum", "over shm, with checksums (to ");
  expect_in_force("shm", "none", "over shm (to ");
  expect_in_force("shm", "auto", "over shm (to ");
}

TEST(IntegritySetting, MustBeTheSameOnAllRanks) {
  const testing::Joining joining{
      .before = [](int rank) { setenv("TUTTI_INTEGRITY", rank == 1 ? "none" : "encrypted", 1); }};
  const std::vector<Child> children = testing::start(
      2, "tcp", [](int, tutti_comm comm) { return report_of(TUTTI_OK, comm); }, joining);
  for (const Child& child : children) {
    Report report;
    ASSERT_TRUE(finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_MISMATCH) << report.text;
    const std::string text = report.text;
    EXPECT_NE(text.find("TUTTI_INTEGRITY="), std::string::npos) << text;
    EXPECT_NE(text.find("none"), std::string::npos) << text;
    EXPECT_NE(text.find("encrypted"), std::string::npos) << text;
  }
}

TEST(IntegritySetting, AnotherWordIsRefusedWithThoseThereAre) {
  setenv("TUTTI_INTEGRITY", "off", 1);
  tutti_comm comm = nullptr;
  EXPECT_EQ(tutti_comm_create_from_env(nullptr, &comm), TUTTI_INVALID);
  const std::string text = tutti_last_error();
  EXPECT_NE(text.find("TUTTI_INTEGRITY"), std::string::npos) << text;
  EXPECT_NE(text.find("encrypted"), std::string::npos) << text;
  unsetenv("TUTTI_INTEGRITY");
}

}  // namespace
}  // namespace tutti
