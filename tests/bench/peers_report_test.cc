#include "bench/peers/peers_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace tutti::bench {
namespace {

PeerCell cell(double us) {
  PeerCell c;
  c.ran = true;
  c.calls = 100;
  c.batches = 50;
  c.us = {us, us, us * 2, us * 3};
  return c;
}

std::vector<PeerInfo> four() {
  return {{"tutti", "tutti 0.1.0", "auto", "0 | 1", Role::own, ""},
          {"Open MPI", "Open MPI v4.1.4", "mpirun", "0 | 1", Role::peer, ""},
          {"Open MPI ucx", "Open MPI v4.1.4", "mpirun --mca pml ucx", "0 | 1", Role::forced, ""},
          {"MPICH", "", "mpiexec", "", Role::peer, "rank 1 ended"}};
}

PeerRow row() {
  PeerRow r;
  r.bytes = 4096;
  r.hop_ns = 80;
  r.cells = {cell(0.5), cell(1.0), cell(0.75), PeerCell{}};
  return r;
}

TEST(PeersReport, RatioIsAgainstTheBestThatRan) {
  EXPECT_DOUBLE_EQ(ratio_to_best(four(), row(), Role::peer, 0), 2.0);
  EXPECT_DOUBLE_EQ(ratio_to_best(four(), row(), Role::forced, 0), 1.5);
  PeerRow without_tutti = row();
  without_tutti.cells[0].ran = false;
  EXPECT_EQ(ratio_to_best(four(), without_tutti, Role::peer, 0), 0);
}

TEST(PeersReport, TableShowsFailuresAndNotes) {
  const std::string text = render_peers(find_collective("allreduce"), four(), {row()}, 2,
                                        Data::live, {"Gloo is not here."}, 120);
  EXPECT_NE(text.find("FAILED: rank 1 ended"), std::string::npos);
  EXPECT_NE(text.find("Gloo is not here."), std::string::npos);
  EXPECT_NE(
      text.find("   4 KiB  0.500  1.00    0.750      -       2.00         1.50     1.00   80"),
      std::string::npos)
      << text;
}

TEST(PeersReport, JsonHasOneObjectForEachThatRan) {
  std::istringstream lines(peers_json(find_collective("allreduce"), four(), row(), 2, Data::live));
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(objects.size(), 3u);
  EXPECT_EQ(objects[1]["implementation"], "Open MPI");
  EXPECT_EQ(objects[1]["version"], "Open MPI v4.1.4");
  EXPECT_EQ(objects[1]["median_us"], 1.0);
  EXPECT_EQ(objects[1]["ratio_to_tutti"], 2.0);
  EXPECT_EQ(objects[1]["hop_ns"], 80);
  EXPECT_EQ(objects[1]["count"], 1024);
  EXPECT_EQ(objects[2]["forced"], true);
}

}  // namespace
}  // namespace tutti::bench
