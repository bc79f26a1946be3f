// Headers from outside: whatever they say, they are understood or refused.
#include <gtest/gtest.h>

#include "trainer/checkpoint/safetensors.h"
#include "trainer/common/random.h"

namespace tutti::train {
namespace {

std::string file_of(const std::string& json, size_t data = 0) {
  std::string out;
  for (size_t i = 0; i < 8; ++i) out += char(json.size() >> (8 * i) & 0xff);
  return out + json + std::string(data, 'x');
}

bool refused(const std::string& file) {
  try {
    parse_header(file, file.size());
    return false;
  } catch (const Damaged&) {
    return true;
  }
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  const std::vector<Tensor> tensors = {
      {"a", "F32", {2, 3}, 0, 24}, {"b", "BF16", {0}, 24, 24}, {"c", "I64", {}, 24, 32}};
  const std::string head = make_header(tensors, {{"k", "v"}});
  EXPECT_EQ(head.size() % 8, 0u);
  const Header read = parse_header(head + std::string(32, 'x'), head.size() + 32);
  ASSERT_EQ(read.tensors.size(), 3u);
  EXPECT_EQ(read.tensors[0].name, "a");
  EXPECT_EQ(read.tensors[0].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(read.metadata.at("k"), "v");
  EXPECT_EQ(read.size, head.size());
}

TEST(Safetensors, HostileHeadersAreRefused) {
  const auto one = [](const std::string& body) { return file_of("{\"a\":" + body + "}", 8); };
  EXPECT_FALSE(refused(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})")));
  for (const char* body :
       {R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})",
        R"({"dtype":"F33","shape":[2],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})",
        R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})",
        R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})",
        R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})",
        R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":[4611686018427387905,2],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":[18446744073709551617],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})",
        R"({"dtype":7,"shape":[2],"data_offsets":[0,8]})", R"({"shape":[2],"data_offsets":[0,8]})",
        R"({})", R"([])", R"(3)"})
    EXPECT_TRUE(refused(one(body))) << body;
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  EXPECT_TRUE(refused(file_of("{" + a + "," + a + "}", 8)));
  EXPECT_TRUE(refused(file_of("{" + a + "}", 9)));
  EXPECT_TRUE(refused(file_of("{" + a, 8)));
  EXPECT_TRUE(refused(file_of("[]")));
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused(std::string(8, '\xff')));
  EXPECT_TRUE(refused(std::string("\xff\xff\xff\x00\x00\x00\x00\x00", 8)));
  EXPECT_TRUE(refused(file_of(std::string(100000, '['))));
  EXPECT_TRUE(refused(file_of(R"({"__metadata__":{"a":1}})")));
}

TEST(Safetensors, AnyFlippedBitIsUnderstoodOrRefused) {
  const std::string good =
      make_header({{"a", "F32", {2, 3}, 0, 24}, {"b", "F32", {1}, 24, 28}}, {{"k", "v"}}) +
      std::string(28, 'x');
  for (size_t bit = 0; bit < 8 * (good.size() - 28); ++bit) {
    std::string bad = good;
    bad[bit / 8] = char(bad[bit / 8] ^ (1 << bit % 8));
    refused(bad);
  }
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_TRUE(refused(good.substr(0, length)));
}

}  // namespace
}  // namespace tutti::train
