// Codecs keep their specifications, and allreduces through them are what they are defined to be,
// the same bits on all ranks.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <vector>

#include "tests/support/thread_comm.h"

namespace {

// Of this thread, by the library too.
thread_local size_t allocations = 0;

}  // namespace

// Not inlined: GCC would see free() of what the other operator gave.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes != 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes != 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

using namespace tutti::testing;
using Floats = std::vector<float>;

const tutti_codec& codec_of(const char* name) {
  const tutti_codec* codec = nullptr;
  EXPECT_EQ(tutti_codec_from_name(name, &codec), TUTTI_OK) << tutti_last_error();
  return *codec;
}

Floats through(const tutti_codec& codec, const Floats& values) {
  // At an odd address, with a guard behind.
  const size_t bytes = codec.encoded_bytes(values.size(), codec.context);
  std::vector<unsigned char> encoded(bytes + 2, 0xa5);
  codec.encode(values.data(), values.size(), encoded.data() + 1, codec.context);
  EXPECT_EQ(encoded.front(), 0xa5);
  EXPECT_EQ(encoded.back(), 0xa5);
  Floats out(values.size() + 1, 12345);
  codec.decode(encoded.data() + 1, values.size(), out.data(), codec.context);
  EXPECT_EQ(out.back(), 12345);
  out.pop_back();
  return out;
}

// Of one sign, any magnitude, also none; with `window`, of similar magnitudes.
Floats random_floats(std::mt19937_64& random, size_t count, int window) {
  Floats values(count);
  const int center = int(random() % 250);
  for (float& value : values) {
    const auto exponent = uint32_t(
        window < 0 ? random() % 255
                   : uint64_t(std::clamp(center - int(random() % uint64_t(window)), 0, 254)));
    value = std::bit_cast<float>(uint32_t(random() % 2) << 31 | exponent << 23 |
                                 uint32_t(random() % (1u << 23)));
    if (random() % 32 == 0) value = 0;
  }
  return values;
}

RC_GTEST_PROP(Bf16, KeepsItsErrorBound, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<uint64_t>());
  const Floats values = random_floats(random, *rc::gen::inRange<size_t>(0, 300), -1);
  const Floats decoded = through(codec_of("bf16"), values);
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    if (std::fabs(x) >= 3.39e38) continue;
    const double bound = std::max(std::fabs(x) / 256, std::ldexp(1.0, -134));
    RC_ASSERT(std::fabs(double(decoded[i]) - x) <= bound);
    RC_ASSERT(std::signbit(decoded[i]) == std::signbit(values[i]));
  }
  RC_ASSERT(through(codec_of("bf16"), decoded) == decoded);
}

RC_GTEST_PROP(Fp8, KeepsItsErrorBoundInEveryBlock, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<uint64_t>());
  const int window = *rc::gen::element(-1, 1, 4, 12, 30);
  const Floats values = random_floats(random, *rc::gen::inRange<size_t>(0, 300), window);
  const Floats decoded = through(codec_of("fp8"), values);
  for (size_t begin = 0; begin < values.size(); begin += 32) {
    const size_t end = std::min(values.size(), begin + 32);
    double largest = 0;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(double(values[i])));
    for (size_t i = begin; i < end; ++i) {
      const double x = values[i];
      if (std::fabs(x) >= 3.29e38) continue;
      const double bound = std::max({std::fabs(x) / 16, largest / 229376, std::ldexp(1.0, -137)});
      RC_ASSERT(std::fabs(double(decoded[i]) - x) <= bound);
      RC_ASSERT(std::signbit(decoded[i]) == std::signbit(values[i]));
    }
  }
  if (std::any_of(decoded.begin(), decoded.end(), [](float x) { return std::isinf(x); })) return;
  RC_ASSERT(through(codec_of("fp8"), decoded) == decoded);
}

TEST(Fp8, RoundsToNearestEvenWithinABlock) {
  // 448 fixes the scale at one, so these are the numbers of e4m3 and what lies between them.
  const Floats in = {
      448, 17, 19, -17, 1.0625f, 1.1875f, 0.001953125f, 0.0009765625f, 0.0029296875f, 0.015625f};
  const Floats out = {448, 16, 20, -16, 1, 1.25f, 0.001953125f, 0, 0.00390625f, 0.015625f};
  EXPECT_EQ(through(codec_of("fp8"), in), out);
}

TEST(Codecs, CarryNanAndInfinityAsTheySay) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const float greatest = std::numeric_limits<float>::max();
  Floats in(64, 3);
  in[5] = nan;
  in[6] = -infinity;
  in[7] = infinity;
  in[40] = greatest;
  const Floats half = through(codec_of("bf16"), in), eighth = through(codec_of("fp8"), in);
  EXPECT_TRUE(std::isnan(half[5]));
  EXPECT_EQ(half[6], -infinity);
  EXPECT_EQ(half[7], infinity);
  EXPECT_EQ(half[40], infinity);
  for (const size_t i : {5u, 6u, 7u}) EXPECT_TRUE(std::isnan(eighth[i]));
  EXPECT_EQ(eighth[4], 3);  // the scale is that of the finite values
  EXPECT_EQ(eighth[40], infinity);
}

TEST(Codecs, AreFoundByNameAndOthersRefusedWithTheList) {
  const tutti_codec* codec = nullptr;
  EXPECT_EQ(tutti_codec_from_name("fp4", &codec), TUTTI_INVALID);
  EXPECT_STREQ(tutti_last_error(), "unknown codec \"fp4\"; allowed: bf16, fp8");
  EXPECT_EQ(tutti_codec_from_name(nullptr, &codec), TUTTI_INVALID);
  EXPECT_EQ(tutti_codec_from_name("bf16", nullptr), TUTTI_INVALID);
  EXPECT_EQ(codec_of("fp8").encoded_bytes(32, nullptr), 33u);
  EXPECT_EQ(codec_of("fp8").encoded_bytes(33, nullptr), 35u);
}

// A program's own codec: no compression, so that nothing is lost; blocks of 7.
tutti_codec plain_codec() {
  return {sizeof(tutti_codec),
          "plain",
          7,
          [](size_t count, void*) { return count * sizeof(float); },
          [](const float* values, size_t count, void* encoded, void*) {
            if (count != 0) std::memcpy(encoded, values, count * sizeof(float));
          },
          [](const void* encoded, size_t count, float* values, void*) {
            if (count != 0) std::memcpy(values, encoded, count * sizeof(float));
          },
          nullptr};
}

// The same with blocks so long that few ranks have one.
tutti_codec coarse_codec() {
  tutti_codec codec = plain_codec();
  codec.name = "coarse";
  codec.block = 5000;
  return codec;
}

// The definition. Blocks begin at multiples of the codec's, so it does not matter how a vector is
// cut.
Floats reduce(const tutti_codec& codec, const std::vector<Floats>& inputs, tutti_op op) {
  std::vector<Floats> decoded;
  std::vector<const void*> operands;
  for (const Floats& input : inputs) decoded.push_back(through(codec, input));
  for (const Floats& one : decoded) operands.push_back(one.data());
  Floats out(inputs[0].size());
  EXPECT_EQ(tutti_reduce_local(operands.data(), operands.size(), out.data(), out.size(),
                               TUTTI_FLOAT32, op, TUTTI_LEVEL_FAST),
            TUTTI_OK);
  return through(codec, out);
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void check(const tutti_codec& codec, int nranks, const char* transport,
           const std::vector<size_t>& counts) {
  std::mt19937_64 random(uint64_t(nranks) * 7);
  struct Run {
    std::vector<Floats> inputs;
    tutti_op op;
    bool in_place;
    Floats expected;
  };
  std::vector<Run> runs;
  for (const size_t count : counts) {
    for (const tutti_op op : {TUTTI_SUM, TUTTI_AVG, TUTTI_MIN}) {
      Run run{{}, op, op == TUTTI_AVG, {}};
      for (int r = 0; r < nranks; ++r) run.inputs.push_back(random_floats(random, count, 8));
      run.expected = reduce(codec, run.inputs, op);
      runs.push_back(std::move(run));
    }
  }
  on_comm(nranks, transport, [&](int rank, tutti_comm comm) {
    for (const Run& run : runs) {
      const Floats& input = run.inputs[size_t(rank)];
      Floats out = run.in_place ? input : Floats(input.size(), -7);
      ASSERT_EQ(tutti_allreduce_coded(run.in_place ? TUTTI_IN_PLACE : input.data(), out.data(),
                                      out.size(), run.op, &codec, comm),
                TUTTI_OK)
          << sentence(comm);
      ASSERT_TRUE(same_bits(out, run.expected))
          << codec.name << ", " << nranks << " ranks, " << input.size() << " elements";
    }
  });
}

class Coded : public ::testing::TestWithParam<const char*> {};

TEST_P(Coded, AllreducesAreWhatTheyAreDefinedToBe) {
  const tutti_codec plain = plain_codec();
  for (const int nranks : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (const tutti_codec* codec : {&codec_of("bf16"), &codec_of("fp8"), &plain}) {
      check(*codec, nranks, GetParam(), {0, 1, 31, 32, 33, 64, 1000, 20'000});
    }
  }
}

TEST_P(Coded, AllreducesOfManyPiecesAreTheSame) {
  for (const int nranks : {2, 3}) {
    for (const char* codec : {"bf16", "fp8"}) {
      check(codec_of(codec), nranks, GetParam(), {400'001});
    }
  }
}

TEST_P(Coded, AllreducesWithPartsOfVeryDifferentLengthAreTheSame) {
  const tutti_codec coarse = coarse_codec();
  for (const int nranks : {2, 3, 4}) check(coarse, nranks, GetParam(), {1, 5000, 12'000, 700'000});
}

INSTANTIATE_TEST_SUITE_P(Transports, Coded, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Memory, IsAllocatedInTheFirstCallOnly) {
  on_comm(2, "shm", [](int, tutti_comm comm) {
    const size_t at_first = allocations;
    for (const char* name : {"bf16", "fp8"}) {
      for (const size_t count : {100u, 300'001u}) {
        Floats in(count, 1), out(count);
        const auto call = [&] {
          ASSERT_EQ(
              tutti_allreduce_coded(in.data(), out.data(), count, TUTTI_SUM, &codec_of(name), comm),
              TUTTI_OK);
        };
        call();
        const size_t before = allocations;
        for (int i = 0; i < 10; ++i) call();
        EXPECT_EQ(allocations, before) << name << ", " << count;
      }
    }
    EXPECT_GT(allocations, at_first + 4);  // more than the vectors here: the library's count, too
  });
}

TEST(ManyRanks, ReduceThroughCodecs) {
  for (const int nranks : {12, 16, 33}) check(codec_of("fp8"), nranks, "inproc", {5, 3000});
}

TEST(Error, IsThatOfWhatThisRankEncoded) {
  constexpr size_t count = 1000;
  std::mt19937_64 random(5);
  std::vector<Floats> inputs;
  for (int r = 0; r < 2; ++r) inputs.push_back(random_floats(random, count, 6));
  inputs[0][3] = std::numeric_limits<float>::infinity();
  const tutti_codec& codec = codec_of("fp8");
  on_comm(2, "inproc", [&](int rank, tutti_comm comm) {
    Floats out(count);
    tutti_codec_error error{};
    error.size = sizeof(error);
    ASSERT_EQ(tutti_allreduce_coded_with(inputs[size_t(rank)].data(), out.data(), count, TUTTI_SUM,
                                         &codec, comm, nullptr, &error),
              TUTTI_OK);
    // The greatest of the vector's error, and at least that: the result's part comes on top.
    const Floats decoded = through(codec, inputs[size_t(rank)]);
    double greatest = 0;
    for (size_t i = 0; i < count; ++i) {
      if (!std::isfinite(decoded[i])) continue;
      greatest = std::max(greatest, std::fabs(double(decoded[i]) - inputs[size_t(rank)][i]));
    }
    EXPECT_GE(error.max_error, greatest);
    EXPECT_GT(error.rms_error, 0);
    EXPECT_LE(error.rms_error, error.rms_value / 16);
    // Rank 0 gives an infinity and owns the result's part where it is.
    EXPECT_EQ(error.not_finite, rank == 0 ? 2u : 0u);
    const tutti_codec plain = plain_codec();
    ASSERT_EQ(tutti_allreduce_coded_with(inputs[1].data(), out.data(), count, TUTTI_SUM, &plain,
                                         comm, nullptr, &error),
              TUTTI_OK);
    EXPECT_EQ(error.max_error, 0);
    EXPECT_EQ(error.rms_error, 0);
    EXPECT_GT(error.rms_value, 0);
  });
}

TEST(Mismatch, OfCodecsNamesBoth) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    on_comm(3, transport, [](int rank, tutti_comm comm) {
      Floats in(100), out(100);
      EXPECT_EQ(tutti_allreduce_coded(in.data(), out.data(), 100, TUTTI_SUM,
                                      &codec_of(rank == 2 ? "fp8" : "bf16"), comm),
                TUTTI_MISMATCH);
      for (const char* part : {"allreduce_coded", "codec fp8", "codec bf16"}) {
        EXPECT_NE(sentence(comm).find(part), std::string::npos) << sentence(comm);
      }
    });
  }
}

TEST(WrongArguments, AreNamedAndTheCommunicatorGoesOn) {
  on_comm(2, "inproc", [](int rank, tutti_comm comm) {
    float a[8] = {}, b[8];
    const tutti_codec good = plain_codec();
    const auto refused = [&](const char* says, const tutti_codec* codec, const void* send = nullptr,
                             void* recv = nullptr, tutti_op op = TUTTI_SUM,
                             tutti_codec_error* error = nullptr) {
      EXPECT_EQ(tutti_allreduce_coded_with(send != nullptr ? send : a, recv != nullptr ? recv : b,
                                           4, op, codec, comm, nullptr, error),
                TUTTI_INVALID)
          << says;
      EXPECT_NE(sentence(comm).find(says), std::string::npos) << sentence(comm);
    };
    if (rank == 0) {
      refused("the codec is NULL", nullptr);
      tutti_codec bad = good;
      bad.size = 3;
      refused("the size of the codec is not set", &bad);
      bad = good;
      bad.decode = nullptr;
      refused("a function of the codec is NULL", &bad);
      for (const char* name : {"", "a name that is much too long for a codec", "line\n"}) {
        bad = good;
        bad.name = name;
        refused("not 1 to 31 printable characters", &bad);
      }
      bad = good;
      bad.block = 0;
      refused("block is of 0 elements", &bad);
      refused("overlap", &good, a, a + 2);
      refused("not defined on float32", &good, a, b, TUTTI_BXOR);
      tutti_codec_error error{};
      refused("size of the codec error is not set", &good, a, b, TUTTI_SUM, &error);
    }
    EXPECT_EQ(tutti_barrier(comm), TUTTI_OK) << sentence(comm);
  });
}

}  // namespace
