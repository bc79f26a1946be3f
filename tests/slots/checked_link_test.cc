// Bits that are flipped in the memory that ranks share.
#include "lib/slots/checked_link.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "lib/base/mapping.h"
#include "tests/support/links.h"
#include "tests/support/slot_parts.h"

namespace tutti::slots {
namespace {

using testing::mark_of;
using testing::send_all;

constexpr int trials = 1000;

// Two ranks of one thread; rank 0 has sent a message to rank 1.
class FlippedBit : public ::testing::Test {
 protected:
  void SetUp() override {
    noise_.resize(2 * most_);
    for (uint8_t& byte : noise_) byte = uint8_t(random_());
  }

  void send_one(Integrity integrity) {
    for (auto& link : links_) link.reset();
    ASSERT_TRUE(map_private(geometry_.total_bytes(), &mapping_).ok());  // zeros
    segment_ = Segment(mapping_.base, geometry_);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      links_[rank] = make_link(testing::slot_parts(mapping_, geometry_, 2, rank), integrity);
      links_[rank]->begin(mark_of(7));
    }
    const size_t bytes = 1 + random_() % (random_() % 2 == 0 ? 100 : most_);
    const auto first = noise_.begin() + ptrdiff_t(random_() % (noise_.size() - bytes));
    sent_.assign(first, first + ptrdiff_t(bytes));
    ASSERT_TRUE(send_all(*links_[0], 1, sent_.data(), sent_.size()).ok());
  }

  // A bit of what is in the slots.
  void flip_one() {
    uint32_t used = 0;
    while (used < geometry_.slots && segment_.slot_lines(0, 1)[used].flag != 0) ++used;
    const uint32_t slot = uint32_t(random_() % used);
    SlotLine& line = segment_.slot_lines(0, 1)[slot];
    std::byte* const data = line.bytes <= SlotLine::inline_bytes
                                ? line.payload
                                : segment_.slot_data(0, 1) + size_t(slot) * geometry_.slice_bytes;
    data[random_() % line.bytes] ^= std::byte(1 << random_() % 8);
  }
  // A bit of a slot's length.
  void flip_a_length() { segment_.slot_lines(0, 1)->bytes ^= 1u << random_() % 32; }

  Status receive() {
    got_.assign(sent_.size(), 0);
    auto* const to = reinterpret_cast<std::byte*>(got_.data());
    for (size_t got = 0; got < got_.size();) {
      const size_t some = links_[1]->try_recv(0, to + got, got_.size() - got);
      if (some == 0) {
        TUTTI_TRY(links_[1]->inspect(now_ns()));
        return {TUTTI_TIMEOUT, "nothing has come, and nothing was found"};
      }
      got += some;
    }
    return {};
  }
  void expect_found(const Status& ended, int trial) {
    ASSERT_EQ(ended.code(), TUTTI_CORRUPT) << "trial " << trial << ": " << ended.text();
    EXPECT_EQ(ended.rank(), 0);
    EXPECT_NE(ended.text().find("rank 0"), std::string::npos) << ended.text();
  }

  const Geometry geometry_ = Geometry::for_ranks(2, default_tuning);
  // At most what fits into the slots.
  const size_t most_ = geometry_.slots * (geometry_.slice_bytes - 2 * line_bytes);
  Mapping mapping_;
  Segment segment_;
  std::unique_ptr<Link> links_[2];
  std::vector<uint8_t> sent_, got_;
  std::mt19937_64 random_{21};
  std::vector<uint8_t> noise_;  // messages are pieces of it
};

TEST_F(FlippedBit, IsFoundWhereChecksumsAreAskedFor) {
  for (int trial = 0; trial < trials; ++trial) {
    send_one(Integrity::checksum);
    flip_one();
    const Status ended = receive();
    expect_found(ended, trial);
    EXPECT_EQ(ended.call(), 7u);
    EXPECT_NE(ended.text().find("rank 1 calls"), std::string::npos) << ended.text();
    EXPECT_NE(ended.text().find("(call 7)"), std::string::npos) << ended.text();
    EXPECT_NE(ended.text().find("checksum"), std::string::npos) << ended.text();
  }
}

TEST_F(FlippedBit, OfALengthIsFoundToo) {
  for (int trial = 0; trial < trials; ++trial) {
    send_one(Integrity::checksum);
    flip_a_length();
    expect_found(receive(), trial);
  }
}

TEST_F(FlippedBit, ChangesTheResultWhereTheyAreNot) {
  for (int trial = 0; trial < 100; ++trial) {
    send_one(Integrity::none);
    flip_one();
    ASSERT_TRUE(receive().ok());
    ASSERT_NE(got_, sent_) << trial;
  }
}

TEST_F(FlippedBit, OrNoneLeavesTheMessageRight) {
  for (int trial = 0; trial < 100; ++trial) {
    send_one(Integrity::checksum);
    ASSERT_TRUE(receive().ok());
    ASSERT_EQ(got_, sent_) << trial;
  }
}

// Of two records that are exchanged neither is the next one.
TEST_F(FlippedBit, OrSlotsThatHaveChangedPlacesAreFound) {
  for (int trial = 0; trial < 100; ++trial) {
    do {
      send_one(Integrity::checksum);
    } while (sent_.size() < 2 * geometry_.slice_bytes);
    std::byte* const first = segment_.slot_data(0, 1);
    std::swap_ranges(first, first + geometry_.slice_bytes, first + geometry_.slice_bytes);
    expect_found(receive(), trial);
  }
}

// A record is copied as a whole, so what a call leaves of it is here and not in a slot.
TEST_F(FlippedBit, OrNoneAndACallDoesNotGetWhatAnEarlierOneHasLeft) {
  do {
    send_one(Integrity::checksum);
  } while (sent_.size() < 2);
  std::byte first;
  ASSERT_EQ(links_[1]->try_recv(0, &first, 1), 1u);
  links_[1]->begin(mark_of(8));
  EXPECT_EQ(links_[1]->try_recv(0, &first, 1), 0u);
  EXPECT_TRUE(links_[1]->try_peek(0, 1, 1).empty());
  EXPECT_EQ(links_[1]->inspect(now_ns()).code(), TUTTI_MISMATCH);
}

}  // namespace
}  // namespace tutti::slots
