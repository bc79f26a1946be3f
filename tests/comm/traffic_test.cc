// Several messages over one link, at moments that other tests meet by chance.
#include "lib/comm/traffic.h"

#include <gtest/gtest.h>

#include "tests/support/quiet_link.h"

namespace tutti {
namespace {

// Between two looks of an inspection, for the second receive, rank 1's message comes, with tag 2.
class LateLink final : public testing::QuietLink {
 public:
  void begin(const CallMark& mark) override { begun_ = mark; }
  Next next(int peer, const CallMark& mark) override {
    if (!has_come_ || peer != 1) return Next::nothing;
    return mark.signature.root == 2 ? Next::this_one : Next::another;
  }
  size_t try_recv(int peer, std::byte*, size_t most) override {
    const bool is_it = has_come_ && peer == 1 && begun_.digest != 0 && begun_.signature.root == 2;
    return is_it ? most : 0;
  }
  Status inspect(uint64_t) override {
    has_come_ = ++inspections_ >= 3;  // the first two are for the receive from any rank
    return {};
  }

 private:
  CallMark begun_;
  int inspections_ = 0;
  bool has_come_ = false;
};

TEST(Traffic, WhatComesDuringAnInspectionIsReceivedAtTheNextLook) {
  LateLink link;
  Traffic traffic;
  traffic.open(3, 0);
  int source = -1;
  int32_t any = 0, named = 0;
  size_t any_left = 0, named_left = 0;
  traffic.add({Message::to_receive_from_any(&any, 1, TUTTI_INT32, 1, &source), &any_left});
  traffic.add({Message::to_receive(&named, 1, TUTTI_INT32, 1, 2), &named_left});
  EXPECT_FALSE(traffic.advance(link));
  EXPECT_TRUE(traffic.inspect(link, now_ns()).ok());
  // A wait would sleep now if this found nothing, and no wake-up would come.
  EXPECT_TRUE(traffic.advance(link));
  EXPECT_EQ(named_left, 0u);
  EXPECT_EQ(any_left, 1u);
}

}  // namespace
}  // namespace tutti
