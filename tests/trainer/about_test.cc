// checkpoint.json: numbers and names that cannot be are refused, whatever its checksum.
#include "trainer/checkpoint/about.h"

#include <gtest/gtest.h>

#include "trainer/checkpoint/safetensors.h"
#include "trainer/common/files.h"

namespace tutti::train {
namespace {

using nlohmann::json;

json whole() {
  return {{"step", 3},
          {"copies", 2},
          {"data", 18446744073709551615u},
          {"identity", json::object()},
          {"settings", json::object()},
          {"tensors", {{"a", {{{"file", 1}, {"box", "[0:2]"}}}}}},
          {"files",
           {{{"name", "x"}, {"bytes", 7}, {"sha256", "d1"}},
            {{"name", "y"}, {"bytes", 8}, {"sha256", "d2"}}}}};
}

About parsed(const json& contents) {
  return parse_about(json{
      {"format", format_version},
      {"sha256", sha256_of_text(contents.dump())},
      {"contents",
       contents}}.dump());
}

TEST(About, SaysWhatTheTextSays) {
  const About about = parsed(whole());
  EXPECT_EQ(about.step, 3);
  EXPECT_EQ(about.copies, 2);
  EXPECT_EQ(about.data_digest, 18446744073709551615u);
  ASSERT_EQ(about.files.size(), 2u);
  EXPECT_EQ(about.files[1].name, "y");
  EXPECT_EQ(about.files[1].bytes, 8u);
  EXPECT_FALSE(about.vocabulary.has_value());
}

TEST(About, WhatCannotBeIsRefused) {
  const std::pair<const char*, json> changes[] = {{"/step", 0},
                                                  {"/step", -1},
                                                  {"/step", 9223372036854775808u},
                                                  {"/step", 1.5},
                                                  {"/copies", 0},
                                                  {"/copies", 4294967297},
                                                  {"/data", -1},
                                                  {"/data", 1e30},
                                                  {"/files", json::array()},
                                                  {"/files/0/name", ""},
                                                  {"/files/0/name", "y"},
                                                  {"/files/0/name", "../x"},
                                                  {"/files/0/bytes", -1},
                                                  {"/files/0/bytes", 1e30},
                                                  {"/files/0/sha256", 5},
                                                  {"/tensors/a/0/file", 2},
                                                  {"/tensors/a/0/file", -1},
                                                  {"/tensors/a/0/box", 1},
                                                  {"/tensors/a", 1},
                                                  {"/settings", 1},
                                                  {"/identity", 1}};
  for (const auto& [place, value] : changes) {
    json contents = whole();
    contents[json::json_pointer(place)] = value;
    EXPECT_THROW(parsed(contents), Damaged) << place << " " << value;
  }
}

}  // namespace
}  // namespace tutti::train
