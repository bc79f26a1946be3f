// The program's own types and operators through the C API: 2x2 matrices modulo a prime, whose
// product is exact, associative and not commutative, through everything that says it keeps rank
// order; and every wrong argument.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::algorithms_of;
using tutti::testing::on_comm;
using tutti::testing::on_threads;
using tutti::testing::sentence;

constexpr uint32_t prime = 1'000'003;
using Matrix = std::array<uint32_t, 4>;

Matrix product(const Matrix& a, const Matrix& b) {
  const auto entry = [&](size_t i, size_t j) {
    const uint64_t first = uint64_t(a[2 * i]) * b[j];
    const uint64_t second = uint64_t(a[2 * i + 1]) * b[2 + j];
    return uint32_t((first + second) % prime);
  };
  return {entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)};
}

// A matrix and, for sizes that divide nothing, some bytes that stay as they are.
template <size_t kRest>
struct Element {
  Matrix matrix;
  std::array<uint32_t, kRest> rest;
  bool operator==(const Element&) const = default;
};
template <>
struct Element<0> {
  Matrix matrix;
  bool operator==(const Element&) const = default;
};

struct Seen {
  std::atomic<uint64_t> calls{0};
  std::atomic<int> dtype{-1};
  std::atomic<bool> misaligned{false};
};

template <class E>
void multiply(const void* lower, const void* higher, void* out, size_t count, tutti_dtype dtype,
              void* context) {
  auto* seen = static_cast<Seen*>(context);
  ++seen->calls;
  seen->dtype = int(dtype);
  // Sizes of elements here are odd multiples of 8 or 16.
  constexpr size_t alignment = sizeof(E) % 16 == 0 ? 16 : 8;
  for (const void* vector : {lower, higher, static_cast<const void*>(out)}) {
    if (reinterpret_cast<uintptr_t>(vector) % alignment != 0) seen->misaligned = true;
  }
  const E* a = static_cast<const E*>(lower);
  const E* b = static_cast<const E*>(higher);
  E* to = static_cast<E*>(out);
  for (size_t i = 0; i < count; ++i) {
    E result = a[i];
    result.matrix = product(a[i].matrix, b[i].matrix);
    to[i] = result;
  }
}

template <class E>
std::vector<E> vector_of(int rank, size_t count) {
  std::vector<E> all(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < 4; ++k) {
      all[i].matrix[k] = uint32_t((i * 2654435761u + size_t(rank) * 40503u + k * 97u + 1) % prime);
    }
  }
  return all;
}

// Elements have no padding.
template <class E>
bool same(const std::vector<E>& a, const std::vector<E>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(E)) == 0);
}

template <class E>
std::vector<E> product_of(int nranks, size_t count) {
  std::vector<E> all = vector_of<E>(0, count);
  for (int rank = 1; rank < nranks; ++rank) {
    const std::vector<E> next = vector_of<E>(rank, count);
    for (size_t i = 0; i < count; ++i) all[i].matrix = product(all[i].matrix, next[i].matrix);
  }
  return all;
}

// A type and an operator that are freed at the end.
struct Owned {
  tutti_dtype dtype = TUTTI_DTYPE_COUNT;
  tutti_op op = TUTTI_OP_COUNT;
  Seen seen;

  Owned(size_t size, tutti_op_fn function, bool commutative) {
    EXPECT_EQ(tutti_dtype_create(size, "matrix", &dtype), TUTTI_OK) << tutti_last_error();
    EXPECT_EQ(tutti_op_create(function, &seen, commutative, &op), TUTTI_OK) << tutti_last_error();
  }
  ~Owned() {
    EXPECT_EQ(tutti_dtype_free(dtype), TUTTI_OK);
    EXPECT_EQ(tutti_op_free(op), TUTTI_OK);
  }
};

class UserTypes : public ::testing::TestWithParam<const char*> {};

// Every algorithm either runs, and then keeps rank order, or says why it cannot.
template <class E>
void check_allreduce(const char* transport, int nranks, const std::vector<size_t>& counts) {
  Owned own(sizeof(E), multiply<E>, false);
  std::atomic<int> ran{0};
  std::vector<std::vector<E>> products;
  for (const size_t count : counts) products.push_back(product_of<E>(nranks, count));
  on_comm(nranks, transport, [&](int rank, tutti_comm comm) {
    std::vector<std::vector<E>> inputs;
    for (const size_t count : counts) inputs.push_back(vector_of<E>(rank, count));
    for (const std::string& name : algorithms_of("allreduce")) {
      for (const uint32_t flags : {0u, TUTTI_CALL_UNFUSED}) {
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.algorithm = name.c_str();
        config.flags = flags;
        for (size_t which = 0; which < counts.size(); ++which) {
          const size_t count = counts[which];
          const std::vector<E>& expected = products[which];
          std::vector<E> in = inputs[which], out(count);
          const tutti_status status =
              tutti_allreduce_with(in.data(), out.data(), count, own.dtype, own.op, comm, &config);
          if (status == TUTTI_UNSUPPORTED) {
            ASSERT_NE(sentence(comm).find("not commutative"), std::string::npos) << sentence(comm);
            continue;
          }
          ASSERT_EQ(status, TUTTI_OK) << name << ": " << sentence(comm);
          ASSERT_TRUE(same(out, expected)) << name << ", " << nranks << " ranks, " << count;
          ASSERT_EQ(tutti_allreduce_with(TUTTI_IN_PLACE, in.data(), count, own.dtype, own.op, comm,
                                         &config),
                    TUTTI_OK)
              << sentence(comm);
          ASSERT_TRUE(same(in, expected)) << name << " in place, " << nranks << " ranks, " << count;
          ++ran;
        }
      }
    }
  });
  EXPECT_GT(ran, 0);
  EXPECT_FALSE(own.seen.misaligned);
  if (nranks > 1) {
    EXPECT_EQ(own.seen.dtype, int(own.dtype));
  }
}

TEST_P(UserTypes, MatricesMeetInRankOrderInEveryAllreduce) {
  for (int nranks = 1; nranks <= 9; ++nranks) {
    check_allreduce<Element<0>>(GetParam(), nranks, {0, 1, 3, 40, 1500});
  }
}

// Sizes that do not divide a cache line, a slot or a frame.
TEST_P(UserTypes, ElementsOfAnySizeArriveWhole) {
  for (const int nranks : {2, 3, 5}) {
    check_allreduce<Element<2>>(GetParam(), nranks, {1, 7, 5000});    // 24 bytes
    check_allreduce<Element<1018>>(GetParam(), nranks, {1, 9, 100});  // 4088 bytes
  }
}

TEST_P(UserTypes, MatricesMeetInRankOrderInEveryReduce) {
  Owned own(sizeof(Element<0>), multiply<Element<0>>, false);
  for (int nranks = 1; nranks <= 9; ++nranks) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      for (const std::string& name : algorithms_of("reduce")) {
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.algorithm = name.c_str();
        for (int root = 0; root < nranks; ++root) {
          for (const size_t count : {1, 700}) {
            const auto in = vector_of<Element<0>>(rank, count);
            std::vector<Element<0>> out(rank == root ? count : 0);
            const tutti_status status = tutti_reduce_with(in.data(), out.data(), count, own.dtype,
                                                          own.op, root, comm, &config);
            if (status == TUTTI_UNSUPPORTED) continue;
            ASSERT_EQ(status, TUTTI_OK) << sentence(comm);
            if (rank == root) {
              ASSERT_EQ(out, product_of<Element<0>>(nranks, count))
                  << name << " to " << root << " of " << nranks;
            }
          }
        }
      }
    });
  }
}

TEST_P(UserTypes, ScansAndReduceScattersKeepRankOrder) {
  using E = Element<2>;  // 24 bytes
  Owned own(sizeof(E), multiply<E>, false);
  for (const int nranks : {1, 2, 3, 5, 8}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      for (const size_t count : {size_t{1}, size_t{500}}) {
        const std::vector<E> in = vector_of<E>(rank, count);
        for (const char* name : {"scan", "exscan"}) {
          const bool inclusive = name[0] == 's';
          for (const std::string& algorithm : algorithms_of(name)) {
            tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
            config.algorithm = algorithm.c_str();
            std::vector<E> out(count);
            ASSERT_EQ((inclusive ? tutti_scan_with : tutti_exscan_with)(
                          in.data(), out.data(), count, own.dtype, own.op, comm, &config),
                      TUTTI_OK)
                << sentence(comm);
            if (rank == 0 && !inclusive) continue;
            EXPECT_EQ(out, product_of<E>(inclusive ? rank + 1 : rank, count))
                << name << " " << algorithm << " on rank " << rank << " of " << nranks;
          }
        }
        const size_t all = count * size_t(nranks);
        const std::vector<E> blocks = vector_of<E>(rank, all),
                             expected = product_of<E>(nranks, all);
        for (const char* algorithm : {"auto", "direct"}) {
          tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
          config.algorithm = algorithm;
          std::vector<E> out(count);
          ASSERT_EQ(tutti_reduce_scatter_block_with(blocks.data(), out.data(), count, own.dtype,
                                                    own.op, comm, &config),
                    TUTTI_OK)
              << sentence(comm);
          EXPECT_TRUE(
              std::equal(out.begin(), out.end(), expected.begin() + rank * ptrdiff_t(count)))
              << algorithm << " on rank " << rank << " of " << nranks;
        }
      }
    });
  }
}

TEST_P(UserTypes, AnAlgorithmThatBreaksRankOrderIsRefusedInWords) {
  Owned own(sizeof(Element<0>), multiply<Element<0>>, false);
  on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
    Element<0> in = vector_of<Element<0>>(rank, 1)[0], out;
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.algorithm = "ring";
    EXPECT_EQ(tutti_allreduce_with(&in, &out, 1, own.dtype, own.op, comm, &config),
              TUTTI_UNSUPPORTED);
    EXPECT_EQ(sentence(comm),
              "algorithm ring cannot run here: it adds in an order that depends on the chunk, so "
              "it cannot serve an operator that is not commutative");
    tutti_explanation why{};
    why.size = sizeof(why);
    EXPECT_EQ(tutti_allreduce_explain(1, own.dtype, own.op, comm, &config, &why),
              TUTTI_UNSUPPORTED);
    EXPECT_EQ(tutti_allreduce_explain(1 << 20, own.dtype, own.op, comm, nullptr, &why), TUTTI_OK);
    EXPECT_STRNE(why.algorithm, "ring");
  });
}

void add_int32(const void* lower, const void* higher, void* out, size_t count, tutti_dtype,
               void* context) {
  const auto* a = static_cast<const int32_t*>(lower);
  const auto* b = static_cast<const int32_t*>(higher);
  auto* to = static_cast<int32_t*>(out);
  for (size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
  ++static_cast<Seen*>(context)->calls;
}

TEST_P(UserTypes, AFunctionMayServeABuiltInTypeAndARing) {
  Seen seen;
  tutti_op op = TUTTI_OP_COUNT;
  ASSERT_EQ(tutti_op_create(add_int32, &seen, 1, &op), TUTTI_OK);
  on_comm(4, GetParam(), [&](int rank, tutti_comm comm) {
    for (const std::string& name : algorithms_of("allreduce")) {
      for (const size_t count : {1, 5000, 300'001}) {
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.algorithm = name.c_str();
        // One byte past alignment: the function still gets aligned vectors.
        std::vector<uint8_t> bytes(4 * count + 1), out(4 * count + 1);
        for (size_t i = 0; i < count; ++i) {
          const auto value = int32_t(i) * (rank + 1);
          std::memcpy(bytes.data() + 1 + 4 * i, &value, 4);
        }
        ASSERT_EQ(tutti_allreduce_with(bytes.data() + 1, out.data() + 1, count, TUTTI_INT32, op,
                                       comm, &config),
                  TUTTI_OK)
            << sentence(comm);
        size_t wrong = 0;
        for (size_t i = 0; i < count; ++i) {
          int32_t value = 0;
          std::memcpy(&value, out.data() + 1 + 4 * i, 4);
          wrong += value != int32_t(i) * 10;
        }
        ASSERT_EQ(wrong, 0u) << name;
      }
    }
  });
  EXPECT_GT(seen.calls, 0u);
  EXPECT_EQ(tutti_op_free(op), TUTTI_OK);
}

TEST_P(UserTypes, AreMovedByBroadcastAndMessages) {
  Owned own(24, multiply<Element<2>>, false);
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    const auto sent = vector_of<Element<2>>(7, 3000);
    auto got = rank == 0 ? sent : std::vector<Element<2>>(3000);
    ASSERT_EQ(tutti_broadcast(got.data(), got.size(), own.dtype, 0, comm), TUTTI_OK);
    EXPECT_EQ(got, sent);
    got.assign(3000, {});
    if (rank == 1) {
      ASSERT_EQ(tutti_send(sent.data(), sent.size(), own.dtype, 0, 5, comm), TUTTI_OK);
    } else {
      ASSERT_EQ(tutti_recv(got.data(), got.size(), own.dtype, 1, 5, comm), TUTTI_OK);
      EXPECT_EQ(got, sent);
    }
  });
}

// Numbers are a matter of each process; here the ranks are threads that made theirs in another
// order.
TEST_P(UserTypes, RanksNeedNotHaveMadeThemInTheSameOrder) {
  Owned first(16, multiply<Element<0>>, false), second(16, multiply<Element<0>>, false);
  on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
    const Owned& own = rank == 1 ? second : first;
    const auto in = vector_of<Element<0>>(rank, 10);
    std::vector<Element<0>> out(10);
    ASSERT_EQ(tutti_allreduce(in.data(), out.data(), 10, own.dtype, own.op, comm), TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(out, product_of<Element<0>>(3, 10));
  });
}

TEST_P(UserTypes, AnotherSizeIsAMismatchInWords) {
  Owned wide(24, multiply<Element<2>>, false), narrow(16, multiply<Element<0>>, false);
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    std::vector<Element<2>> in(10), out(10);
    const Owned& own = rank == 0 ? wide : narrow;
    EXPECT_EQ(tutti_allreduce(in.data(), out.data(), 10, own.dtype, own.op, comm), TUTTI_MISMATCH);
    for (const char* words :
         {"10 user-defined elements of 24 bytes", "10 user-defined elements of 16 bytes",
          "user operator that is not commutative"}) {
      EXPECT_NE(sentence(comm).find(words), std::string::npos) << sentence(comm);
    }
  });
}

TEST_P(UserTypes, AnotherCommutativityIsAMismatch) {
  Owned free_order(16, multiply<Element<0>>, true), rank_order(16, multiply<Element<0>>, false);
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    std::vector<Element<0>> in(1), out(1);
    const Owned& own = rank == 0 ? free_order : rank_order;
    EXPECT_EQ(tutti_allreduce(in.data(), out.data(), 1, own.dtype, own.op, comm), TUTTI_MISMATCH);
  });
}

TEST_P(UserTypes, FreedAndMadeAgainIsNotTheFormerOne) {
  on_comm(2, GetParam(), [](int rank, tutti_comm comm) {
    int32_t in = rank + 1, out = 0;
    tutti_op former = TUTTI_OP_COUNT;
    for (int turn = 0; turn < 3; ++turn) {
      Seen seen;
      tutti_op op = TUTTI_OP_COUNT;
      ASSERT_EQ(tutti_op_create(add_int32, &seen, 1, &op), TUTTI_OK);
      EXPECT_NE(op, former);
      ASSERT_EQ(tutti_allreduce(&in, &out, 1, TUTTI_INT32, op, comm), TUTTI_OK);
      EXPECT_EQ(out, 3);
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
      EXPECT_EQ(tutti_op_free(op), TUTTI_OK);
      EXPECT_EQ(tutti_allreduce(&in, &out, 1, TUTTI_INT32, op, comm), TUTTI_INVALID);
      EXPECT_NE(sentence(comm).find("unknown operator"), std::string::npos) << sentence(comm);
      former = op;
    }
  });
}

TEST_P(UserTypes, BuiltInOperatorsAreNotDefinedOnThem) {
  Owned own(16, multiply<Element<0>>, false);
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    std::vector<Element<0>> in(1), out(1);
    EXPECT_EQ(tutti_allreduce(in.data(), out.data(), 1, own.dtype, TUTTI_SUM, comm), TUTTI_INVALID);
    EXPECT_EQ(sentence(comm), "operator sum is not defined on matrix");
    EXPECT_EQ(tutti_reduce(in.data(), out.data(), 1, own.dtype, TUTTI_BAND, rank, comm),
              TUTTI_INVALID);
    const auto gone = tutti_dtype(int(own.dtype) + 1);
    EXPECT_EQ(tutti_broadcast(in.data(), 1, gone, 0, comm), TUTTI_INVALID);
    EXPECT_NE(sentence(comm).find("unknown type"), std::string::npos) << sentence(comm);
    EXPECT_EQ(tutti_broadcast(in.data(), SIZE_MAX / 8, own.dtype, 0, comm), TUTTI_INVALID);
    EXPECT_NE(sentence(comm).find("elements of matrix"), std::string::npos) << sentence(comm);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, UserTypes, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST(UserTypeQueries, AnswerAsForBuiltInTypes) {
  tutti_dtype dtype = TUTTI_DTYPE_COUNT;
  std::string name = "quaternion";
  ASSERT_EQ(tutti_dtype_create(32, name.c_str(), &dtype), TUTTI_OK);
  name = "overwritten";
  EXPECT_EQ(tutti_dtype_size(dtype), 32u);
  EXPECT_STREQ(tutti_dtype_name(dtype), "quaternion");
  Seen seen;
  tutti_op op = TUTTI_OP_COUNT;
  ASSERT_EQ(tutti_op_create(add_int32, &seen, 1, &op), TUTTI_OK);
  EXPECT_STREQ(tutti_op_name(op), "user");
  EXPECT_EQ(tutti_op_supports(op, dtype), 1);
  EXPECT_EQ(tutti_op_supports(op, TUTTI_FLOAT32), 1);
  EXPECT_EQ(tutti_op_supports(op, TUTTI_DTYPE_COUNT), 0);
  EXPECT_EQ(tutti_op_supports(TUTTI_SUM, dtype), 0);
  EXPECT_EQ(tutti_dtype_free(dtype), TUTTI_OK);
  EXPECT_EQ(tutti_dtype_size(dtype), 0u);
  EXPECT_EQ(tutti_dtype_name(dtype), nullptr);
  EXPECT_EQ(tutti_op_supports(op, dtype), 0);
  EXPECT_EQ(tutti_op_free(op), TUTTI_OK);
  EXPECT_EQ(tutti_op_name(op), nullptr);
  EXPECT_EQ(tutti_op_supports(op, TUTTI_FLOAT32), 0);
}

void refused(tutti_status status, const char* words) {
  EXPECT_EQ(status, TUTTI_INVALID);
  EXPECT_NE(std::string(tutti_last_error()).find(words), std::string::npos) << tutti_last_error();
}

TEST(UserTypeArguments, AreCheckedInWords) {
  tutti_dtype dtype = TUTTI_DTYPE_COUNT;
  refused(tutti_dtype_create(0, "empty", &dtype), "an element of 0 bytes; allowed are 1 to 4096");
  refused(tutti_dtype_create(4097, "huge", &dtype), "4097 bytes");
  refused(tutti_dtype_create(8, nullptr, &dtype), "the type has no name");
  refused(tutti_dtype_create(8, "", &dtype), "the type has no name");
  refused(tutti_dtype_create(8, "lost", nullptr), "nowhere to put the type");
  EXPECT_EQ(dtype, TUTTI_DTYPE_COUNT);
  refused(tutti_dtype_free(TUTTI_FLOAT32), "was not made by tutti_dtype_create()");
  refused(tutti_dtype_free(TUTTI_DTYPE_ANY_INT), "was not made");
  ASSERT_EQ(tutti_dtype_create(4096, "page", &dtype), TUTTI_OK);
  ASSERT_EQ(tutti_dtype_free(dtype), TUTTI_OK);
  refused(tutti_dtype_free(dtype), "was not made");

  tutti_op op = TUTTI_OP_COUNT;
  refused(tutti_op_create(nullptr, nullptr, 1, &op), "function is NULL");
  refused(tutti_op_create(add_int32, nullptr, 1, nullptr), "nowhere to put the operator");
  refused(tutti_op_free(TUTTI_SUM), "was not made by the program");
  ASSERT_EQ(tutti_op_create(add_int32, nullptr, 1, &op), TUTTI_OK);
  ASSERT_EQ(tutti_op_free(op), TUTTI_OK);
  refused(tutti_op_free(op), "was not made");
}

TEST(UserTypeTable, IsSafeForThreadsAndSaysWhenItIsFull) {
  on_threads(4, [](int) {
    for (int turn = 0; turn < 2000; ++turn) {
      tutti_dtype dtype = TUTTI_DTYPE_COUNT;
      ASSERT_EQ(tutti_dtype_create(size_t(1 + turn % 100), "brief", &dtype), TUTTI_OK);
      ASSERT_EQ(tutti_dtype_size(dtype), size_t(1 + turn % 100));
      ASSERT_EQ(tutti_dtype_free(dtype), TUTTI_OK);
    }
  });
  std::vector<tutti_dtype> all(4096);
  for (tutti_dtype& dtype : all) ASSERT_EQ(tutti_dtype_create(1, "one", &dtype), TUTTI_OK);
  tutti_dtype more = TUTTI_DTYPE_COUNT;
  EXPECT_EQ(tutti_dtype_create(1, "more", &more), TUTTI_NO_MEMORY);
  EXPECT_STREQ(tutti_last_error(), "there are 4096 types already; free some");
  for (const tutti_dtype dtype : all) ASSERT_EQ(tutti_dtype_free(dtype), TUTTI_OK);
}

}  // namespace
