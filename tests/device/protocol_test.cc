// What kernels do besides their work: where they find the data of the ranks, whom they tell, and
// when they do nothing.
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "tests/device/kernels_support.h"

namespace tutti::device {
namespace {

const HostKernel copy = find_host_kernel("tutti_copy");
const HostKernel empty = find_host_kernel("tutti_empty");
const HostKernel sum = find_host_kernel("tutti_combine_int32_sum");

constexpr uint32_t only(uint32_t rank) { return 1u << rank; }

TEST(Protocol, NamesAreThoseOfTheList) {
  EXPECT_NE(copy, nullptr);
  EXPECT_NE(empty, nullptr);
  EXPECT_NE(find_host_kernel("tutti_combine_float32_sum_canonical"), nullptr);
  EXPECT_EQ(find_host_kernel("tutti_combine_float32_avg"), nullptr);
  EXPECT_EQ(find_host_kernel("tutti_combine_int32_sum_canonical"), nullptr);
}

TEST(Protocol, AnnouncesClearsAndSets) {
  Ranks ranks(3);
  ranks.flag(1, free_1, 0) = flag_set;
  ranks.flag(1, free_1, 2) = flag_set | flag_over;
  ranks.flag(1, free_2, 0) = flag_set;
  Common common = ranks.common(1);
  common.channel = slot_channel;
  common.announce = only(0) | only(1);
  common.clear[0] = {free_1, only(0) | only(2)};
  common.set[0] = {ready_1, only(0) | only(1)};
  common.set[1] = {ready_2, only(2)};
  empty(&common);
  EXPECT_EQ(ranks.boards[0].entries[slot_channel][1].digest, 77u);
  EXPECT_EQ(ranks.boards[1].entries[slot_channel][1].digest, 77u);
  EXPECT_EQ(ranks.boards[2].entries[slot_channel][1].digest, 0u);
  EXPECT_EQ(ranks.flag(1, free_1, 0), 0u);
  EXPECT_EQ(ranks.flag(1, free_1, 2), flag_over);
  EXPECT_EQ(ranks.flag(1, free_2, 0), flag_set);
  EXPECT_EQ(ranks.flag(0, ready_1, 1), flag_set);
  EXPECT_EQ(ranks.flag(1, ready_1, 1), flag_set);
  EXPECT_EQ(ranks.flag(2, ready_1, 1), 0u);
  EXPECT_EQ(ranks.flag(2, ready_2, 1), flag_set);
  EXPECT_EQ(ranks.boards[1].arrived[0], 0u);
}

TEST(Protocol, CountsCallsWhereTheyBeginAndEnd) {
  Ranks ranks(1);
  Common begins = ranks.common(0), ends = ranks.common(0);
  begins.begins = 1;
  begins.timeout_ms = 250;
  ends.ends = 1;
  empty(&begins);
  EXPECT_EQ(ranks.reports[0].begun, 1u);
  EXPECT_EQ(ranks.reports[0].timeout_ms, 250u);
  EXPECT_EQ(ranks.reports[0].ended, 0u);
  empty(&ends);
  empty(&begins);
  EXPECT_EQ(ranks.reports[0].begun, 2u);
  EXPECT_EQ(ranks.reports[0].ended, 1u);
}

// One byte is copied; `common` decides whether.
bool copies(Ranks& ranks, const Common& common) {
  const uint8_t from = 5;
  uint8_t to = 0;
  CopyArguments arguments{};
  arguments.common = common;
  arguments.common.set[0] = {ready_1, only(1)};
  arguments.common.announce = only(1);
  arguments.pieces = 1;
  arguments.piece[0] = {at(&from), at(&to), 1};
  copy(&arguments);
  const bool told = ranks.flag(1, ready_1, common.self) != 0;
  EXPECT_EQ(told, to == 5);
  EXPECT_EQ(ranks.boards[1].entries[0][common.self].digest, told ? 77u : 0u);
  return to == 5;
}

TEST(Protocol, DoesNothingAndTellsNobodyAfterAFailure) {
  Ranks ranks(2);
  EXPECT_TRUE(copies(ranks, ranks.common(0)));
  Ranks failed(2);
  failed.boards[0].over = 1;
  EXPECT_FALSE(copies(failed, failed.common(0)));
  EXPECT_EQ(failed.reports[0].failed, 0u);
}

TEST(Protocol, ReportsTheLowestRankThatDiffers) {
  for (int part = 0; part < 6; ++part) {
    Ranks ranks(4);
    Common common = ranks.common(0);
    common.check = only(0) | only(1) | only(3);
    for (uint32_t r : {1, 2, 3}) ranks.boards[0].entries[0][r] = common.entry;
    ranks.boards[0].entries[0][1].input = {2, 0, 9, 9};  // places are each rank's own
    ranks.boards[0].entries[0][2].digest = 1;            // not to be checked
    EXPECT_TRUE(copies(ranks, common));
    ranks.flag(1, ready_1, 0) = 0;
    ranks.boards[1].entries[0][0] = {};

    Entry& other = ranks.boards[0].entries[0][3];
    if (part < 2) (part == 0 ? other.digest : other.count) += 1;
    if (part >= 2)
      *std::array{&other.collective, &other.dtype, &other.op, &other.root}[part - 2] = 9;
    EXPECT_FALSE(copies(ranks, common));
    EXPECT_EQ(ranks.reports[0].failed, 1u);
    EXPECT_EQ(ranks.reports[0].rank, 3u);
    EXPECT_EQ(ranks.reports[0].own.digest, 77u);
    EXPECT_EQ(ranks.reports[0].theirs.count, other.count);
    EXPECT_EQ(ranks.boards[0].over, 1u);
  }
}

TEST(Protocol, FindsInputsAndOutputsByEntries) {
  std::array<int32_t, 8> first{1, 2, 3, 4, 5, 6, 7, 8}, second{10, 20, 30, 40, 50, 60, 70, 80};
  std::array<int32_t, 8> out_1{}, aside{}, own{};
  Ranks ranks(3);
  CombineArguments arguments{};
  arguments.common = ranks.common(0);
  Board& board = ranks.boards[0];
  // Rank 1: registered memory; its blocks lie two elements apart, and the second one is taken.
  board.regions[1][2] = address_of(first.data()) - 100;
  board.entries[0][1].input = {2, 0, 100, 8};
  arguments.from[0] = {0, 4, 1, 1};
  // Rank 2: a thread of this process.
  board.entries[0][2].input = {process_region, 0, address_of(second.data()), 0};
  arguments.from[1] = {0, 8, 2, 0};
  // Outputs: one that an entry says, one that is given, one that is nowhere.
  board.entries[0][1].output = {process_region, 0, address_of(out_1.data()), 0};
  arguments.to[0] = {0, 4, 1, 0};
  arguments.to[1] = {address_of(own.data()), 0, 0, 0};
  arguments.to[2] = {0, 0, 2, 0};
  arguments.operands = 2;
  arguments.outputs = 3;
  arguments.count = 3;
  arguments.aside = address_of(aside.data());
  sum(&arguments);
  EXPECT_EQ(out_1, (std::array<int32_t, 8>{0, 34, 45, 56}));
  EXPECT_EQ(own, (std::array<int32_t, 8>{34, 45, 56}));
  EXPECT_EQ(aside, (std::array<int32_t, 8>{34, 45, 56}));

  aside = {};
  arguments.outputs = 2;  // now everything is somewhere
  sum(&arguments);
  EXPECT_EQ(aside, (std::array<int32_t, 8>{}));
}

TEST(Protocol, KnowsItsOwnEntry) {
  std::array<int32_t, 2> input{3, 4}, output{};
  Ranks ranks(2);
  CombineArguments arguments{};
  arguments.common = ranks.common(1);
  arguments.common.entry.input = {process_region, 0, address_of(input.data()), 0};
  arguments.common.entry.output = {process_region, 0, address_of(output.data()), 0};
  arguments.from[0] = arguments.to[0] = {0, 0, 1, 0};
  arguments.operands = arguments.outputs = 1;
  arguments.count = 2;
  sum(&arguments);
  EXPECT_EQ(output, input);
}

TEST(Copy, TakesPiecesOfAnySizeAndAlignment) {
  std::vector<uint8_t> from(1 << 20), to(1 << 20);
  std::iota(from.begin(), from.end(), uint8_t{1});
  const uint64_t sizes[] = {0, 1, 15, 16, 17, 63, 4096, 32767, 32768, 32769, 100001};
  for (uint32_t offset = 0; offset < 16; ++offset) {
    for (uint32_t other = 0; other < 16; ++other) {
      Ranks ranks(1);
      CopyArguments arguments{};
      arguments.common = ranks.common(0);
      std::fill(to.begin(), to.end(), uint8_t{0});
      std::vector<uint8_t> expected(to.size());
      uint64_t place = 64;
      for (const uint64_t bytes : sizes) {
        arguments.piece[arguments.pieces++] = {at(&from[place + offset]), at(&to[place + other]),
                                               bytes};
        std::copy_n(&from[place + offset], bytes, &expected[place + other]);
        place += (bytes + 95) / 64 * 64;
      }
      copy(&arguments);
      ASSERT_EQ(to, expected) << offset << " to " << other;
    }
  }
}

TEST(Copy, LeavesOutWhatLiesNowhereOrInItsPlace) {
  uint32_t value = 7;
  Ranks ranks(2);
  CopyArguments arguments{};
  arguments.common = ranks.common(0);
  arguments.pieces = 2;
  arguments.piece[0] = {at(&value), at(&value), 4};
  arguments.piece[1] = {at(&value), {0, 0, 1, 0}, 4};
  copy(&arguments);
  EXPECT_EQ(value, 7u);
}

}  // namespace
}  // namespace tutti::device
