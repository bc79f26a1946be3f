// Functions of the program's that throw: the call that they were called for ends on all ranks at
// once, with a sentence that says so, and no other call is the worse for it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::on_comm;
using tutti::testing::on_threads;
using tutti::testing::sentence;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A sum that throws the so-manieth time that it is called in the process.
struct Thrower {
  std::atomic<int> calls{0};
  int throws_at = 0;
  bool standard = true;
};
void sum_or_throw(const void* lower, const void* higher, void* out, size_t count, tutti_dtype,
                  void* context) {
  auto& thrower = *static_cast<Thrower*>(context);
  if (thrower.calls++ == thrower.throws_at) {
    if (thrower.standard) throw std::runtime_error("boom");
    throw 7;
  }
  for (size_t i = 0; i < count; ++i) {
    static_cast<int32_t*>(out)[i] =
        static_cast<const int32_t*>(lower)[i] + static_cast<const int32_t*>(higher)[i];
  }
}

class ThrowingSum {
 public:
  explicit ThrowingSum(int throws_at = 0, bool standard = true) {
    thrower_.throws_at = throws_at;
    thrower_.standard = standard;
    EXPECT_EQ(tutti_op_create(sum_or_throw, &thrower_, 1, &op_), TUTTI_OK);
  }
  ~ThrowingSum() { EXPECT_EQ(tutti_op_free(op_), TUTTI_OK); }
  tutti_op op() const { return op_; }
  bool threw() const { return thrower_.calls > thrower_.throws_at; }

 private:
  Thrower thrower_;
  tutti_op op_ = TUTTI_SUM;
};

// One rank's call has failed for that, the others' may have ended well before: then the next fails.
void expect_over(tutti_comm comm, tutti_status status, const char* says, Clock::time_point begin) {
  std::string text = sentence(comm);
  if (status == TUTTI_OK) {
    status = tutti_barrier(comm);
    text = sentence(comm);
  }
  EXPECT_EQ(status, TUTTI_ABORTED) << text;
  EXPECT_NE(text.find(says), std::string::npos) << text;
  EXPECT_NE(text.find("rank "), std::string::npos) << text;
  EXPECT_LT(seconds_since(begin), 5) << text;
  EXPECT_NE(tutti_barrier(comm), TUTTI_OK);
}

class Thrown : public ::testing::TestWithParam<const char*> {};

TEST_P(Thrown, ByAnOperatorEndsTheCallOnAllRanks) {
  struct Way {
    const char* algorithm;
    uint32_t flags;
    size_t count;
    int throws_at;
  };
  const Way ways[] = {{"auto", 0, 4, 0},
                      {"auto", 0, 30'000, 1},
                      {"auto", 0, 3'000'000, 5},
                      {"auto", TUTTI_CALL_UNFUSED, 4, 0},
                      {"ring", TUTTI_CALL_UNFUSED, 100'000, 3},
                      {"butterfly", TUTTI_CALL_UNFUSED, 100'000, 1}};
  for (const Way& way : ways) {
    for (const bool beside : {false, true}) {
      const ThrowingSum sum(way.throws_at);
      on_comm(3, GetParam(), [&](int, tutti_comm comm) {
        std::vector<int32_t> in(way.count, 1), out(way.count);
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.algorithm = way.algorithm;
        config.flags = way.flags;
        const auto begin = Clock::now();
        tutti_status status = TUTTI_OK;
        if (beside) {
          tutti_request request = nullptr;
          status = tutti_iallreduce(in.data(), out.data(), way.count, TUTTI_INT32, sum.op(), comm,
                                    &config, &request);
          ASSERT_EQ(status, TUTTI_OK) << sentence(comm);
          status = tutti_wait(&request);
        } else {
          status = tutti_allreduce_with(in.data(), out.data(), way.count, TUTTI_INT32, sum.op(),
                                        comm, &config);
        }
        expect_over(comm, status, "the program's operator threw an exception: boom", begin);
      });
      EXPECT_TRUE(sum.threw()) << way.algorithm << " " << way.count;
    }
  }
}

TEST_P(Thrown, OfAnyKindAndInAnyReduction) {
  for (const auto& reduction : {tutti_allreduce, tutti_scan, tutti_exscan}) {
    const ThrowingSum sum(0, false);
    on_comm(3, GetParam(), [&](int, tutti_comm comm) {
      const auto begin = Clock::now();
      std::vector<int32_t> in(1000, 1), out(1000);
      expect_over(comm, reduction(in.data(), out.data(), 1000, TUTTI_INT32, sum.op(), comm),
                  "threw what is no std::exception", begin);
    });
  }
  const ThrowingSum sum;
  on_comm(3, GetParam(), [&](int, tutti_comm comm) {
    const auto begin = Clock::now();
    std::vector<int32_t> in(3000, 1), out(3000);
    expect_over(
        comm, tutti_reduce_scatter_block(in.data(), out.data(), 1000, TUTTI_INT32, sum.op(), comm),
        "operator threw", begin);
  });
}

// Calls behind it on the same communicator fail with it, one on another communicator does not, nor
// does whoever moves it on while it waits there.
TEST_P(Thrown, LeavesOtherCommunicatorsAlone) {
  const ThrowingSum sum(1);
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    tutti_comm innocent = nullptr;
    ASSERT_EQ(tutti_comm_dup(comm, &innocent), TUTTI_OK) << sentence(comm);
    constexpr size_t count = 100'000;
    std::vector<int32_t> in(count, 1), out(count), behind(count);
    tutti_request requests[2] = {};
    ASSERT_EQ(tutti_iallreduce(in.data(), out.data(), count, TUTTI_INT32, sum.op(), comm, nullptr,
                               &requests[0]),
              TUTTI_OK);
    ASSERT_EQ(tutti_iallreduce(in.data(), behind.data(), count, TUTTI_INT32, TUTTI_SUM, comm,
                               nullptr, &requests[1]),
              TUTTI_OK);
    for (int32_t i = 0; i < 300; ++i) {
      int32_t mine = rank + i, all = 0;
      ASSERT_EQ(tutti_allreduce(&mine, &all, 1, TUTTI_INT32, TUTTI_SUM, innocent), TUTTI_OK)
          << sentence(innocent);
      ASSERT_EQ(all, 2 * i + 1);
    }
    const auto begin = Clock::now();
    // A blocking call is one behind them, too.
    int32_t one = 1, two = 0;
    EXPECT_NE(tutti_allreduce(&one, &two, 1, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK);
    EXPECT_EQ(tutti_waitall(2, requests), TUTTI_ABORTED);
    EXPECT_NE(std::string(tutti_last_error()).find("operator threw"), std::string::npos);
    EXPECT_LT(seconds_since(begin), 5);
    ASSERT_EQ(tutti_barrier(innocent), TUTTI_OK) << sentence(innocent);
    ASSERT_EQ(tutti_comm_free(innocent), TUTTI_OK);
  });
}

TEST_P(Thrown, InTheProgressThreadIsFoundByTheWaitOrTest) {
  for (const bool by_test : {false, true}) {
    const ThrowingSum sum;
    tutti_unique_id id{};
    ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
    on_threads(2, [&](int rank) {
      tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
      config.transports = GetParam();
      config.progress_thread = 1;
      tutti_comm comm = nullptr;
      ASSERT_EQ(tutti_comm_create_from_id(&id, rank, 2, &config, &comm), TUTTI_OK);
      std::vector<int32_t> in(100'000, 1), out(100'000);
      const auto begin = Clock::now();
      tutti_request request = nullptr;
      ASSERT_EQ(tutti_iallreduce(in.data(), out.data(), in.size(), TUTTI_INT32, sum.op(), comm,
                                 nullptr, &request),
                TUTTI_OK);
      while (!sum.threw() && seconds_since(begin) < 5) std::this_thread::yield();
      int ended = 0;
      tutti_status status = TUTTI_OK;
      while (by_test && ended == 0 && seconds_since(begin) < 5)
        status = tutti_test(&request, &ended);
      if (!by_test) status = tutti_wait(&request);
      expect_over(comm, status, "operator threw", begin);
      ASSERT_EQ(tutti_comm_free(comm), TUTTI_OK);
    });
  }
}

struct ThrowingCodec {
  enum class In { encoded_bytes, encode, decode } in;
  std::atomic<int> left;
  void maybe(In where) {
    if (where == in && left-- == 0) throw std::runtime_error("cannot");
  }
};
size_t encoded_bytes(size_t count, void* context) {
  static_cast<ThrowingCodec*>(context)->maybe(ThrowingCodec::In::encoded_bytes);
  return count * sizeof(float);
}
void encode(const float* values, size_t count, void* encoded, void* context) {
  static_cast<ThrowingCodec*>(context)->maybe(ThrowingCodec::In::encode);
  std::memcpy(encoded, values, count * sizeof(float));
}
void decode(const void* encoded, size_t count, float* values, void* context) {
  static_cast<ThrowingCodec*>(context)->maybe(ThrowingCodec::In::decode);
  std::memcpy(values, encoded, count * sizeof(float));
}

TEST_P(Thrown, ByACodecEndsTheCallOnAllRanks) {
  using In = ThrowingCodec::In;
  for (const In in : {In::encoded_bytes, In::encode, In::decode}) {
    for (const int after : {0, 1, 4, 7}) {
      ThrowingCodec throwing{in, after};
      const tutti_codec codec{sizeof(codec), "plain", 1, encoded_bytes, encode, decode, &throwing};
      on_comm(3, GetParam(), [&](int, tutti_comm comm) {
        const auto begin = Clock::now();
        const std::vector<float> values(1000, 1);
        std::vector<float> out(1000);
        expect_over(comm,
                    tutti_allreduce_coded(values.data(), out.data(), 1000, TUTTI_SUM, &codec, comm),
                    "the program's codec threw an exception: cannot", begin);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Thrown, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ThrownLocally, ByAnOperatorFailsTheCall) {
  const ThrowingSum sum;
  const int32_t a = 1, b = 2;
  int32_t out = 0;
  const void* const operands[] = {&a, &b};
  EXPECT_EQ(tutti_reduce_local(operands, 2, &out, 1, TUTTI_INT32, sum.op(), TUTTI_LEVEL_FAST),
            TUTTI_ABORTED);
  EXPECT_NE(std::string(tutti_last_error()).find("operator threw an exception: boom"),
            std::string::npos);
  EXPECT_EQ(tutti_reduce_local(operands, 2, &out, 1, TUTTI_INT32, sum.op(), TUTTI_LEVEL_FAST),
            TUTTI_OK);
  EXPECT_EQ(out, 3);
}

int throwing_allgather(const void*, void*, size_t, void*) { throw std::runtime_error("nobody"); }

TEST(ThrownLocally, ByAnAllgatherMakesNoCommunicator) {
  tutti_comm comm = nullptr;
  EXPECT_EQ(tutti_comm_create_from_allgather(throwing_allgather, nullptr, 0, 2, nullptr, &comm),
            TUTTI_ABORTED);
  EXPECT_EQ(comm, nullptr);
  EXPECT_NE(std::string(tutti_last_error()).find("all-gather callback threw an exception: nobody"),
            std::string::npos);
}

}  // namespace
