// Blocking calls on buffers that lie on the GPU, in the host or one here and one there.
#include <gtest/gtest.h>

#include "tests/gpu/gpu_comm.h"

namespace tutti::testing {
namespace {

constexpr size_t some = 5000;

// A vector that lies on the GPU or in the host.
struct Vector {
  bool on_gpu;
  std::vector<int32_t> host;
  GpuBuffer gpu;

  Vector(bool on_gpu, const std::vector<int32_t>& values)
      : on_gpu(on_gpu), host(values), gpu(values.size() * 4 + 4) {
    if (on_gpu) to_gpu(gpu.get(), values);
  }
  void* get() { return on_gpu ? static_cast<void*>(gpu.get()) : host.data(); }
  std::vector<int32_t> values() const {
    return on_gpu ? from_gpu<int32_t>(gpu.get(), host.size()) : host;
  }
};

std::vector<int32_t> numbers(size_t count, int first) {
  std::vector<int32_t> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = int32_t(i) + first;
  return all;
}

std::vector<int32_t> scaled(std::vector<int32_t> values, int factor, int offset) {
  for (int32_t& value : values) value = value * factor + offset;
  return values;
}

void own_sum(const void* lower, const void* higher, void* out, size_t count, tutti_dtype, void*) {
  const auto *a = static_cast<const int32_t*>(lower), *b = static_cast<const int32_t*>(higher);
  for (size_t i = 0; i < count; ++i) static_cast<int32_t*>(out)[i] = a[i] + b[i];
}

TEST(BlockingCalls, TakeBuffersWhereverTheyLie) {
  on_gpu_threads(3, [](int rank, tutti_comm comm) {
    const std::vector<int32_t> mine = numbers(some, rank), sum = scaled(numbers(some, 0), 3, 3);
    // Both bits of a number: whether the input and the output lie on the GPU; on rank 0 or on all.
    for (int on = 0; on < 8; ++on) {
      const bool here = (on & 4) == 0 || rank == 0;
      const bool input_there = here && (on & 1) != 0, output_there = here && (on & 2) != 0;
      SCOPED_TRACE(on);
      Vector in(input_there, mine), out(output_there, std::vector<int32_t>(some, -1));
      ASSERT_EQ(tutti_allreduce(in.get(), out.get(), some, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK)
          << sentence(comm);
      EXPECT_EQ(out.values(), sum);
      Vector place(output_there, mine);
      ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, place.get(), some, TUTTI_INT32, TUTTI_SUM, comm),
                TUTTI_OK)
          << sentence(comm);
      EXPECT_EQ(place.values(), sum);
    }
  });
}

TEST(BlockingCalls, GoThroughTheHostWhereThereIsNoKernel) {
  on_gpu_threads(3, [](int rank, tutti_comm comm) {
    Vector in(true, numbers(some, rank)), out(true, std::vector<int32_t>(some, -1));
    tutti_op own{};
    ASSERT_EQ(tutti_op_create(own_sum, nullptr, 1, &own), TUTTI_OK) << tutti_last_error();
    ASSERT_EQ(tutti_allreduce(in.get(), out.get(), some, TUTTI_INT32, own, comm), TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(out.values(), scaled(numbers(some, 0), 3, 3));
    EXPECT_EQ(tutti_op_free(own), TUTTI_OK);
    // Blocks with lengths of their own and gaps between them, which stay as they are.
    const size_t counts[] = {3, 0, 5}, displs[] = {1, 6, 7};
    Vector all(true, std::vector<int32_t>(14, -1)), block(true, numbers(5, 10 * rank));
    ASSERT_EQ(
        tutti_allgatherv(block.get(), counts[rank], all.get(), counts, displs, TUTTI_INT32, comm),
        TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(all.values(),
              (std::vector<int32_t>{-1, 0, 1, 2, -1, -1, -1, 20, 21, 22, 23, 24, -1, -1}));
    // In place, where the parts of one buffer are input and output.
    std::vector<int32_t> places(9, -1);
    for (int i = 0; i < 3; ++i) places[size_t(rank * 3 + i)] = rank * 3 + i;
    Vector gathered(true, places);
    const size_t equal[] = {3, 3, 3};
    ASSERT_EQ(
        tutti_allgatherv(TUTTI_IN_PLACE, 3, gathered.get(), equal, nullptr, TUTTI_INT32, comm),
        TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(gathered.values(), numbers(9, 0));
  });
}

// Long enough to go in pieces; on rank 0 one vector lies in the host.
TEST(BlockingCalls, GoThroughTheHostInPieces) {
  on_gpu_threads(2, [](int rank, tutti_comm comm) {
    constexpr size_t count = (5 << 20) / 2 + 7;
    for (const int there : {1, 2, 3}) {
      const bool input_there = rank != 0 || (there & 1) != 0;
      const bool output_there = rank != 0 || (there & 2) != 0;
      const std::vector<int32_t> sum = scaled(numbers(count, 0), 2, 1);
      Vector in(input_there, numbers(count, rank)), out(output_there, std::vector<int32_t>(count));
      tutti_op own{};
      ASSERT_EQ(tutti_op_create(own_sum, nullptr, 1, &own), TUTTI_OK) << tutti_last_error();
      const tutti_op op = there == 3 ? own : TUTTI_SUM;
      ASSERT_EQ(tutti_allreduce(in.get(), out.get(), count, TUTTI_INT32, op, comm), TUTTI_OK)
          << sentence(comm);
      EXPECT_EQ(out.values() == sum, true) << there;
      ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, in.get(), count, TUTTI_INT32, op, comm), TUTTI_OK)
          << sentence(comm);
      EXPECT_EQ(in.values() == sum, true) << there;
      EXPECT_EQ(tutti_op_free(own), TUTTI_OK);
      Vector sent(rank == 1 || there == 3, numbers(count, rank));
      ASSERT_EQ(tutti_broadcast(sent.get(), count, TUTTI_INT32, 1, comm), TUTTI_OK)
          << sentence(comm);
      EXPECT_EQ(sent.values() == numbers(count, 1), true) << there;
    }
  });
}

// The bits of sums that round are those of the same call on the host.
TEST(BlockingCalls, InPiecesHaveTheBitsOfTheHost) {
  on_gpu_threads(3, [](int rank, tutti_comm comm) {
    constexpr size_t count = (5 << 19) + 7;
    std::vector<float> mine(count), expected(count), got(count);
    for (size_t i = 0; i < count; ++i) mine[i] = float(i % 1009) / float(rank + 3);
    GpuBuffer in(count * 4), out(count * 4);
    to_gpu(in.get(), mine);
    ASSERT_EQ(tutti_allreduce(mine.data(), expected.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm),
              TUTTI_OK)
        << sentence(comm);
    // The output of rank 0 lies in the host, so all go through it.
    void* const to = rank == 0 ? static_cast<void*>(got.data()) : out.get();
    ASSERT_EQ(tutti_allreduce(in.get(), to, count, TUTTI_FLOAT32, TUTTI_SUM, comm), TUTTI_OK)
        << sentence(comm);
    if (rank != 0) got = from_gpu<float>(out.get(), count);
    EXPECT_EQ(got == expected, true);
  });
}

TEST(BlockingCalls, ThatLookIntoBuffersTakeThoseOfTheHost) {
  on_gpu_threads(2, [](int, tutti_comm comm) {
    GpuBuffer in(64), out(64);
    const tutti_codec* codec = nullptr;
    ASSERT_EQ(tutti_codec_from_name("bf16", &codec), TUTTI_OK) << tutti_last_error();
    EXPECT_EQ(tutti_allreduce_coded(in.get(), out.get(), 4, TUTTI_SUM, codec, comm), TUTTI_INVALID);
    EXPECT_NE(sentence(comm).find("takes memory of the host only"), std::string::npos)
        << sentence(comm);
  });
}

TEST(BlockingCalls, OfOneRankCopy) {
  on_gpu_threads(1, [](int, tutti_comm comm) {
    Vector in(true, numbers(some, 7)), out(true, std::vector<int32_t>(some, -1));
    ASSERT_EQ(tutti_allreduce(in.get(), out.get(), some, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(out.values(), numbers(some, 7));
    Vector truth(true, numbers(3, 0));
    ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, truth.get(), 3, TUTTI_INT32, TUTTI_LOR, comm),
              TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(truth.values(), (std::vector<int32_t>{0, 1, 1}));
  });
}

TEST(BlockingCalls, EndAtTheirDeadline) {
  on_gpu_processes(2, [](int rank, tutti_comm comm) {
    if (rank == 1) {
      usleep(900'000);
      return;
    }
    Vector in(true, numbers(some, rank)), out(true, numbers(some, 0));
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = 300;
    EXPECT_EQ(
        tutti_allreduce_with(in.get(), out.get(), some, TUTTI_INT32, TUTTI_SUM, comm, &config),
        TUTTI_TIMEOUT);
    EXPECT_NE(sentence(comm).find("rank 1"), std::string::npos) << sentence(comm);
  });
}

TEST(Messages, TakeBuffersOnTheGpu) {
  on_gpu_processes(2, [](int rank, tutti_comm comm) {
    Vector out(true, numbers(some, rank)), in(true, std::vector<int32_t>(some, -1));
    ASSERT_EQ(tutti_sendrecv(out.get(), some, 1 - rank, 3, in.get(), some, 1 - rank, 3, TUTTI_INT32,
                             comm),
              TUTTI_OK)
        << sentence(comm);
    EXPECT_EQ(in.values(), numbers(some, 1 - rank));
    ASSERT_EQ(tutti_group_begin(comm), TUTTI_OK);
    ASSERT_EQ(tutti_send(out.get(), some, TUTTI_INT32, 1 - rank, 4, comm), TUTTI_OK);
    ASSERT_EQ(tutti_recv(in.get(), 10, TUTTI_INT32, 1 - rank, 4, comm), TUTTI_OK);
    ASSERT_EQ(tutti_group_cancel(comm), TUTTI_OK);
    ASSERT_EQ(tutti_group_begin(comm), TUTTI_OK);
    ASSERT_EQ(tutti_send(in.get(), some, TUTTI_INT32, 1 - rank, 4, comm), TUTTI_OK);
    ASSERT_EQ(tutti_recv(out.get(), some, TUTTI_INT32, 1 - rank, 4, comm), TUTTI_OK);
    ASSERT_EQ(tutti_group_end(comm), TUTTI_OK) << sentence(comm);
    EXPECT_EQ(out.values(), numbers(some, rank));
  });
}

}  // namespace
}  // namespace tutti::testing
