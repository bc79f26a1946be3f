// Nonblocking and persistent calls: what is computed of their times, and how it looks.
#include "bench/forms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/forms_table.h"
#include "bench/records.h"

namespace tutti::bench {
namespace {

Result row(Form form, size_t bytes) {
  Result r;
  r.algorithm = "auto";
  r.transport = "tcp";
  r.ranks = 2;
  r.bytes = bytes;
  r.count = bytes / 4;
  r.dtype = "float32";
  r.op = "sum";
  r.ran = r.checked = true;
  r.us = {90, 100, 120, 130};
  r.hop_ns = 80;
  r.limit_us = 50;
  r.beside.form = form;
  r.beside.us = {70, 80, 110, 120};
  if (form != Form::nonblocking) return r;
  r.beside.compute_us = {79, 81, 82, 83};
  r.beside.sequence_us = {170, 181, 190, 195};
  r.beside.together_us = {80, 89, 95, 99};
  r.beside.overlap_percent = 90;
  r.beside.overlap_p5_percent = 84;
  return r;
}

TEST(Overlap, IsTheShareOfTheCallThatCostsNoTime) {
  EXPECT_DOUBLE_EQ(overlap_percent(10, 10, 20), 0);
  EXPECT_DOUBLE_EQ(overlap_percent(10, 10, 15), 50);
  EXPECT_DOUBLE_EQ(overlap_percent(10, 10, 10), 100);
}

TEST(Overlap, StaysBetweenNothingAndAll) {
  EXPECT_DOUBLE_EQ(overlap_percent(10, 10, 25), 0);
  EXPECT_DOUBLE_EQ(overlap_percent(10, 10, 9), 100);
  EXPECT_DOUBLE_EQ(overlap_percent(0, 10, 9), 0);
}

TEST(FormsTable, NonblockingShowsWhatHides) {
  EXPECT_EQ(render_nonblocking({row(Form::nonblocking, 65536)}, 100),
            R"(allreduce: 2 ranks over tcp, float32 sum, heap buffers, input kept
Nonblocking: a call is begun, the rank computes for as long as the call takes by itself, then it
waits for the call. Times: slowest rank, median over batches.

          call  compute  sequence  together   p95
  vector    µs       µs        µs        µs    µs  overlap    p5
  64 KiB  80.0     81.0       181      89.0  95.0     90 %  84 %

call: begun, and waited for at once. compute: a loop of fixed length. sequence: the blocking call,
  then the loop. together: the call begun, the loop, the wait; p95 is what 95 % of the batches stay
  below.
overlap: how much of the call hides behind the loop, 1 - (together - compute) / call: 100 % where
  the call costs no time, 0 % where nothing is gained. p5: 5 % of the rounds stay below.
While the rank computes, nobody moves the call on: --progress thread and --tests would.
A flag takes 80 ns from core to core.
Every result was checked on every rank, before and after timing: all right.
)");
}

TEST(FormsTable, NonblockingSaysWhoMovesTheCallOn) {
  Result r = row(Form::nonblocking, 4);
  r.beside.progress_thread = true;
  r.beside.tests = 3;
  const std::string text = render_nonblocking({r}, 200);
  EXPECT_NE(text.find("the call is moved on by the library's progress thread and 3 calls of "
                      "tutti_test()."),
            std::string::npos)
      << text;
}

TEST(FormsTable, PersistentStandsBesideThePlainCall) {
  EXPECT_EQ(render_persistent({row(Form::persistent, 8)}, 100),
            R"(allreduce: 2 ranks over tcp, float32 sum, heap buffers, input kept
Persistent: a call is made once, then started and waited for again and again, in turn with the plain
call. Times: slowest rank, median over batches.

          plain  p95  persistent  p95  persistent  limit
  vector     µs   µs          µs   µs     / plain     µs
     8 B    100  120        80.0  110        0.80   50.0

persistent / plain: below 1 the persistent call is the faster one. p95: what 95 % of the batches
  stay below.
limit: raw sockets that send and receive at once the bytes which each rank of any allreduce must
  send and receive.
A flag takes 80 ns from core to core.
Every result was checked on every rank, before and after timing: all right.
)");
}

TEST(FormsTable, VariedStandsBesideTheSameCountsRepeated) {
  Result r = row(Form::varied, 512);
  r.beside.counts = 128;
  r.beside.repeated_us.median = 64;
  r.beside.repeated_us.p95 = 70;
  EXPECT_EQ(render_varied({r}, 100),
            R"(allreduce: 2 ranks over tcp, float32 sum, heap buffers, input kept
Varied: counts that take turns, from the vector's down, another one with every call; in turn with
the same counts, each repeated. Times: slowest rank, median over batches.

                  repeated   p95  varied  p95  varied /
  vector  counts        µs    µs      µs   µs  repeated
   512 B     128      64.0  70.0    80.0  110      1.25

varied / repeated: 1 where a call costs the same whatever the count of the one before was. p95: what
  95 % of the batches stay below.
A flag takes 80 ns from core to core.
Every result was checked on every rank, before and after timing: all right.
)");
  const auto j = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(j["form"], "varied");
  EXPECT_EQ(j["counts"], 128);
  EXPECT_EQ(j["repeated_median_us"], 64);
  EXPECT_EQ(j["form_median_us"], 80);
}

TEST(FormsTable, ABarrierHasNoVector) {
  Result r = row(Form::persistent, 0);
  r.collective = "barrier";
  r.dtype = r.op = "none";
  r.checked = false;
  const std::string text = render_persistent({r}, 100);
  for (const char* absent : {"vector", "limit", "checked"})
    EXPECT_EQ(text.find(absent), std::string::npos) << text;
}

TEST(FormsRecords, HaveTheirOwnFields) {
  const auto j = nlohmann::json::parse(to_json(row(Form::nonblocking, 4)));
  EXPECT_EQ(j["form"], "nonblocking");
  EXPECT_EQ(j["median_us"], 100) << "the plain call's";
  EXPECT_EQ(j["form_median_us"], 80);
  EXPECT_EQ(j["together_median_us"], 89);
  EXPECT_EQ(j["overlap_percent"], 90);
  EXPECT_EQ(j["progress"], "caller");
  const auto p = nlohmann::json::parse(to_json(row(Form::persistent, 4)));
  EXPECT_EQ(p["form"], "persistent");
  EXPECT_TRUE(p["overlap_percent"].is_null());
  EXPECT_FALSE(nlohmann::json::parse(to_json(Result{})).contains("form"));
}

TEST(FormsRecords, CsvKeepsItsColumnsInOrder) {
  const std::string head = csv_head();
  const auto place = [&](const char* name) {
    return std::count(head.begin(), head.begin() + ptrdiff_t(head.find(name)), ',');
  };
  const auto cell = [](std::string line, ptrdiff_t at) {
    for (; at > 0; --at) line.erase(0, line.find(',') + 1);
    return line.substr(0, line.find(','));
  };
  const std::string line = to_csv(row(Form::nonblocking, 4));
  EXPECT_EQ(cell(line, place("overlap_percent")), "90.0");
  EXPECT_EQ(cell(line, place("form,")), "nonblocking");
  EXPECT_EQ(std::count(head.begin(), head.end(), ','), std::count(line.begin(), line.end(), ','));
}

}  // namespace
}  // namespace tutti::bench
