// The levels of the numerics contract, through collectives: canonical and exact results are those
// of tutti_reduce_local(), whatever algorithm and transport brought the operands together; layout
// ones do not depend on how a vector is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/reduce/exact_oracle.h"
#include "tests/support/sanitized.h"
#include "tests/support/thread_comm.h"
#include "tests/support/with_ucx.h"
#include "tutti/tutti.h"

namespace {

using tutti::reference::Float;
using tutti::testing::algorithms_of;
using tutti::testing::on_comm;
using tutti::testing::sanitized;
using tutti::testing::sentence;

using Bytes = std::vector<uint8_t>;

constexpr size_t count = 37;  // of most vectors
constexpr size_t edges = 12;  // elements that may be of every kind

// Of a float, or of a complex number's components.
const Float* format_of(tutti_dtype dtype) {
  static const std::map<tutti_dtype, Float> formats = {
      {TUTTI_FLOAT8_E4M3, {3, 4, true}}, {TUTTI_FLOAT8_E5M2, {2, 5}}, {TUTTI_FLOAT16, {10, 5}},
      {TUTTI_BFLOAT16, {7, 8}},          {TUTTI_FLOAT32, {23, 8}},    {TUTTI_FLOAT64, {52, 11}},
      {TUTTI_COMPLEX64, {23, 8}},        {TUTTI_COMPLEX128, {52, 11}}};
  const auto found = formats.find(dtype);
  return found == formats.end() ? nullptr : &found->second;
}

// Numbers of both signs that are near enough to each other to round and to cancel; among the first
// some zeros, subnormals, infinities and NaN.
Bytes input_of(tutti_dtype dtype, int rank, size_t elements) {
  std::mt19937_64 random(uint64_t(rank) * 64 + uint64_t(dtype));
  Bytes bytes(elements * tutti_dtype_size(dtype));
  const Float* const format = format_of(dtype);
  if (format == nullptr) {
    for (uint8_t& byte : bytes) byte = uint8_t(random());
    return bytes;
  }
  const size_t size = size_t(format->bits()) / 8;
  const uint64_t sign = uint64_t{1} << (format->bits() - 1);
  const uint64_t middle = (uint64_t{1} << (format->exponent_bits - 1)) - 1;
  for (size_t i = 0; i * size < bytes.size(); ++i) {
    const uint64_t exponent = middle + random() % 5 - 2;
    const uint64_t fraction = random() & ((uint64_t{1} << format->mantissa_bits) - 1);
    uint64_t pattern = exponent << format->mantissa_bits | fraction;
    if (i < edges && random() % 8 == 0) {
      const uint64_t kinds[] = {
          0, 1, fraction, format->infinity(), format->infinity() - 1, format->nan()};
      pattern = kinds[random() % 6];
    }
    if (random() % 2 != 0) pattern |= sign;
    std::memcpy(bytes.data() + i * size, &pattern, size);
  }
  return bytes;
}

struct TypeAndOp {
  tutti_dtype dtype;
  tutti_op op;
};

std::string name_of(const TypeAndOp& of) {
  return std::string(tutti_dtype_name(of.dtype)) + " " + tutti_op_name(of.op);
}

// Each type with one operator, and those that round with all that do.
std::vector<TypeAndOp> types_and_operators() {
  std::vector<TypeAndOp> all;
  for (int t = 0; t < TUTTI_DTYPE_COUNT; ++t) {
    const auto dtype = static_cast<tutti_dtype>(t);
    if (dtype == TUTTI_BINNED_FLOAT32 || dtype == TUTTI_BINNED_FLOAT64) continue;  // not any bits
    const bool located = !tutti_op_supports(TUTTI_SUM, dtype);
    all.push_back({dtype, located ? TUTTI_MINLOC : TUTTI_SUM});
    if (format_of(dtype) == nullptr) continue;
    all.push_back({dtype, TUTTI_PROD});
    all.push_back({dtype, TUTTI_AVG});
  }
  return all;
}

// What ranks [0, n) give together; element `first` of their inputs is the first.
Bytes combined(const std::vector<Bytes>& inputs, size_t n, size_t first, size_t elements,
               const TypeAndOp& of, tutti_level level) {
  const size_t size = tutti_dtype_size(of.dtype);
  std::vector<const void*> operands;
  for (size_t r = 0; r < n; ++r) operands.push_back(inputs[r].data() + first * size);
  Bytes out(elements * size);
  EXPECT_EQ(tutti_reduce_local(operands.data(), n, out.data(), elements, of.dtype, of.op, level),
            TUTTI_OK)
      << tutti_last_error();
  return out;
}

std::vector<Bytes> inputs_of(const TypeAndOp& of, int nranks, size_t elements) {
  std::vector<Bytes> inputs;
  inputs.reserve(size_t(nranks));
  for (int r = 0; r < nranks; ++r) inputs.push_back(input_of(of.dtype, r, elements));
  return inputs;
}

tutti_call_config at(tutti_level level, const char* algorithm = "auto", bool unfused = false) {
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.level = level;
  config.algorithm = algorithm;
  config.flags = unfused ? TUTTI_CALL_UNFUSED : 0;
  return config;
}

// One case on one rank of a communicator.
struct Check {
  const TypeAndOp& of;
  tutti_level level;
  const std::vector<Bytes>& inputs;  // longest: a block a rank
  int rank;
  tutti_comm comm;
  size_t count = ::count;  // of vectors
  size_t block = 5;        // of what has a block a rank

  size_t nranks() const { return inputs.size(); }
  size_t size() const { return tutti_dtype_size(of.dtype); }
  const void* input() const { return inputs[size_t(rank)].data(); }

  void expect(const Bytes& got, size_t n, size_t first, size_t elements, tutti_status status,
              const std::string& what) const {
    ASSERT_EQ(status, TUTTI_OK) << what << ": " << sentence(comm);
    if (n == 0) return;
    ASSERT_EQ(got, combined(inputs, n, first, elements, of, level))
        << what << ", " << name_of(of) << ", rank " << rank << " of " << nranks();
  }

  // False where the algorithm does not hold the level.
  bool allreduce(const std::string& algorithm, bool unfused) const {
    const tutti_call_config config = at(level, algorithm.c_str(), unfused);
    Bytes out(count * size());
    const tutti_status status =
        tutti_allreduce_with(input(), out.data(), count, of.dtype, of.op, comm, &config);
    if (status == TUTTI_UNSUPPORTED) return false;
    expect(out, nranks(), 0, count, status, algorithm + (unfused ? ", unfused" : ""));
    return true;
  }

  void others(bool unfused) const {
    const tutti_call_config config = at(level, "auto", unfused);
    const int root = int(nranks()) / 2;
    Bytes out(count * size());
    tutti_status status =
        tutti_reduce_with(input(), out.data(), count, of.dtype, of.op, root, comm, &config);
    expect(out, rank == root ? nranks() : 0, 0, count, status, "reduce");
    status = tutti_scan_with(input(), out.data(), count, of.dtype, of.op, comm, &config);
    expect(out, size_t(rank) + 1, 0, count, status, "scan");
    status = tutti_exscan_with(input(), out.data(), count, of.dtype, of.op, comm, &config);
    expect(out, size_t(rank), 0, count, status, "exscan");
    out.resize(block * size());
    status =
        tutti_reduce_scatter_block_with(input(), out.data(), block, of.dtype, of.op, comm, &config);
    expect(out, nranks(), size_t(rank) * block, block, status, "reduce_scatter_block");
    std::vector<size_t> lengths(nranks());
    size_t first = 0;
    for (size_t r = 0; r < nranks(); ++r) {
      lengths[r] = 1 + r % 4;
      if (r < size_t(rank)) first += lengths[r];
    }
    out.resize(lengths[size_t(rank)] * size());
    status = tutti_reduce_scatter_with(input(), out.data(), lengths.data(), of.dtype, of.op, comm,
                                       &config);
    expect(out, nranks(), first, lengths[size_t(rank)], status, "reduce_scatter");
  }
};

class Levels : public ::testing::TestWithParam<const char*> {
 protected:
  static bool is(const char* transport) { return std::string(GetParam()) == transport; }
  static bool shares_memory() { return !is("tcp") && !is("ucx"); }
  // Streams and their frames are the same for all numbers of ranks, and workers of ucx are dear.
  static int most_ranks() { return is("ucx") ? 3 : 33; }

  // All collectives, by every algorithm that can, for all types.
  static void check(int nranks, tutti_level level, const std::vector<TypeAndOp>& all,
                    const std::set<std::string>& must_hold, size_t length = count,
                    size_t block = 5) {
    std::vector<std::vector<Bytes>> inputs;
    inputs.reserve(all.size());
    for (const TypeAndOp& of : all) {
      inputs.push_back(inputs_of(of, nranks, std::max(length, block * size_t(nranks))));
    }
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      for (size_t i = 0; i < all.size() && !HasFatalFailure(); ++i) {
        const Check check{all[i], level, inputs[i], rank, comm, length, block};
        for (const std::string& algorithm : algorithms_of("allreduce")) {
          const bool held = check.allreduce(algorithm, false);
          EXPECT_TRUE(held || !must_hold.contains(algorithm)) << algorithm << " on " << nranks;
          const bool fuses =
              algorithm == "all-to-all" || algorithm == "two-shot" || algorithm == "two-level";
          if (held && fuses && shares_memory()) check.allreduce(algorithm, true);
        }
        check.others(false);
        if (shares_memory()) check.others(true);
      }
    });
  }
};

// Calls of many threads on few cores cost milliseconds: from some rank count on types take turns.
std::vector<TypeAndOp> some_of(const std::vector<TypeAndOp>& all, int turn, size_t every) {
  std::vector<TypeAndOp> some;
  for (size_t i = size_t(turn) % every; i < all.size(); i += every) some.push_back(all[i]);
  return some;
}

const std::set<std::string> whose_trees_are_equal = {
    "auto",        "master-worker", "all-to-all",      "two-shot",
    "round-robin", "butterfly",     "halving-doubling"};

TEST_P(Levels, CanonicalIsOneResultForEveryAlgorithm) {
  for (int nranks = 1; nranks <= std::min(most_ranks(), sanitized ? 9 : 33); ++nranks) {
    const size_t every = nranks <= 8 ? 1 : is("inproc") ? 2 : is("shm") ? 4 : 6;
    check(nranks, TUTTI_LEVEL_CANONICAL, some_of(types_and_operators(), nranks, every),
          whose_trees_are_equal);
  }
}

TEST_P(Levels, CanonicalOfEveryTypeOnEveryNumberOfRanks) {
  for (int nranks = 9; nranks <= most_ranks(); ++nranks) {
    check(nranks, TUTTI_LEVEL_CANONICAL, types_and_operators(), whose_trees_are_equal);
  }
}

TEST_P(Levels, ExactIsOneResultForEveryAlgorithmThatFoldsAtOnce) {
  const std::set<std::string> all_that_fold = {"auto", "master-worker", "all-to-all", "two-shot",
                                               "round-robin"};
  std::vector<TypeAndOp> exact = types_and_operators();
  std::erase_if(exact, [](const TypeAndOp& of) {
    return of.op == TUTTI_PROD && format_of(of.dtype) != nullptr;
  });
  for (const int nranks : {1, 2, 3, 5, 8, 13, 33}) {
    if (nranks > most_ranks()) break;
    check(nranks, TUTTI_LEVEL_EXACT, some_of(exact, nranks, nranks <= 8 ? 1 : 6), all_that_fold);
  }
}

// In slices, pieces and, among threads, straight from one rank's memory to another's.
TEST_P(Levels, LongVectorsAreNoOther) {
  const std::vector<TypeAndOp> some = {{TUTTI_FLOAT32, TUTTI_SUM},
                                       {TUTTI_FLOAT16, TUTTI_AVG},
                                       {TUTTI_FLOAT8_E5M2, TUTTI_SUM},
                                       {TUTTI_COMPLEX128, TUTTI_SUM}};
  for (const int nranks : {2, 3, 6, 7}) {
    if (nranks > most_ranks()) break;
    for (const tutti_level level : {TUTTI_LEVEL_CANONICAL, TUTTI_LEVEL_EXACT}) {
      check(nranks, level, some, {"auto"}, 30'011, 5'003);
    }
  }
}

// The same cut anyhow, so that short and long vectors go different ways.
TEST_P(Levels, LayoutDoesNotDependOnHowAVectorIsCut) {
  constexpr size_t whole = 60'000;
  for (const TypeAndOp& of : {TypeAndOp{TUTTI_FLOAT32, TUTTI_SUM},
                              {TUTTI_BFLOAT16, TUTTI_SUM},
                              {TUTTI_FLOAT8_E4M3, TUTTI_AVG},
                              {TUTTI_COMPLEX64, TUTTI_PROD}}) {
    for (const int nranks : {2, 5, 8}) {
      if (nranks > most_ranks()) break;
      const std::vector<Bytes> inputs = inputs_of(of, nranks, whole);
      on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
        const tutti_call_config config = at(TUTTI_LEVEL_LAYOUT);
        const size_t size = tutti_dtype_size(of.dtype);
        const Bytes& in = inputs[size_t(rank)];
        Bytes at_once(whole * size), cut(whole * size);
        const auto reduce = [&](size_t begin, size_t end, Bytes* out) {
          ASSERT_EQ(tutti_allreduce_with(in.data() + begin * size, out->data() + begin * size,
                                         end - begin, of.dtype, of.op, comm, &config),
                    TUTTI_OK)
              << sentence(comm);
        };
        reduce(0, whole, &at_once);
        size_t begin = 0;
        for (size_t end = 1; begin < whole; end = std::min(whole, end * 3 + 1)) {
          reduce(begin, end, &cut);
          begin = end;
        }
        EXPECT_EQ(at_once, cut) << name_of(of) << " on " << nranks;
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Levels,
                         ::testing::ValuesIn(tutti::testing::with_ucx({"inproc", "shm", "tcp"})),
                         [](const auto& info) { return std::string(info.param); });

// Else equal bits would prove nothing.
TEST(LevelsOfTheseInputs, Differ) {
  for (const TypeAndOp& of : types_and_operators()) {
    if (format_of(of.dtype) == nullptr) continue;
    size_t beyond_fast = 0, beyond_canonical = 0;
    for (int nranks = 4; nranks <= 33; ++nranks) {
      const auto inputs = inputs_of(of, nranks, count);
      const auto result = [&](tutti_level level) {
        return combined(inputs, size_t(nranks), 0, count, of, level);
      };
      beyond_fast += result(TUTTI_LEVEL_FAST) != result(TUTTI_LEVEL_CANONICAL);
      if (of.op != TUTTI_PROD) {
        beyond_canonical += result(TUTTI_LEVEL_CANONICAL) != result(TUTTI_LEVEL_EXACT);
      }
    }
    EXPECT_GE(beyond_fast, 20u) << name_of(of);
    if (of.op != TUTTI_PROD) {
      EXPECT_GE(beyond_canonical, 20u) << name_of(of);
    }
  }
  on_comm(6, "inproc", [](int rank, tutti_comm comm) {
    const TypeAndOp of{TUTTI_FLOAT32, TUTTI_SUM};
    const auto inputs = inputs_of(of, 6, count);
    std::set<std::string> results;
    for (const char* algorithm : {"ring", "all-to-all", "butterfly"}) {
      const tutti_call_config config = at(TUTTI_LEVEL_FAST, algorithm);
      Bytes out(count * sizeof(float));
      ASSERT_EQ(tutti_allreduce_with(inputs[size_t(rank)].data(), out.data(), count, of.dtype,
                                     of.op, comm, &config),
                TUTTI_OK);
      results.emplace(out.begin(), out.end());
    }
    EXPECT_EQ(results.size(), 3u) << "at fast";
  });
}

// An oracle that knows no order, and ranks that change places.
TEST(Exact, IsTheSumWhoeverHasWhichOperand) {
  for (const tutti_dtype dtype : {TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2, TUTTI_FLOAT16,
                                  TUTTI_BFLOAT16, TUTTI_FLOAT32, TUTTI_FLOAT64}) {
    const Float format = *format_of(dtype);
    const size_t size = tutti_dtype_size(dtype);
    for (const int nranks : {2, 3, 7}) {
      std::vector<Bytes> inputs = inputs_of({dtype, TUTTI_SUM}, nranks, count);
      Bytes expected(count * size);
      for (size_t i = 0; i < count; ++i) {
        std::vector<uint64_t> patterns(size_t(nranks), 0);
        for (int r = 0; r < nranks; ++r) {
          std::memcpy(&patterns[size_t(r)], inputs[size_t(r)].data() + i * size, size);
        }
        const uint64_t sum = exact_sum(format, patterns);
        std::memcpy(expected.data() + i * size, &sum, size);
      }
      for (int turn = 0; turn < 3; ++turn) {
        on_comm(nranks, "inproc", [&](int rank, tutti_comm comm) {
          const tutti_call_config config = at(TUTTI_LEVEL_EXACT);
          Bytes out(count * size);
          ASSERT_EQ(tutti_allreduce_with(inputs[size_t(rank)].data(), out.data(), count, dtype,
                                         TUTTI_SUM, comm, &config),
                    TUTTI_OK)
              << sentence(comm);
          EXPECT_EQ(out, expected) << tutti_dtype_name(dtype) << " on " << nranks;
        });
        std::rotate(inputs.begin(), inputs.begin() + 1, inputs.end());
      }
    }
  }
}

// Neither associative nor commutative: every other tree and every other order would show.
void skewed(const void* lower, const void* higher, void* out, size_t n, tutti_dtype, void*) {
  const auto* a = static_cast<const double*>(lower);
  const auto* b = static_cast<const double*>(higher);
  for (size_t i = 0; i < n; ++i) static_cast<double*>(out)[i] = 1.5 * a[i] + b[i] / 3;
}

TEST(Canonical, TakesOperatorsOfTheProgram) {
  tutti_op op = TUTTI_OP_COUNT;
  ASSERT_EQ(tutti_op_create(skewed, nullptr, 0, &op), TUTTI_OK);
  tutti_dtype pair = TUTTI_DTYPE_COUNT;
  ASSERT_EQ(tutti_dtype_create(sizeof(double), "one double", &pair), TUTTI_OK);
  for (const tutti_dtype dtype : {TUTTI_FLOAT64, pair}) {
    for (const int nranks : {2, 3, 6, 7, 13}) {
      const std::vector<Bytes> inputs =
          inputs_of({TUTTI_FLOAT64, TUTTI_SUM}, nranks, std::max<size_t>(count, 5u * 13u));
      on_comm(nranks, "inproc", [&](int rank, tutti_comm comm) {
        const TypeAndOp of{dtype, op};
        const Check check{of, TUTTI_LEVEL_CANONICAL, inputs, rank, comm};
        for (const std::string& algorithm : algorithms_of("allreduce")) {
          const bool held = check.allreduce(algorithm, false);
          if (algorithm == "butterfly" || algorithm == "two-shot") {
            EXPECT_TRUE(held);
          }
        }
        check.others(false);
      });
    }
  }
  EXPECT_EQ(tutti_op_free(op), TUTTI_OK);
  EXPECT_EQ(tutti_dtype_free(pair), TUTTI_OK);
}

TEST(LevelOfACommunicator, IsThatOfCallsThatNameNone) {
  tutti_unique_id id{};
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  const TypeAndOp of{TUTTI_FLOAT32, TUTTI_SUM};
  const auto inputs = inputs_of(of, 6, count);
  tutti::testing::on_threads(6, [&](int rank) {
    tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
    config.transports = "inproc";
    config.level = TUTTI_LEVEL_EXACT;
    tutti_comm comm = nullptr, copy = nullptr;
    ASSERT_EQ(tutti_comm_create_from_id(&id, rank, 6, &config, &comm), TUTTI_OK);
    ASSERT_EQ(tutti_comm_dup(comm, &copy), TUTTI_OK);
    for (tutti_comm c : {comm, copy}) {
      Bytes out(count * sizeof(float));
      ASSERT_EQ(tutti_allreduce(inputs[size_t(rank)].data(), out.data(), count, of.dtype, of.op, c),
                TUTTI_OK);
      EXPECT_EQ(out, combined(inputs, 6, 0, count, of, TUTTI_LEVEL_EXACT));
      const tutti_call_config canonical = at(TUTTI_LEVEL_CANONICAL);
      ASSERT_EQ(tutti_allreduce_with(inputs[size_t(rank)].data(), out.data(), count, of.dtype,
                                     of.op, c, &canonical),
                TUTTI_OK);
      EXPECT_EQ(out, combined(inputs, 6, 0, count, of, TUTTI_LEVEL_CANONICAL));
    }
    tutti_comm_free(copy);
    tutti_comm_free(comm);
  });
}

TEST(WhatCannotHoldALevel, IsUnsupportedWithOneSentence) {
  on_comm(5, "inproc", [](int, tutti_comm comm) {
    float in = 1, out = 0;
    const auto refused = [&](tutti_level level, const char* algorithm, tutti_op op,
                             const char* text) {
      const tutti_call_config config = at(level, algorithm);
      tutti_explanation explanation{};
      explanation.size = sizeof(explanation);
      EXPECT_EQ(tutti_allreduce_explain(1, TUTTI_FLOAT32, op, comm, &config, &explanation),
                TUTTI_UNSUPPORTED);
      EXPECT_EQ(tutti_allreduce_with(&in, &out, 1, TUTTI_FLOAT32, op, comm, &config),
                TUTTI_UNSUPPORTED);
      EXPECT_EQ(sentence(comm), text);
    };
    refused(TUTTI_LEVEL_LAYOUT, "ring", TUTTI_SUM,
            "algorithm ring cannot run here: it combines one part of a vector in another order "
            "than the next, which must not be at level layout");
    refused(TUTTI_LEVEL_CANONICAL, "tree", TUTTI_SUM,
            "algorithm tree cannot run here: on 5 ranks it does not combine by the one tree that "
            "all results have at level canonical");
    refused(TUTTI_LEVEL_EXACT, "butterfly", TUTTI_SUM,
            "algorithm butterfly cannot run here: it passes on sums of some of the ranks, which "
            "are rounded, and at level exact a result is rounded once");
    refused(TUTTI_LEVEL_EXACT, "auto", TUTTI_PROD,
            "operator prod on float32 has no form at level exact");
    tutti_op own = TUTTI_OP_COUNT;
    ASSERT_EQ(tutti_op_create(skewed, nullptr, 1, &own), TUTTI_OK);
    refused(TUTTI_LEVEL_EXACT, "auto", own,
            "operators of the program's own have no form at level exact");
    tutti_op_free(own);
    // Where nothing rounds, everything holds.
    const tutti_call_config config = at(TUTTI_LEVEL_EXACT, "ring");
    EXPECT_EQ(tutti_allreduce_with(&in, &out, 1, TUTTI_INT32, TUTTI_PROD, comm, &config), TUTTI_OK);
    EXPECT_EQ(tutti_allreduce_with(&in, &out, 1, TUTTI_FLOAT32, TUTTI_MAX, comm, &config),
              TUTTI_OK);
  });
}

TEST(Mismatch, OfLevelsNamesBothCalls) {
  for (const char* transport : {"inproc", "tcp"}) {
    on_comm(2, transport, [](int rank, tutti_comm comm) {
      const tutti_call_config config = at(rank == 0 ? TUTTI_LEVEL_CANONICAL : TUTTI_LEVEL_EXACT);
      const float in = 1;
      float out = 0;
      EXPECT_EQ(tutti_allreduce_with(&in, &out, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, &config),
                TUTTI_MISMATCH);
      for (const char* level : {"sum at level canonical", "sum at level exact"}) {
        EXPECT_NE(sentence(comm).find(level), std::string::npos) << sentence(comm);
      }
    });
  }
}

}  // namespace
