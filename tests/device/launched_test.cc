// Every kernel as the driver launches it, in several blocks, against the kernels of lib/reduce, bit
// for bit. On a GPU this is the compiled code; without one the fake driver runs that of the host.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <random>

#include "lib/device/driver.h"
#include "lib/device/kernels/grid.h"
#include "tests/device/kernels_support.h"
#include "tests/reduce/reference.h"

namespace tutti::device {
namespace {

using Vector = std::vector<uint8_t>;

#define ASSERT_OK(expression)                    \
  do {                                           \
    const Status status_ = (expression);         \
    ASSERT_TRUE(status_.ok()) << status_.text(); \
  } while (0)

constexpr size_t most_operands = 8, most_bytes = 200000;
constexpr size_t room = most_bytes + 512;  // of a vector

// A rank by itself, on GPU 0.
class Launched : public testing::Test {
 protected:
  void SetUp() override {
    if (const Status status = Driver::get(&driver_); !status.ok()) GTEST_SKIP() << status.text();
    current_ = std::make_unique<Driver::Current>(*driver_, 0);
    ASSERT_OK(current_->status());
    ASSERT_OK(driver_->allocate(sizeof(Board), &board_));
    ASSERT_OK(driver_->allocate((most_operands + 1) * room, &memory_));
    ASSERT_OK(driver_->make_stream(&stream_));
    ASSERT_OK(driver_->make_event(&event_));
    void* report = nullptr;
    ASSERT_OK(driver_->allocate_pinned(sizeof(Report), &report, &report_address_));
    report_ = static_cast<Report*>(report);
  }
  void TearDown() override {
    if (driver_ == nullptr) return;
    driver_->release_event(event_);
    driver_->release_stream(stream_);
    driver_->release(board_);
    driver_->release(memory_);
    driver_->release_pinned(report_);
  }

  Address vector(size_t k) const { return memory_ + k * room; }
  static void* pointer(Address address) { return reinterpret_cast<void*>(address); }

  Common common() {
    Common common{};
    common.own = common.boards[0] = static_cast<Board*>(pointer(board_));
    common.report = static_cast<Report*>(pointer(report_address_));
    common.set[0] = {ready_1, 1};
    common.begins = common.ends = 1;
    return common;
  }

  // Everything is anew; returns when the kernel is done and has said so.
  template <class Arguments>
  void launch(const std::string& name, const Arguments& arguments, uint32_t blocks) {
    *report_ = {};
    ASSERT_OK(driver_->fill(board_, 0, sizeof(Board)));
    Kernel kernel = nullptr;
    ASSERT_OK(driver_->kernel(name, &kernel));
    ASSERT_OK(
        driver_->launch(kernel, blocks, block_threads, &arguments, sizeof arguments, stream_));
    ASSERT_OK(driver_->record(event_, stream_));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (bool ended = false; !ended;) {
      ASSERT_OK(driver_->ended(event_, &ended));
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << name << " does not end";
    }
    Board board;
    ASSERT_OK(driver_->copy(&board, pointer(board_), sizeof board));
    ASSERT_EQ(board.arrived[0], 0u);
    ASSERT_EQ(board.flags[ready_1][0].value, flag_set);
    ASSERT_EQ(report_->begun, 1u);
    ASSERT_EQ(report_->ended, 1u);
  }

  Vector random_vector(tutti_dtype dtype, size_t elements, bool edges) {
    const std::vector<reference::Bits> values = reference::edge_values(dtype);
    Vector bytes(elements * dtype_size(dtype));
    for (size_t i = 0; i < elements; ++i) {
      reference::Bits value = reference::Bits{random_()} << 64 | random_();
      if (edges) value = values[size_t(value % values.size())];
      std::memcpy(&bytes[i * dtype_size(dtype)], &value, dtype_size(dtype));
    }
    return bytes;
  }

  // n vectors that begin `offset` bytes behind a boundary, `apart` more each; into the last one.
  void check(tutti_dtype dtype, tutti_op op, bool canonical, uint32_t n, size_t elements,
             uint64_t offset, uint64_t apart) {
    CombineArguments arguments{};
    arguments.common = common();
    arguments.operands = n;
    arguments.outputs = 1;
    arguments.divide_by = op == TUTTI_AVG ? n : 0;
    arguments.count = elements;
    const Address out = vector(most_operands) + offset;
    arguments.to[0].address = out;
    const size_t bytes = elements * dtype_size(dtype);
    std::vector<Vector> operands;
    std::vector<const void*> pointers;
    for (uint32_t k = 0; k < n; ++k) {
      operands.push_back(random_vector(dtype, elements, k % 2 == 0));
      arguments.from[k].address = vector(k) + offset + k * apart;
      ASSERT_OK(driver_->copy(pointer(arguments.from[k].address), operands[k].data(), bytes));
    }
    for (const Vector& operand : operands) pointers.push_back(operand.data());
    ASSERT_NO_FATAL_FAILURE(launch(kernel_name(dtype, op, canonical), arguments, 3));

    Vector expected(bytes), result(bytes);
    const Kernels kernels = find_kernels(dtype, op);
    const ReduceFn reduce = canonical ? kernels.reduce_canonical : kernels.reduce_fn;
    reduce(expected.data(), pointers.data(), n, elements);
    if (op == TUTTI_AVG) kernels.divide(expected.data(), elements, n);
    ASSERT_OK(driver_->copy(result.data(), pointer(out), bytes));
    ASSERT_EQ(result, expected) << kernel_name(dtype, op, canonical) << ", " << n << " operands of "
                                << elements << " elements, " << offset << " and " << apart;
  }

  void check_all(tutti_dtype dtype) {
    for (int o = 0; o < TUTTI_OP_COUNT; ++o) {
      const auto op = static_cast<tutti_op>(o);
      if (!op_supports(op, dtype)) continue;
      for (const bool canonical : {false, true}) {
        if (canonical && !op_rounds(op, dtype)) continue;
        for (const uint32_t n : {1u, 2u, 3u, 8u}) {
          ASSERT_NO_FATAL_FAILURE(check(dtype, op, canonical, n, 3001, 0, 0));
          ASSERT_NO_FATAL_FAILURE(check(dtype, op, canonical, n, 1001, dtype_size(dtype), 0));
        }
        ASSERT_NO_FATAL_FAILURE(check(dtype, op, canonical, 3, 1001, 0, dtype_size(dtype)));
        ASSERT_NO_FATAL_FAILURE(check(dtype, op, canonical, 3, 501, 1, 3));
      }
    }
  }

  Driver* driver_ = nullptr;
  std::unique_ptr<Driver::Current> current_;
  Address board_ = 0, memory_ = 0, report_address_ = 0;
  Report* report_ = nullptr;
  Stream stream_ = nullptr;
  Event event_ = nullptr;
  std::mt19937_64 random_{20261122};
};

TEST_F(Launched, CombineEveryTypeAndOperator) {
  for (int t = 0; t < TUTTI_DTYPE_COUNT; ++t) {
    const auto dtype = static_cast<tutti_dtype>(t);
    if (dtype_is_binned(dtype)) continue;
    ASSERT_NO_FATAL_FAILURE(check_all(dtype));
  }
}

TEST_F(Launched, CopyPieces) {
  const uint64_t sizes[] = {0, 1, 15, 4096, 32769, 100001, 131072};
  for (const uint64_t apart : {0, 1, 2, 4, 8}) {
    CopyArguments arguments{};
    arguments.common = common();
    std::vector<Vector> inputs;
    uint64_t place = 0;
    for (const uint64_t bytes : sizes) {
      inputs.push_back(random_vector(TUTTI_UINT8, bytes, false));
      CopyPiece& piece = arguments.piece[arguments.pieces++];
      piece.from.address = vector(0) + place + 3;
      piece.to.address = vector(most_operands / 2) + place + 3 + apart;
      piece.bytes = bytes;
      place += bytes / 64 * 64 + 128;
      ASSERT_OK(driver_->copy(pointer(piece.from.address), inputs.back().data(), bytes));
    }
    ASSERT_NO_FATAL_FAILURE(launch("tutti_copy", arguments, copy_blocks(arguments, 3)));
    for (size_t p = 0; p < inputs.size(); ++p) {
      Vector result(inputs[p].size());
      ASSERT_OK(
          driver_->copy(result.data(), pointer(arguments.piece[p].to.address), result.size()));
      ASSERT_EQ(result, inputs[p]) << "piece " << p << ", " << apart << " apart";
    }
  }
}

TEST_F(Launched, EmptyTellsTheOthersOnly) {
  const Common arguments = common();
  ASSERT_NO_FATAL_FAILURE(launch("tutti_empty", arguments, 1));
}

}  // namespace
}  // namespace tutti::device
