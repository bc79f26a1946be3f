#include "lib/control/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tutti {
namespace {

// Bit by bit.
uint32_t remainder_of(const uint8_t* data, size_t bytes) {
  uint32_t crc = ~uint32_t{0};
  for (size_t i = 0; i < bytes; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

// RFC 3720, B.4, and the check value of the catalogue of CRCs.
TEST(Crc32c, IsThatOfTheStandards) {
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c(std::vector<uint8_t>(32, 0).data(), 32), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::vector<uint8_t>(32, 0xff).data(), 32), 0x62a8ab43u);
  EXPECT_EQ(crc32c(nullptr, 0), 0u);
}

TEST(Crc32c, IsTheRemainderOfAnyLengthAndPlace) {
  std::mt19937_64 random(3);
  std::vector<uint8_t> data(40'000);
  for (uint8_t& byte : data) byte = uint8_t(random());
  for (const size_t bytes : {7, 8, 9, 3071, 3072, 3073, 6143, 6144, 6145, 9216, 16'320, 32'768}) {
    const size_t from = random() % 64;
    EXPECT_EQ(crc32c(data.data() + from, bytes), remainder_of(data.data() + from, bytes)) << bytes;
  }
  for (int trial = 0; trial < 300; ++trial) {
    const size_t from = random() % 64, bytes = random() % 10'000;
    ASSERT_EQ(crc32c(data.data() + from, bytes), remainder_of(data.data() + from, bytes)) << bytes;
  }
}

}  // namespace
}  // namespace tutti
