// What runs on a GPU, on the host: the same values as the host's own loops.
#include "trainer/device/vectors.h"

#include <gtest/gtest.h>

#include <cmath>

#include "trainer/common/error.h"
#include "trainer/common/random.h"
#include "trainer/parallel/fold.h"
#include "trainer/parallel/optimizer.h"

namespace tutti::train {
namespace {

const Device host;
const Device there = Device::open("simulated", 0);

template <class Real>
std::vector<Real> drawn(size_t n, uint64_t key) {
  std::vector<Real> values;
  for (size_t i = 0; i < n; ++i) values.push_back(Real(fraction(mixed(key, i)) - 0.5));
  return values;
}

template <class Real>
void expect_near(std::span<const Real> found, std::span<const Real> expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
}

TEST(Device, NamesAreRead) {
  for (const char* name : {"cpu", "cuda", "cuda:0", "cuda:17"}) EXPECT_TRUE(Device::is_name(name));
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1234", "CUDA"})
    EXPECT_FALSE(Device::is_name(name)) << name;
  EXPECT_TRUE(host.is_host());
  EXPECT_FALSE(there.is_host());
  EXPECT_FALSE(there.is_gpu());
}

TEST(Vectors, BuffersBeginWithZerosAndMove) {
  for (const Device& device : {host, there}) {
    Buffer<float> first(device, 5);
    const std::vector<float> values = drawn<float>(5, 1);
    const OnHost<float> here(device, first.span());
    for (const float x : here.values()) EXPECT_EQ(x, 0);
    std::copy(values.begin(), values.end(), here.values().begin());
    here.store();
    const Buffer<float> second = std::move(first);
    const OnHost<const float> read(device, second.span());
    EXPECT_TRUE(std::equal(values.begin(), values.end(), read.values().begin()));
  }
}

TEST(Vectors, SumsAndSquares) {
  std::vector<double> x = drawn<double>(37, 1), y = drawn<double>(37, 2), z = y;
  Vectors<double>::add(host, x, y);
  Vectors<double>::add(there, x, z);
  EXPECT_EQ(y, z);  // one rounding each
  Vectors<double>::scale(host, y, 0.75);
  Vectors<double>::scale(there, z, 0.75);
  EXPECT_EQ(y, z);
  EXPECT_NEAR(Vectors<double>::with_squares(host, y, 1.5),
              Vectors<double>::with_squares(there, z, 1.5), 1e-12);
  double sums[2] = {1, 1};
  Vectors<double>::add_squares(host, y, 3, std::span(sums, 1));
  Vectors<double>::add_squares(there, z, 3, std::span(sums + 1, 1));
  EXPECT_NEAR(sums[0], sums[1], 1e-12);
  Vectors<double>::clear(there, z);
  EXPECT_EQ(z, std::vector<double>(37));
  Vectors<double>::add(there, {}, {});  // nothing
}

TEST(Vectors, RoundToTheSameBfloat16) {
  std::vector<float> values = drawn<float>(1000, 3);
  values.insert(values.end(), {0.F, -0.F, 1.00390625F, 1.01171875F, INFINITY, -3e38F});
  std::vector<uint16_t> a(values.size()), b(values.size());
  to_bf16(host, values, a);
  to_bf16(there, values, b);
  EXPECT_EQ(a, b);
  std::vector<float> back(values.size()), other(values.size());
  from_bf16(host, a, back);
  from_bf16(there, b, other);
  EXPECT_EQ(back, other);
}

TEST(Fold, IsTheSameOnADevice) {
  for (const size_t n : {1, 3, 6}) {
    BasicFold<float> one(n), other(n, there);
    for (size_t i = 0; i < n; ++i) {
      std::vector<float> a = drawn<float>(11, i), b = a;
      one.add(a);
      other.add(b);
      if (i + 1 == n) {
        EXPECT_EQ(a, b) << n;
      }
    }
  }
}

template <class Real>
void compare_optimizers(const OptimizerSettings& settings, double tolerance) {
  constexpr size_t size = 40;
  const std::vector<Parameter> layout{{"a", {25}, 0, 25, {}, true}, {"b", {15}, 25, 15, {}, true}};
  const std::vector<Range> owned{{0, 10}, {20, size}};
  BasicOptimizer<Real> one(settings, layout, owned), other(settings, layout, owned, there);
  std::vector<Real> w = drawn<Real>(size, 7), v = w;
  for (int64_t step = 0; step < 4; ++step) {
    const std::vector<Real> g = drawn<Real>(size, 100 + uint64_t(step));
    one.begin(step);
    other.begin(step);
    for (const Range& r : owned) {
      one.update(r, std::span(w).subspan(r.begin, r.size()),
                 std::span(g).subspan(r.begin, r.size()));
      other.update(r, std::span(v).subspan(r.begin, r.size()),
                   std::span(g).subspan(r.begin, r.size()));
    }
    for (const Range& r : owned) {
      one.finish(r, std::span(w).subspan(r.begin, r.size()));
      other.finish(r, std::span(v).subspan(r.begin, r.size()));
    }
  }
  expect_near<Real>(v, w, tolerance);
  ASSERT_EQ(one.state().size(), other.state().size());
  for (auto& [name, values] : one.state())
    expect_near<Real>(OnHost<Real>(there, other.state()[name].span()).values(), values.span(),
                      tolerance);
}

TEST(Optimizer, IsTheSameOnADevice) {
  for (const char* kind : {"sgd", "adamw", "lamb"})
    for (const double momentum : {0.0, 0.9}) {
      compare_optimizers<float>({kind, 0.05, 2, momentum, 0.1}, 2e-6);
      compare_optimizers<double>({kind, 0.05, 2, momentum, 0.1}, 1e-14);
    }
}

}  // namespace
}  // namespace tutti::train
