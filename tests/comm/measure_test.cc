// TUTTI_TUNING=measure: all ranks end with the same numbers, which make sense and are measured
// once; what the program's calls are, their limit, their number and their failures, stays as it is.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "lib/record/read.h"
#include "lib/tuning/tuning.h"
#include "tests/support/processes.h"
#include "tests/support/require.h"
#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::Child;
using tutti::testing::counters;
using tutti::testing::finish;
using tutti::testing::Joining;
using tutti::testing::Report;
using tutti::testing::report_of;

// What the library has said in this process, a rank's.
std::vector<std::string> said;
int said_of(const std::string& what) {
  int times = 0;
  for (const std::string& line : said) times += line.find(what) != std::string::npos ? 1 : 0;
  return times;
}
int measured() { return said_of(": measured of "); }
int took() { return said_of(": takes what was measured of "); }
// What was measured last, without how long it took.
std::string values() {
  std::string last;
  for (const std::string& line : said) {
    const size_t at = line.find("measured of ");
    if (at != line.npos) last = line.substr(at, line.find(", in ") - at);
  }
  return last;
}

// To be called in a rank's process, before it makes communicators.
void listen(const char* tuning = "measure") {
  setenv("TUTTI_TUNING", tuning, 1);
  tutti_log_set([](tutti_log_level, const char* text, void*) { said.emplace_back(text); }, nullptr);
}

std::string tuning_of(tutti_comm comm) {
  tutti_explanation explained{};
  explained.size = sizeof(explained);
  if (tutti_allreduce_explain(1, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr, &explained) != TUTTI_OK)
    return "none";
  return explained.tuning;
}

// On a busy machine there may not be time for it: then nothing is kept, and the next communicator
// measures.
tutti_comm until_measured(tutti_comm comm) {
  for (int attempt = 0; attempt < 20 && tuning_of(comm) == "default"; ++attempt) {
    tutti_comm next = nullptr;
    if (tutti_comm_dup(comm, &next) != TUTTI_OK) break;
    comm = next;
  }
  return comm;
}

bool sums_are_right(int rank, tutti_comm comm) {
  int n = 0;
  tutti_comm_size(comm, &n);
  for (const size_t count : {1u, 33u, 5'000u, 70'001u, 2u}) {
    std::vector<int32_t> in(count), out(count, -1);
    for (size_t i = 0; i < count; ++i) in[i] = int32_t(i) + rank;
    if (tutti_allreduce(in.data(), out.data(), count, TUTTI_INT32, TUTTI_SUM, comm) != TUTTI_OK)
      return false;
    for (size_t i = 0; i < count; ++i)
      if (out[i] != int32_t(i) * n + n * (n - 1) / 2) return false;
  }
  return true;
}

// What a rank reports where even that was not enough.
constexpr const char* too_busy = "the machine is too busy to measure anything in 20 ms";
Report report_busy() {
  Report report;
  const bool told = said_of(": nothing is measured of ") > 0;
  snprintf(report.text, sizeof(report.text), "%s", told ? too_busy : "the defaults stay untold");
  report.status = told ? TUTTI_OK : -1;
  return report;
}
bool are_busy(const std::vector<Report>& reports) {
  return std::any_of(reports.begin(), reports.end(),
                     [](const Report& one) { return std::strcmp(one.text, too_busy) == 0; });
}

std::vector<Report> run(int nranks, const char* transport,
                        const std::function<Report(int, tutti_comm)>& body,
                        const Joining& joining = {}) {
  std::vector<Report> reports;
  for (const Child& child : tutti::testing::start(nranks, transport, body, joining)) {
    reports.emplace_back();
    EXPECT_TRUE(finish(child, &reports.back()));
  }
  return reports;
}

class Measure : public ::testing::TestWithParam<const char*> {};

// "measured of shm, crowded: context_switch_us 1.1, memory_slot_gb_s 4.2".
void expect_sensible(const std::string& values) {
  size_t found = 0;
  for (size_t i = 0; i < tutti::field_count; ++i) {
    const std::string name = std::string(" ") + tutti::tuning_fields()[i].name + " ";
    const size_t at = values.find(name);
    if (at == values.npos) continue;
    ++found;
    const double value = std::strtod(values.c_str() + at + name.size(), nullptr);
    EXPECT_EQ(tutti::why_not(tutti::Field(i), value), "") << values;
    EXPECT_GT(value, 0) << values;
    if (name == " memory_hop_us ") EXPECT_LT(value, 10) << values;
    if (name == " context_switch_us ") EXPECT_LT(value, 100) << values;
    if (name.find("gb_s") != name.npos) EXPECT_LT(value, 1'000) << values;
  }
  EXPECT_EQ(found, values.find("of shm:") != values.npos ? 4u : 3u) << values;
}

TEST_P(Measure, GivesAllRanksTheSameOnce) {
  for (const int n : {2, 3, 5}) {
    const auto reports = run(
        n, GetParam(),
        [](int rank, tutti_comm world) {
          Report report;
          const tutti::testing::Report fine = report_of(TUTTI_OK, world);
          REQUIRE(counters(world).calls == 0);
          REQUIRE(counters(world).messages_sent == 0);
          REQUIRE(sums_are_right(rank, world));
          tutti_comm comm = until_measured(world), again = nullptr, half = nullptr;
          const std::string id = tuning_of(comm);
          if (id == "default") return report_busy();
          REQUIRE(id.size() > 16 && id.find(", measured") == 16);
          REQUIRE(measured() == 1 && took() == 0);
          REQUIRE(sums_are_right(rank, comm));
          REQUIRE(tutti_comm_dup(comm, &again) == TUTTI_OK);
          REQUIRE(tuning_of(again) == id);
          REQUIRE(measured() == 1 && took() == 1);
          REQUIRE(sums_are_right(rank, again));
          REQUIRE(tutti_comm_split(again, 0, -rank, &half) == TUTTI_OK);
          REQUIRE(tuning_of(half) == id);
          REQUIRE(measured() == 1 && took() == 2);
          REQUIRE(tutti_barrier(world) == TUTTI_OK);  // whose process ends has died to the others
          report = fine;
          snprintf(report.text, sizeof(report.text), "%s; %s", id.c_str(), values().c_str());
          return report;
        },
        {.before = [](int) { listen(); }});
    for (const Report& report : reports) {
      EXPECT_EQ(report.status, TUTTI_OK) << report.text;
      EXPECT_STREQ(report.text, reports[0].text);
    }
    if (are_busy(reports)) GTEST_SKIP() << too_busy;
    expect_sensible(reports[0].text);
  }
}

// Its calls have the limit of making the communicator.
TEST_P(Measure, HasTimeWhereCallsHaveNone) {
  const auto reports =
      run(16, GetParam(),
          [](int, tutti_comm comm) {
            Report report;
            REQUIRE(measured() + said_of("is the machine busy?") == 1);
            report.status = TUTTI_OK;
            snprintf(report.text, sizeof(report.text), "%s", tuning_of(comm).c_str());
            return report;
          },
          {.before = [](int) {
            listen();
            setenv("TUTTI_TIMEOUT_MS", "1", 1);
          }});
  for (const Report& report : reports) {
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
    EXPECT_STREQ(report.text, reports[0].text);
  }
}

// Ranks of which some have measured before, others not, measure again, all of them.
TEST_P(Measure, IsTakenByRanksThatHaveNotMeasured) {
  const auto reports =
      run(4, GetParam(),
          [](int rank, tutti_comm world) {
            Report report;
            REQUIRE(tuning_of(world) == "default" && said_of("measured of") == 0);
            setenv("TUTTI_TUNING", "measure", 1);
            std::string id;
            for (const int n : {3, 4, 4}) {
              tutti_unique_id shared{};
              if (rank == 0) tutti_unique_id_create(nullptr, &shared);
              REQUIRE(tutti_broadcast(&shared, sizeof(shared), TUTTI_UINT8, 0, world) == TUTTI_OK);
              if (rank >= n) continue;
              tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
              config.transports = GetParam();
              tutti_comm comm = nullptr;
              REQUIRE(tutti_comm_create_from_id(&shared, rank, n, &config, &comm) == TUTTI_OK);
              comm = until_measured(comm);
              id = tuning_of(comm);
              if (id == "default") return report_busy();
              REQUIRE(sums_are_right(rank, comm));
            }
            REQUIRE(measured() == (rank < 3 ? 1 : 0));  // the fourth is told
            REQUIRE(took() == 2);
            REQUIRE(tutti_barrier(world) == TUTTI_OK);  // whose process ends has died to the others
            report.status = TUTTI_OK;
            snprintf(report.text, sizeof(report.text), "%s", id.c_str());
            return report;
          },
          {.before = [](int) { listen("none"); }});
  if (are_busy(reports)) GTEST_SKIP() << too_busy;
  for (const Report& report : reports) {
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
    EXPECT_STREQ(report.text, reports[0].text);
  }
}

TEST_P(Measure, IsRefusedWhereRanksDisagree) {
  const auto reports =
      run(3, GetParam(), [](int, tutti_comm comm) { return report_of(TUTTI_OK, comm); },
          {.before = [](int rank) { listen(rank == 1 ? "measure" : "none"); }});
  for (const Report& report : reports) {
    EXPECT_EQ(report.status, TUTTI_MISMATCH);
    const std::string text = report.text;
    EXPECT_NE(text.find("rank 1"), text.npos) << text;
    EXPECT_NE(text.find("TUTTI_TUNING must be measure on all ranks"), text.npos) << text;
  }
}

// Neither TUTTI_FAULT nor the flight record takes what measures for a call of the program.
TEST_P(Measure, IsNoCallOfTheProgram) {
  std::string folder = ::testing::TempDir() + "tutti-measure-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto children =
      tutti::testing::start(2, GetParam(),
                            [](int, tutti_comm comm) {
                              if (const auto first = tutti_barrier(comm); first != TUTTI_OK)
                                return report_of(first, comm);
                              Report report = report_of(tutti_barrier(comm), comm);
                              report.call = said_of(" measured of ") == 1 ? report.call : 99;
                              return report;
                            },
                            {.before = [&](int rank) {
                              listen();
                              setenv("TUTTI_RECORD_DIR", folder.c_str(), 1);
                              if (rank == 1) setenv("TUTTI_FAULT", "kill at call 2", 1);
                            }});
  Report report;
  EXPECT_TRUE(finish(children[0], &report));
  EXPECT_EQ(report.status, TUTTI_PEER_FAILED) << report.text;
  EXPECT_EQ(report.rank, 1) << report.text;
  EXPECT_EQ(report.call, 2u) << report.text;
  EXPECT_FALSE(finish(children[1], &report));
  int records = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    tutti::record::ReadProcess process;
    if (!tutti::record::read(std::as_bytes(std::span(bytes)), entry.path(), &process).ok())
      continue;
    if (process.process != children[1].pid) continue;
    ++records;
    ASSERT_EQ(process.comms.size(), 1u);
    ASSERT_EQ(process.comms[0].calls.size(), 1u);
    EXPECT_EQ(process.comms[0].calls[0].number, 1u);
  }
  EXPECT_EQ(records, 1);
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Over, Measure, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
