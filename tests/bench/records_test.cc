#include "bench/records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tutti::bench {
namespace {

Result ring() {
  Result r;
  r.algorithm = "ring";
  r.transport = "shm";
  r.ranks = 4;
  r.bytes = 4'000'000;
  r.count = 1'000'000;
  r.dtype = "float32";
  r.op = "sum";
  r.ran = true;
  r.chosen = "ring";
  r.path = "schedule";
  r.reason = "forced, \"by name\"";
  r.iterations = 3;
  r.batches = 40;
  r.dropped = 2;
  r.us = {900, 1000, 1200, 1300};
  r.limit_us = 500;
  r.limit_way = "loop";
  r.hop_ns = 80;
  r.checked = true;
  return r;
}

TEST(Records, OnGpusThereIsMore) {
  Result r = ring();
  r.us.median = 30;
  EXPECT_FALSE(nlohmann::json::parse(to_json(r)).contains("ranks_as"));
  r.gpu = {true, true, 2, true, 1.5, 10, 2500, 0};
  const auto j = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(j["ranks_as"], "threads");
  EXPECT_EQ(j["gpus"], 2);
  EXPECT_EQ(j["graph"], true);
  EXPECT_EQ(j["enqueue_us"], 1.5);
  EXPECT_EQ(j["empty_us"], 10);
  EXPECT_EQ(j["of_empty"], 3);
  EXPECT_EQ(j["copy_GBs"], 2500);
  EXPECT_TRUE(j["hand_over_us"].is_null());
}

TEST(Records, JsonHasEveryField) {
  const auto j = nlohmann::json::parse(to_json(ring()));
  EXPECT_EQ(j["collective"], "allreduce");
  EXPECT_EQ(j["algorithm"], "ring");
  EXPECT_EQ(j["transport"], "shm");
  EXPECT_EQ(j["ranks"], 4);
  EXPECT_EQ(j["bytes"], 4'000'000);
  EXPECT_EQ(j["count"], 1'000'000);
  EXPECT_EQ(j["dtype"], "float32");
  EXPECT_EQ(j["op"], "sum");
  EXPECT_EQ(j["in_place"], false);
  EXPECT_EQ(j["memory"], "heap");
  EXPECT_EQ(j["iterations"], 3);
  EXPECT_EQ(j["batches"], 40);
  EXPECT_EQ(j["batches_dropped"], 2);
  EXPECT_EQ(j["min_us"], 900);
  EXPECT_EQ(j["median_us"], 1000);
  EXPECT_EQ(j["p95_us"], 1200);
  EXPECT_EQ(j["p99_us"], 1300);
  EXPECT_EQ(j["limit_us"], 500);
  EXPECT_EQ(j["limit_way"], "loop");
  EXPECT_EQ(j["hop_ns"], 80);
  EXPECT_EQ(j["wrong"], 0);
  EXPECT_EQ(j["chosen"], "ring");
  EXPECT_EQ(j["path"], "schedule");
  EXPECT_FALSE(j.contains("workload"));
}

TEST(Records, BandwidthsAreThoseOfNcclTests) {
  const auto j = nlohmann::json::parse(to_json(ring()));
  EXPECT_DOUBLE_EQ(j["algbw_GBs"], 4.0);  // 4e6 bytes in 1 ms
  EXPECT_DOUBLE_EQ(j["busbw_GBs"], 6.0);  // times 2 * 3 / 4
}

TEST(Records, WhatIsUnknownIsNull) {
  Result r = ring();
  r.ran = r.checked = false;
  r.limit_us = r.hop_ns = 0;
  const auto j = nlohmann::json::parse(to_json(r));
  for (const char* field : {"min_us", "median_us", "algbw_GBs", "limit_us", "hop_ns", "wrong"})
    EXPECT_TRUE(j[field].is_null()) << field;
}

TEST(Records, WorkloadsNameTheirBuckets) {
  Result r = ring();
  r.workload = "gpt2";
  EXPECT_EQ(nlohmann::json::parse(to_json(r))["bucket"], "all");
  r.bucket = 3;
  EXPECT_EQ(nlohmann::json::parse(to_json(r))["bucket"], 3);
}

TEST(Records, CompressedRowsSayWhatTheySend) {
  Result r = ring();
  EXPECT_FALSE(nlohmann::json::parse(to_json(r)).contains("sent_bytes"));
  r.algorithm = "codec fp8";
  r.sent_bytes = 1'546'875;
  r.relative_error = 0.026;
  EXPECT_EQ(nlohmann::json::parse(to_json(r))["sent_bytes"], 1'546'875);
  EXPECT_EQ(nlohmann::json::parse(to_json(r))["relative_error"], 0.026);
}

TEST(Records, RootedCollectivesNameTheirRoot) {
  Result r = ring();
  EXPECT_FALSE(nlohmann::json::parse(to_json(r)).contains("root"));
  r.collective = "gather";
  r.root = 2;
  const auto j = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(j["collective"], "gather");
  EXPECT_EQ(j["root"], 2);
  EXPECT_DOUBLE_EQ(j["busbw_GBs"], 3.0);  // 4 GB/s times 3 / 4
  const std::string head = csv_head(), cells = to_csv(r);
  EXPECT_EQ(head.substr(head.rfind(',')), ",root");
  EXPECT_EQ(cells.substr(cells.rfind(',')), ",2");
}

TEST(Records, CsvHasOneCellAColumn) {
  Result r = ring();
  const std::string head = csv_head();
  r.reason = "no comma";
  std::string row = to_csv(r);
  EXPECT_EQ(std::count(head.begin(), head.end(), ','), std::count(row.begin(), row.end(), ','));
  EXPECT_EQ(head.substr(0, 31), "collective,algorithm,transport,");
  EXPECT_EQ(row.substr(0, 19), "allreduce,ring,shm,");
  r.reason = "a, \"b\"";
  EXPECT_NE(to_csv(r).find("\"a, \"\"b\"\"\""), std::string::npos);
}

}  // namespace
}  // namespace tutti::bench
