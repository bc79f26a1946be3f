#include "bench/workload.h"

#include <gtest/gtest.h>

#include <numeric>

#include "bench/error.h"

namespace tutti::bench {
namespace {

size_t sum(const std::vector<size_t>& values) {
  return std::accumulate(values.begin(), values.end(), size_t(0));
}

TEST(Workload, ShapesAddUpToThePublishedTotals) {
  for (const auto& [name, total, tensors] :
       {std::tuple{"resnet50", 25'557'032u, 161u}, std::tuple{"gpt2", 124'439'808u, 148u},
        std::tuple{"bert-large", 335'141'888u, 391u}}) {
    const Workload workload = make_workload(name);
    size_t parameters = 0;
    for (const Parameter& parameter : workload.parameters) parameters += parameter.count;
    EXPECT_EQ(parameters, total) << name;
    EXPECT_EQ(workload.total, total) << name;
    EXPECT_EQ(workload.parameters.size(), tensors) << name;
    EXPECT_EQ(sum(make_buckets(workload, 4)), total) << name;
  }
}

TEST(Workload, BucketsCloseOnceTheirBytesReachTheLimit) {
  constexpr size_t first = (1u << 20) / 4, other = (25u << 20) / 4;  // float32 elements
  const Workload w{"toy", 0, {{"z", 1}, {"d", other}, {"c", other - 1}, {"b", first}, {"a", 10}}};
  // From the last parameter on: a and b reach 1 MiB, c alone does not reach 25 MiB, c and d do.
  EXPECT_EQ(make_buckets(w, 4), (std::vector<size_t>{first + 10, 2 * other - 1, 1}));
}

TEST(Workload, FirstBucketOfResnetIsItsLastLayer) {
  // fc.bias and fc.weight: 1000 and 2,048,000 elements reach 1 MiB.
  EXPECT_EQ(make_buckets(make_workload("resnet50"), 4).front(), 2'049'000u);
}

TEST(Workload, BucketLimitsAreBytesNotElements) {
  const Workload w = make_workload("gpt2");
  EXPECT_LT(make_buckets(w, 2).size(), make_buckets(w, 4).size());
}

TEST(Workload, UnknownNameSaysWhatIsAllowed) {
  try {
    make_workload("vgg");
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find("resnet50, gpt2, bert-large"), std::string::npos);
  }
}

}  // namespace
}  // namespace tutti::bench
