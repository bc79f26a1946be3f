// The tables as a whole: if one of these changes, look at it with a newcomer's eyes.
#include "bench/table.h"

#include <gtest/gtest.h>

namespace tutti::bench {
namespace {

Result row(const std::string& algorithm, size_t bytes, double us) {
  Result r;
  r.algorithm = algorithm;
  r.transport = "shm";
  r.ranks = 2;
  r.bytes = bytes;
  r.count = bytes / 4;
  r.dtype = "float32";
  r.op = "sum";
  r.ran = r.checked = true;
  r.chosen = algorithm;
  r.path = "fused";
  r.us = {us * 0.9, us, us * 1.2, us * 1.5};
  r.limit_us = us / 2;
  r.hop_ns = 80;
  return r;
}

std::vector<Result> two_sizes() {
  std::vector<Result> results{
      row("two-shot", 4, 0.2),      row("halving-doubling", 4, 0.3),    row("auto", 4, 0.1),
      row("two-shot", 65536, 12.5), row("halving-doubling", 65536, 10), row("auto", 65536, 10.1)};
  results[2].chosen = "two-shot";
  results[2].reason = "one hop is enough for 4 bytes";
  results[5].chosen = "halving-doubling";
  results[5].path = "schedule";
  results[5].reason = "fewest bytes";
  results[3].ran = false;
  results[3].reason = "not today";
  return results;
}

TEST(Table, TellsTheFastestTheLimitAndWhatAutoTakes) {
  EXPECT_EQ(render_sizes(two_sizes(), 80),
            R"(allreduce: 2 ranks over shm, float32 sum, heap buffers, input kept
Every rank gives a vector and gets all vectors combined. Time: one call, slowest
rank, median over batches.

                             time    p95  limit     of  algbw  busbw
  vector  fastest              µs     µs     µs  limit   GB/s   GB/s
     4 B  two-shot          0.200  0.240  0.100   50 %   0.02   0.02
  64 KiB  halving-doubling   10.0   12.0   5.00   50 %   6.55   6.55

Every algorithm, µs (* the fastest of its row):
            two-  halving-
  vector    shot  doubling    auto
     4 B  0.200*    0.300   0.100
  64 KiB      -      10.0*   10.1

What auto takes:
  4 B: two-shot (fused). one hop is enough for 4 bytes
  64 KiB: halving-doubling (schedule). fewest bytes

What cannot run (-):
  two-shot: not today

limit: a bare loop, without a library, over vectors that all ranks map, as
  symmetric and adopted memory is; those of the heap are copied first. The least
  work that any allreduce must do here.
algbw: bytes of the vector / time. busbw: algbw x 2(n-1)/n = 1.00 for n = 2
  ranks, the rate that each rank must reach. GB = 1e9 bytes.
A flag takes 80 ns from core to core.
Every result was checked on every rank, before and after timing: all right.
)");
}

TEST(Table, AutoStandsBesideTheBestChoice) {
  std::vector<Result> results = two_sizes();
  results[2].named_us = 0.2;
  results[5].named_us = 5.05;
  const std::string text = render_sizes(results, 80);
  EXPECT_NE(text.find("  vector    shot  doubling    auto  / best\n"
                      "     4 B  0.200*    0.300   0.100     0.50\n"
                      "  64 KiB      -      10.0*   10.1     2.00\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("run; geometric mean 1.00."), std::string::npos) << text;
}

TEST(Table, WrongResultsAreShouted) {
  std::vector<Result> results = two_sizes();
  results[0].wrong = 1234;
  const std::string text = render_sizes(results, 120);
  EXPECT_NE(text.find("WRONG RESULTS: 1,234 elements. two-shot at 4 B: 1,234."), std::string::npos);
  EXPECT_EQ(text.find("all right"), std::string::npos);
}

TEST(Table, UncheckedAndUnlimitedRunsSaySo) {
  std::vector<Result> results{row("ring", 4, 1)};
  results[0].checked = false;
  results[0].limit_us = 0;
  const std::string text = render_sizes(results, 120);
  EXPECT_NE(text.find("Results were not checked."), std::string::npos);
  EXPECT_NE(text.find("limit: not measured"), std::string::npos);
}

TEST(Table, OtherCollectivesHaveTheirOwnWords) {
  Result r = row("bruck", 4092, 10);
  r.collective = "gather";
  r.root = 1;
  r.ranks = 3;
  r.op = "none";
  r.limit_us = 0;
  r.chosen = "";
  EXPECT_EQ(render_sizes({r}, 80),
            R"(gather: 3 ranks over shm, root 1, float32, heap buffers, input kept
Every rank gives a block and the root gets the blocks of all ranks. Time: one
call, slowest rank, median over batches.

                    time   p95  limit     of  algbw  busbw
   buffer  fastest    µs    µs     µs  limit   GB/s   GB/s
  4.0 KiB  bruck    10.0  12.0      -      -   0.41   0.27

limit: Below 64 KiB there is none: ranks need not wait for each other there.
algbw: bytes of the longer buffer / time. busbw: algbw x (n-1)/n = 0.67 for n =
  3 ranks, the rate that each rank must reach. GB = 1e9 bytes.
A flag takes 80 ns from core to core.
Every result was checked on every rank, before and after timing: all right.
)");
}

TEST(Table, OnGpusTheEmptyKernelsStandBesideTheTime) {
  Result r = row("two-shot", 65536, 30);
  r.transport = r.memory = "cuda";
  r.hop_ns = 0;
  r.gpu = {true, false, 1, false, 4, 10, 2500, 25};
  const std::string text = render_sizes({r}, 120);
  for (const char* words :
       {"2 ranks over cuda, float32 sum, cuda buffers, input kept, processes on 1 GPU\n",
        "2500 GB/s", "begin within 25.0 µs, in which"})
    EXPECT_NE(text.find(words), std::string::npos) << words << text;
  EXPECT_NE(text.find("4.00   10.0    3.0\n"), std::string::npos) << text;
}

TEST(Table, RowsOfSeveralTypesNameThem) {
  std::vector<Result> results = two_sizes();
  results.push_back(row("two-shot", 4, 0.7));
  results.back().dtype = "int8";
  results.back().op = "bxor";
  const std::string text = render_sizes(results, 100);
  EXPECT_NE(text.find("several types or operators"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  float32 sum, 64 KiB  halving-doubling   10.0"), std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  int8 bxor, 4 B       two-shot          0.700"), std::string::npos)
      << text;
}

TEST(Table, ABarrierHasNoBytesAndNoResult) {
  Result r = row("auto", 0, 1);
  r.collective = "barrier";
  r.dtype = r.op = "none";
  r.chosen = "";
  r.checked = false;
  const std::string text = render_sizes({r}, 80);
  EXPECT_EQ(text.substr(0, text.find('\n')), "barrier: 2 ranks over shm");
  for (const char* absent : {"algbw", "vector", "checked", "buffers", "limit"})
    EXPECT_EQ(text.find(absent), std::string::npos) << text;
}

TEST(Table, WorkloadShowsTheWholeExchange) {
  Result all = row("ring", 102'228'128, 50'000);
  all.workload = "resnet50";
  Result bucket = all;
  bucket.bucket = 4;
  const std::string golden = R"(allreduce: 2 ranks over shm, float32 sum, heap buffers, input kept
resnet50: gradients of 25,557,032 parameters, 102 MB in 5 buckets, one allreduce each. Time: all of
them, slowest rank, median over batches.

              time   p95  limit     of  algbw  busbw
  algorithm     ms    ms     ms  limit   GB/s   GB/s
  ring       50.0*  60.0   25.0   50 %   2.04   2.04
  * the fastest
)";
  EXPECT_EQ(render_workload({bucket, all}, 100).substr(0, golden.size()), golden);
}

}  // namespace
}  // namespace tutti::bench
