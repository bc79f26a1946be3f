// What the ucx transport does beyond the contract of all: what it refuses, what it does not leave
// undone, and what it leaves alone.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>

#include "lib/control/bytes.h"
#include "tests/support/sanitized.h"
#include "tests/transports/tcp/ranks.h"
#include "transports/registry.h"
#include "transports/ucx/direct_stream.h"
#include "transports/ucx/staged_stream.h"
#include "transports/ucx/ucx.h"

namespace tutti {
namespace {

using testing::mark_of;
using testing::recv_all;
using ucx::DirectStream;
using ucx::StagedStream;
using ucx::UcxStream;
using ucx::Worker;

void on_links(int nranks, const std::function<void(int, Link&, Exchange&)>& body) {
  testing::on_linked_threads(nranks, ucx_transport.open, body);
}

// ---------------------------------------------------------------- what must not be left undone

TEST(Ucx, WhatWasTakenArrivesThoughTheSenderNeverCallsAgain) {
  on_links(2, [](int rank, Link& link, Exchange& exchange) {
    link.begin(mark_of(1));
    std::vector<std::byte> bytes(1 << 20);
    std::string taken(8, '\0');
    if (rank == 0) {
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 7);
      const uint64_t count = link.try_send(1, bytes.data(), bytes.size());
      EXPECT_GT(count, 0u);
      std::memcpy(taken.data(), &count, 8);
    }
    std::vector<std::string> all;
    ASSERT_TRUE(exchange.allgather(taken, deadline_after_ms(20'000), &all).ok());
    if (rank == 1) {
      uint64_t count = 0;
      std::memcpy(&count, all[0].data(), 8);
      const Status ended = recv_all(link, 0, bytes.data(), count);
      ASSERT_TRUE(ended.ok()) << ended.text();
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(bytes[i], std::byte(i * 7)) << i;
    }
    ASSERT_TRUE(exchange.allgather("", deadline_after_ms(20'000), &all).ok());
  });
}

// Many links with data on their way are freed while their peers still read.
TEST(Ucx, WhatWasTakenArrivesThoughTheSenderHasLeft) {
  for (int time = 0; time < 5; ++time) {
    on_links(3, [](int rank, Link& link, Exchange&) {
      link.begin(mark_of(1));
      std::vector<uint32_t> word(1000, uint32_t(rank));
      if (rank == 0) {
        for (const int peer : {1, 2}) {
          ASSERT_TRUE(testing::send_all(link, peer, word.data(), 4000).ok());
        }
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20 * rank));
      const Status ended = recv_all(link, 0, word.data(), 4000);
      ASSERT_TRUE(ended.ok()) << ended.text();
      EXPECT_EQ(word[999], 0u);
    });
  }
}

// ---------------------------------------------------------------- what is refused

// Rank 0's end of a stream from rank 1, which is never connected: the frames are the test's.
class UcxFrames : public ::testing::Test {
 protected:
  void SetUp() override {
    const Status made = Worker::create(ucx::Reach::memory, 77, 0, 2, &worker_);
    ASSERT_TRUE(made.ok()) << made.text();
    stream_ = std::make_unique<StagedStream>(*worker_, 1, false);
    frame_.comm = 77;
    frame_.src = 1;
    frame_.length = 64;
    frame_.digest = mark_.digest;
  }

  void take(const wire::Header& header, size_t length, uint64_t freed = 0,
            bool by_rendezvous = false) {
    const wire::HeaderBytes encoded = wire::encode(header);
    std::array<uint8_t, StagedStream::header_bytes> bytes;
    std::copy(encoded.begin(), encoded.end(), bytes.begin());
    bytes[40] ^= spoil_;
    put_le(bytes.data() + wire::header_bytes, freed);
    stream_->take_frame(bytes.data(), payload_.data(), length, by_rendezvous);
  }
  void expect_corrupt(const char* words) {
    const Status& found = stream_->corrupt();
    EXPECT_EQ(found.code(), TUTTI_CORRUPT);
    EXPECT_EQ(found.rank(), 1);
    EXPECT_NE(found.text().find("rank 1"), std::string::npos) << found.text();
    EXPECT_NE(found.text().find(words), std::string::npos) << found.text();
  }

  std::unique_ptr<Worker> worker_;
  std::unique_ptr<UcxStream> stream_;
  CallMark mark_ = mark_of(1);
  wire::Header frame_;
  uint8_t spoil_ = 0;
  std::vector<std::byte> payload_ = std::vector<std::byte>(StagedStream::most_short_bytes + 1);
};

TEST_F(UcxFrames, ThatAreRightAreRead) {
  take(frame_, 64);
  EXPECT_TRUE(stream_->corrupt().ok()) << stream_->corrupt().text();
  std::byte out[64];
  EXPECT_EQ(stream_->receive(mark_, out, 64), 64u);
}

TEST_F(UcxFrames, WithAWrongChecksumAreCorrupt) {
  spoil_ = 1;
  take(frame_, 64);
  expect_corrupt("checksum");
}

TEST_F(UcxFrames, ThatDoNotFollowAreCorrupt) {
  take(frame_, 64);
  take(frame_, 64);
  expect_corrupt("does not follow");
}

TEST_F(UcxFrames, OfAnotherLengthAreCorrupt) {
  take(frame_, 63);
  expect_corrupt("another length");
}

TEST_F(UcxFrames, ThatAreNoDataAreCorrupt) {
  frame_.type = wire::Type::status;
  frame_.length = 0;
  take(frame_, 0);
  expect_corrupt("does not belong");
}

TEST_F(UcxFrames, ThatAreTooLongForShortOnesAreCorrupt) {
  frame_.length = uint32_t(payload_.size());
  take(frame_, payload_.size());
  expect_corrupt("too long");
}

TEST_F(UcxFrames, BeyondTheRoomThatWasGivenAreCorrupt) {
  frame_.length = StagedStream::most_short_bytes;
  for (int i = 0; i < 100; ++i, frame_.stream += frame_.length) take(frame_, frame_.length);
  expect_corrupt("more than there is room for");
}

TEST_F(UcxFrames, ThatGiveBackMoreRoomThanWasTakenAreCorrupt) {
  take(frame_, 64, 1);
  expect_corrupt("took more than it was sent");
}

TEST_F(UcxFrames, OfAnotherCallAreHeldForThatOne) {
  frame_.digest = mark_of(2).digest;
  frame_.epoch = 2;
  take(frame_, 64);
  std::byte out[64];
  EXPECT_EQ(stream_->receive(mark_, out, 64), 0u);
  ASSERT_NE(stream_->mismatched_frame(), nullptr);
  EXPECT_EQ(stream_->mismatched_frame()->epoch, 2u);
  EXPECT_EQ(stream_->receive(mark_of(2), out, 64), 64u);
}

// The same of a stream to memory that the host may not touch.
class DirectFrames : public UcxFrames {
 protected:
  void SetUp() override {
    UcxFrames::SetUp();
    stream_.reset();
    stream_ = std::make_unique<DirectStream>(*worker_, 1, false, UCS_MEMORY_TYPE_UNKNOWN);
  }
};

TEST_F(DirectFrames, WhosePayloadComesThroughTheHostAreCorrupt) {
  take(frame_, 64);
  expect_corrupt("bytes through memory of the host");
}

TEST_F(DirectFrames, ThatAreTooLongAreCorrupt) {
  frame_.length = DirectStream::most_long_bytes + 1;
  take(frame_, frame_.length, 0, true);
  expect_corrupt("too long");
}

TEST_F(DirectFrames, ThatDoNotFollowAreCorrupt) {
  frame_.stream = 1;
  take(frame_, 64, 0, true);
  expect_corrupt("does not follow");
}

TEST_F(DirectFrames, ThatGiveBackRoomThatNobodyTookAreCorrupt) {
  stream_->take_note(1, 0);
  expect_corrupt("took more than it was sent");
}

// ---------------------------------------------------------------- what is left alone

TEST(Ucx, NeitherPrintsNorCatchesSignals) {
  struct sigaction before {
  }, after{};
  sigaction(SIGSEGV, nullptr, &before);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  UcxFound found;
  const Status status = find_ucx(&found);
  on_links(2, [](int, Link&, Exchange&) {});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_FALSE(found.version.empty());
  EXPECT_FALSE(found.resources.empty());
  sigaction(SIGSEGV, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  if (!testing::sanitized) {  // which catches it itself
    EXPECT_EQ(after.sa_handler, SIG_DFL);
  }
}

}  // namespace
}  // namespace tutti
