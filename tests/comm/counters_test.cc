// Counters: what a communicator says it has moved is what the schedules of its calls move.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "algorithms/registry.h"
#include "lib/base/transfers.h"
#include "lib/schedule/chunks.h"
#include "tests/support/thread_comm.h"
#include "tutti/tutti.hpp"

namespace {

using tutti::Algorithm;
using tutti::Collective;
using tutti::Transfers;
using tutti::testing::counters;
using tutti::testing::on_comm;
using tutti::testing::sentence;

// What happens between its making and the question.
class Moved {
 public:
  explicit Moved(tutti_comm comm) : comm_(comm), before_(counters(comm)) {}
  Transfers transfers() const {
    const tutti_comm_counters now = counters(comm_);
    return {now.messages_sent - before_.messages_sent, now.bytes_sent - before_.bytes_sent,
            now.messages_received - before_.messages_received,
            now.bytes_received - before_.bytes_received};
  }
  uint64_t direct_calls() const { return counters(comm_).direct_calls - before_.direct_calls; }

 private:
  tutti_comm comm_;
  tutti_comm_counters before_;
};

std::string text(const Transfers& t) {
  return std::to_string(t.messages_sent) + " messages of " + std::to_string(t.bytes_sent) +
         " bytes sent, " + std::to_string(t.messages_received) + " of " +
         std::to_string(t.bytes_received) + " received";
}

// Adds up the steps of one rank, for a vector of `count` elements.
class Steps final : public tutti::schedule::Sink {
 public:
  Steps(uint64_t count, uint64_t element_size) : count_(count), element_size_(element_size) {}
  void begin(uint32_t chunks, uint32_t) override { chunks_ = chunks; }
  void step(const tutti::schedule::Step& step) override {
    using tutti::schedule::Kind;
    if (step.kind == Kind::copy || step.kind == Kind::reduce) return;
    const bool sends = step.kind == Kind::send;
    const tutti::schedule::Range& range = sends ? step.from : step.to;
    const tutti::schedule::ChunkMap map(count_, chunks_, 64 / element_size_);
    const uint32_t first = range.begin % chunks_;  // of a row, if it is scratch
    const uint64_t bytes = (map.begin(first + range.size()) - map.begin(first)) * element_size_;
    bool& begun = sends ? send_begun_ : receive_begun_;
    begun = begun && step.joined;
    const uint64_t messages = !begun && bytes != 0 ? 1 : 0;
    begun = begun || bytes != 0;
    sends ? transfers.sent(messages, bytes) : transfers.received(messages, bytes);
  }

  Transfers transfers;

 private:
  uint64_t count_, element_size_;
  uint32_t chunks_ = 1;
  bool send_begun_ = false, receive_begun_ = false;
};

Transfers by_schedule(const Algorithm& algorithm, int rank, int nranks, uint32_t radix,
                      size_t count) {
  Steps steps(count, sizeof(float));
  algorithm.emit({.rank = uint32_t(rank), .nranks = uint32_t(nranks), .radix = radix}, steps);
  return steps.transfers;
}

// An allreduce, and by rank what it moved.
struct Call {
  const Algorithm* algorithm;
  size_t count;
  uint32_t flags;
  std::vector<Transfers> moved;
  bool direct = false;

  std::string text() const {
    return std::string(algorithm->name) + " of " + std::to_string(count) + " on " +
           std::to_string(moved.size()) + (flags == 0 ? "" : ", unfused");
  }
};

void run(Call* call, int rank, tutti_comm comm) {
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.algorithm = call->algorithm->name;
  config.flags = call->flags;
  const std::vector<float> in(call->count, float(rank));
  std::vector<float> out(call->count);
  const Moved moved(comm);
  ASSERT_EQ(tutti_allreduce_with(in.data(), out.data(), call->count, TUTTI_FLOAT32, TUTTI_SUM, comm,
                                 &config),
            TUTTI_OK)
      << sentence(comm);
  call->moved[size_t(rank)] = moved.transfers();
  if (rank == 0) call->direct = moved.direct_calls() != 0;
}

// What went direct moves what two-shot does.
void expect_schedule(const Call& call) {
  const Algorithm& algorithm =
      call.direct ? *find_algorithm(Collective::allreduce, "two-shot") : *call.algorithm;
  const int nranks = int(call.moved.size());
  // Two-level's groups are the machine's: those of one size must fit all ranks.
  std::string wrong;
  for (uint32_t radix = 2; radix <= uint32_t(nranks); ++radix) {
    wrong.clear();
    for (int rank = 0; rank < nranks; ++rank) {
      const std::string expected = text(by_schedule(algorithm, rank, nranks, radix, call.count));
      const std::string counted = text(call.moved[size_t(rank)]);
      if (counted == expected) continue;
      wrong += "rank " + std::to_string(rank) + ": " + counted + ", not " + expected + "\n";
    }
    if (wrong.empty() || std::string(algorithm.name) != "two-level") break;
  }
  EXPECT_EQ(wrong, "") << call.text();
  EXPECT_TRUE(call.flags == 0 || !call.direct) << call.text();
}

class Counters : public ::testing::TestWithParam<const char*> {};

TEST_P(Counters, OfAnAllreduceAreTheStepsOfItsSchedule) {
  for (int nranks = 2; nranks <= 8; ++nranks) {
    std::vector<Call> calls;
    for (const Algorithm& algorithm : tutti::algorithms()) {
      if (algorithm.collective != Collective::allreduce) continue;
      // Fewer elements than chunks, all chunks equal, and not.
      for (const size_t count : {size_t{1}, size_t{40}, size_t{13'440}, size_t{33'333}}) {
        for (const uint32_t flags : {0u, TUTTI_CALL_UNFUSED}) {
          calls.push_back({&algorithm, count, flags, std::vector<Transfers>(size_t(nranks))});
        }
      }
    }
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      for (Call& call : calls) run(&call, rank, comm);
    });
    for (const Call& call : calls) expect_schedule(call);
  }
}

TEST_P(Counters, OfACallOfOneHopAreThoseOfItsSchedule) {
  constexpr size_t count = 1'000;
  struct Form {
    const char* name;
    const char* algorithm;
    tutti_status (*call)(const float*, float*, tutti_comm, const tutti_call_config*);
  };
  const Form forms[] = {
      {"broadcast", "flat",
       [](const float*, float* out, tutti_comm comm, const tutti_call_config* config) {
         return tutti_broadcast_with(out, count, TUTTI_FLOAT32, 1, comm, config);
       }},
      {"reduce", "flat",
       [](const float* in, float* out, tutti_comm comm, const tutti_call_config* config) {
         return tutti_reduce_with(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, 1, comm, config);
       }},
      {"allgather", "direct",
       [](const float* in, float* out, tutti_comm comm, const tutti_call_config* config) {
         return tutti_allgather_with(in, out, count, TUTTI_FLOAT32, comm, config);
       }},
      {"gather", "flat",
       [](const float* in, float* out, tutti_comm comm, const tutti_call_config* config) {
         return tutti_gather_with(in, out, count, TUTTI_FLOAT32, 1, comm, config);
       }},
      {"scatter", "flat",
       [](const float* in, float* out, tutti_comm comm, const tutti_call_config* config) {
         return tutti_scatter_with(in, out, count, TUTTI_FLOAT32, 1, comm, config);
       }},
      {"reduce_scatter", "direct",
       [](const float* in, float* out, tutti_comm comm, const tutti_call_config* config) {
         return tutti_reduce_scatter_block_with(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, comm,
                                                config);
       }},
      {"alltoall", "direct",
       [](const float* in, float* out, tutti_comm comm, const tutti_call_config* config) {
         return tutti_alltoall_with(in, out, count, TUTTI_FLOAT32, comm, config);
       }},
      {"scan", "direct",
       [](const float* in, float* out, tutti_comm comm, const tutti_call_config* config) {
         return tutti_scan_with(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, comm, config);
       }},
      {"exscan", "direct",
       [](const float* in, float* out, tutti_comm comm, const tutti_call_config* config) {
         return tutti_exscan_with(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, comm, config);
       }},
  };
  for (const int nranks : {2, 3, 5}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      for (const Form& form : forms) {
        std::string fused;
        for (const uint32_t flags : {0u, TUTTI_CALL_UNFUSED}) {
          tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
          config.algorithm = form.algorithm;
          config.flags = flags;
          const std::vector<float> in(count * size_t(nranks), float(rank));
          std::vector<float> out(count * size_t(nranks));
          const Moved moved(comm);
          ASSERT_EQ(form.call(in.data(), out.data(), comm, &config), TUTTI_OK) << sentence(comm);
          const Transfers transfers = moved.transfers();
          // One block between any two ranks of which one has something for the other.
          EXPECT_EQ(transfers.bytes_sent, transfers.messages_sent * count * sizeof(float))
              << form.name;
          if (flags == 0) fused = text(transfers);
          EXPECT_EQ(text(transfers), fused) << form.name << " on " << nranks;
        }
      }
      const Moved moved(comm);
      std::vector<float> block(count), all(count * size_t(nranks));
      ASSERT_EQ(tutti_allgather(block.data(), all.data(), count, TUTTI_FLOAT32, comm), TUTTI_OK);
      EXPECT_EQ(moved.transfers().bytes_received, uint64_t(nranks - 1) * count * sizeof(float));
    });
  }
}

TEST_P(Counters, OfMessagesAreTheirOwn) {
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    const int next = (rank + 1) % 3, previous = (rank + 2) % 3;
    std::vector<float> mine(100'000), got(100'000);
    const Moved moved(comm);
    ASSERT_EQ(tutti_sendrecv(mine.data(), mine.size(), next, 0, got.data(), got.size(), previous, 0,
                             TUTTI_FLOAT32, comm),
              TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(text(moved.transfers()), text({1, 400'000, 1, 400'000}));
    // Beside the caller, and an empty one, which is none.
    tutti_request requests[4] = {};
    ASSERT_EQ(tutti_isend(mine.data(), 7, TUTTI_FLOAT32, next, 1, comm, nullptr, &requests[0]),
              TUTTI_OK);
    ASSERT_EQ(tutti_irecv(got.data(), 7, TUTTI_FLOAT32, previous, 1, comm, nullptr, &requests[1]),
              TUTTI_OK);
    ASSERT_EQ(tutti_isend(mine.data(), 0, TUTTI_FLOAT32, next, 2, comm, nullptr, &requests[2]),
              TUTTI_OK);
    ASSERT_EQ(tutti_irecv(got.data(), 0, TUTTI_FLOAT32, previous, 2, comm, nullptr, &requests[3]),
              TUTTI_OK);
    ASSERT_EQ(tutti_waitall(4, requests), TUTTI_OK);
    EXPECT_EQ(text(moved.transfers()), text({2, 400'028, 2, 400'028}));
  });
}

TEST_P(Counters, OfCallsBesideTheirCallerAndOfDifferentLengths) {
  on_comm(3, GetParam(), [](int rank, tutti_comm comm) {
    const std::vector<float> mine(3'000, float(rank));
    std::vector<float> sum(3'000), again(3'000);
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.algorithm = "ring";
    const Moved moved(comm);
    tutti_request requests[2] = {};
    ASSERT_EQ(tutti_iallreduce(mine.data(), sum.data(), 3'000, TUTTI_FLOAT32, TUTTI_SUM, comm,
                               &config, &requests[0]),
              TUTTI_OK);
    ASSERT_EQ(tutti_iallreduce(mine.data(), again.data(), 3'000, TUTTI_FLOAT32, TUTTI_SUM, comm,
                               &config, &requests[1]),
              TUTTI_OK);
    ASSERT_EQ(tutti_waitall(2, requests), TUTTI_OK);
    EXPECT_EQ(moved.transfers().messages_sent, 2u * 4);

    // The lengths come first: 8 bytes to and from each.
    const Moved before(comm);
    const std::vector<size_t> counts = {size_t(rank) + 1, size_t(rank) + 1, size_t(rank) + 1};
    const std::vector<size_t> expected = {1, 2, 3};
    const std::vector<float> blocks(9, float(rank));
    std::vector<float> got(6);
    ASSERT_EQ(tutti_alltoallv(blocks.data(), counts.data(), nullptr, got.data(), expected.data(),
                              nullptr, TUTTI_FLOAT32, comm),
              TUTTI_OK)
        << sentence(comm);
    const uint64_t sent = 2 * (size_t(rank) + 1) * 4, received = (6 - (size_t(rank) + 1)) * 4;
    EXPECT_EQ(text(before.transfers()), text({4, 16 + sent, 4, 16 + received}));
  });
}

TEST(CountersOfDirectCalls, AreThoseOfTwoShot) {
  const Algorithm& two_shot = *find_algorithm(Collective::allreduce, "two-shot");
  for (const int nranks : {2, 3, 4}) {
    on_comm(nranks, "shm", [&](int rank, tutti_comm comm) {
      constexpr size_t count = 20'001;
      void* memory = nullptr;
      ASSERT_EQ(tutti_mem_alloc(comm, count * sizeof(float), &memory), TUTTI_OK) << sentence(comm);
      const Moved moved(comm);
      ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, memory, count, TUTTI_FLOAT32, TUTTI_SUM, comm),
                TUTTI_OK)
          << sentence(comm);
      EXPECT_EQ(moved.direct_calls(), 1u);
      EXPECT_EQ(text(moved.transfers()), text(by_schedule(two_shot, rank, nranks, 2, count)));
      ASSERT_EQ(tutti_mem_free(comm, memory), TUTTI_OK);
    });
  }
}

TEST(CountersInCpp, AreTheSame) {
  const auto alone = tutti::communicator::from_env();
  EXPECT_EQ(alone.counters().calls, 0u);
  alone.barrier();
  EXPECT_EQ(alone.counters().calls, 1u);
  EXPECT_EQ(alone.counters().bytes_sent, 0u);
  tutti_comm_counters unset{};
  EXPECT_EQ(tutti_comm_get_counters(alone.get(), &unset), TUTTI_INVALID);
}

INSTANTIATE_TEST_SUITE_P(Transports, Counters, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
