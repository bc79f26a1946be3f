#include "lib/control/key_agreement.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace {

template <class Array>
Array from_hex(const std::string& text) {
  Array bytes{};
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = uint8_t(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return bytes;
}

// RFC 7748, section 6.1.
TEST(KeyAgreement, FindsWhatTheStandardSays) {
  const auto alice =
      from_hex<JobKey>("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
  const auto bob =
      from_hex<JobKey>("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
  Nonce of_alice, of_bob;
  ASSERT_TRUE(public_value(alice, &of_alice));
  ASSERT_TRUE(public_value(bob, &of_bob));
  EXPECT_EQ(of_alice,
            from_hex<Nonce>("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"));
  EXPECT_EQ(of_bob,
            from_hex<Nonce>("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
  JobKey first{}, second{};
  ASSERT_TRUE(agreed_secret(alice, of_bob, &first));
  ASSERT_TRUE(agreed_secret(bob, of_alice, &second));
  EXPECT_EQ(first, second);
  EXPECT_EQ(first,
            from_hex<JobKey>("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"));
}

// With these anybody finds 0, whatever the number.
TEST(KeyAgreement, RefusesPointsOfSmallOrder) {
  const auto own =
      from_hex<JobKey>("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
  for (const uint8_t first : {uint8_t(0), uint8_t(1)}) {
    JobKey found{};
    EXPECT_FALSE(agreed_secret(own, Nonce{first}, &found)) << int(first);
  }
}

}  // namespace
}  // namespace tutti
