#include "lib/tuning/tuning.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <set>

#include "lib/tuning/file.h"
#include "lib/tuning/machine.h"

namespace tutti {
namespace {

// What parse_tuning() says of a table that it refuses.
std::string refusal(const std::string& text) {
  TuningTable table;
  const Status read = parse_tuning(text, "t.json", &table);
  EXPECT_EQ(read.code(), TUTTI_INVALID) << text;
  EXPECT_EQ(table.values(), default_tuning) << "unchanged";
  return read.text();
}

TEST(Fields, HaveDefaultsThatAreAllowed) {
  std::array<Field, 2> about{};
  EXPECT_EQ(why_not(default_tuning, &about), "");
  std::set<std::string> names;
  for (size_t i = 0; i < field_count; ++i) {
    const FieldInfo& info = tuning_fields()[i];
    EXPECT_EQ(why_not(Field(i), get(default_tuning, Field(i))), "") << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(std::string(info.about).back(), '.') << info.name;
    Field found{};
    ASSERT_TRUE(find_field(info.name, &found));
    EXPECT_EQ(found, Field(i));
  }
  Field found{};
  EXPECT_FALSE(find_field("far_nz", &found));
}

TEST(Fields, AreSetAndReadByName) {
  for (size_t i = 0; i < field_count; ++i) {
    const FieldInfo& info = tuning_fields()[i];
    for (const double value : {info.least, info.most}) {
      Tuning tuning;
      set(&tuning, Field(i), value);
      EXPECT_EQ(get(tuning, Field(i)), value) << info.name;
      for (size_t other = 0; other < field_count; ++other) {
        if (other == i) continue;
        EXPECT_EQ(get(tuning, Field(other)), get(default_tuning, Field(other))) << info.name;
      }
    }
  }
}

TEST(Fields, RefuseWhatCannotBe) {
  EXPECT_EQ(why_not(Field::ring_bytes, 96 << 10), "ring_bytes must be a power of two");
  EXPECT_EQ(why_not(Field::rotated_bytes, (64 << 10) + 1),
            "rotated_bytes must be a multiple of 64");
  EXPECT_EQ(why_not(Field::spins, 0), "spins must be from 1 to 1000000000");
  EXPECT_EQ(why_not(Field::spins, 1.5), "spins must be a whole number");
  EXPECT_EQ(why_not(Field::memory_hop_us, 0.15), "");
  EXPECT_NE(why_not(Field::memory_hop_us, 0.0 / 0.0), "");
}

TEST(Table, OfTheDefaultsHasNoId) {
  EXPECT_EQ(TuningTable().id(), "default");
  TuningTable table;
  table.set(Field::past_caches, 1, Origin::environment);
  EXPECT_EQ(table.id(), "default") << "the environment need not be the same on all ranks";
}

TEST(Table, PrintsWhatIsReadAgain) {
  TuningTable table, again;
  table.machine = "Some \"processor\"";
  table.set(Field::memory_hop_us, 0.1 + 0.2, Origin::measured);
  table.set(Field::ring_bytes, 1 << 18, Origin::measured);
  table.set(Field::past_caches, double(Use::never), Origin::file);
  ASSERT_TRUE(parse_tuning(print_tuning(table), "t.json", &again).ok());
  EXPECT_EQ(again.values(), table.values());
  EXPECT_EQ(again.id(), table.id());
  EXPECT_EQ(again.id().size(), 16u);
  EXPECT_EQ(again.machine, table.machine);
  EXPECT_EQ(again.origin(Field::ring_bytes), Origin::measured);
  EXPECT_EQ(again.origin(Field::past_caches), Origin::file);
  EXPECT_EQ(again.origin(Field::spins), Origin::initial);
  ASSERT_TRUE(parse_tuning(print_tuning({}), "t.json", &again).ok());
  EXPECT_EQ(again.id(), "default");
}

TEST(Table, HasAnIdThatFollowsFromItsValues) {
  TuningTable one, two;
  one.set(Field::spins, 75, Origin::measured);
  one.set(Field::yields, 2, Origin::measured);
  two.set(Field::yields, 2, Origin::file);
  two.set(Field::spins, 75, Origin::file);
  EXPECT_EQ(one.id(), two.id());
  EXPECT_EQ(digest_of(one.values()), digest_of(two.values()));
  two.set(Field::spins, 76, Origin::file);
  EXPECT_NE(one.id(), two.id());
  EXPECT_NE(digest_of(one.values()), digest_of(two.values()));
}

TEST(Table, IsRefusedWithLineAndReason) {
  EXPECT_EQ(refusal("{\n \"tutti_tuning\": 1,\n \"set\": {\n  \"far_nz\": 5\n }\n}"),
            "t.json, line 4: there is no field \"far_nz\"");
  EXPECT_EQ(refusal("{\"tutti_tuning\": 1,\n\"measured\": {\"spins\":\n\"long\"}}"),
            "t.json, line 2: spins must be a number");
  EXPECT_EQ(refusal("{\"tutti_tuning\": 1,\n\"set\": {\"past_caches\": 1}}"),
            "t.json, line 2: past_caches must be \"auto\", \"always\" or \"never\"");
  EXPECT_EQ(refusal("{\"tutti_tuning\": 1,\n\"set\": {\"spins\": 60,\n\"spins\": 60}}"),
            "t.json, line 3: \"spins\" is there twice");
  EXPECT_EQ(refusal("{\"tutti_tuning\": 1, \"set\": {\n\"ring_bytes\": 100000\n}}"),
            "t.json, line 2: ring_bytes must be a power of two");
  EXPECT_EQ(refusal("{\"tutti_tuning\": 1,\n\"tuned\": 5}"),
            "t.json, line 2: there is no \"tuned\" in a tuning table");
  EXPECT_EQ(refusal("{\n\"set\": {}\n}"),
            "t.json, line 3: \"tutti_tuning\", the version of the format, is missing");
  EXPECT_EQ(refusal("{\n\n\"tutti_tuning\": 2}"),
            "t.json, line 3: its version is another one than 1");
  EXPECT_EQ(refusal("{\"tutti_tuning\": 1,\n,}"), "t.json, line 2: this is no JSON");
  EXPECT_EQ(refusal(""), "t.json, line 1: this is no JSON");
  EXPECT_EQ(refusal("[1]"), "t.json, line 1: a tuning table is a JSON object");
  EXPECT_EQ(refusal("{\"tutti_tuning\": 1,\n\"set\": 5}"),
            "t.json, line 2: \"set\" must be an object with fields");
  EXPECT_EQ(refusal("{\"tutti_tuning\": 1,\n\"set\": {\"spins\": {}}}"),
            "t.json, line 2: spins must be a number");
  EXPECT_EQ(refusal("{\"tutti_tuning\": 1,\n\"set\": {\"spins\": 1e999}}"),
            "t.json, line 2: this is no JSON");
}

TEST(Table, IsRefusedWhereValuesCannotWorkTogether) {
  EXPECT_EQ(refusal("{\"tutti_tuning\": 1, \"set\": {\n\"ring_bytes\": 65536,\n"
                    "\"one_hop_slice_bytes\": 131072}}"),
            "t.json, line 2: ring_bytes (65536) must be at least one_hop_slice_bytes (131072)");
  EXPECT_EQ(refusal("{\"tutti_tuning\": 1, \"set\": {\n\n\"rotated_bytes\": 65536}}"),
            "t.json, line 3: rotated_bytes (65536) must be at least 2 times two_shot_slice_bytes "
            "(65536)");
  EXPECT_NE(refusal("{\"tutti_tuning\": 1, \"set\": {\"slots\": 1024,\n\"slot_bytes\": 65536}}")
                .find("line 1: slots (1024) times slot_bytes (65536)"),
            std::string::npos);
}

TEST(Table, IsRefusedWhereItsIdIsThatOfOtherValues) {
  TuningTable table;
  table.set(Field::spins, 75, Origin::measured);
  std::string text = print_tuning(table);
  text.replace(text.find("75"), 2, "76");
  EXPECT_NE(refusal(text).find("line 3: its id is that of other values"), std::string::npos)
      << refusal(text);
}

TEST(Table, IsWrittenAndReadAsAFile) {
  const std::string folder = ::testing::TempDir() + "tuning_test." + std::to_string(getpid());
  const std::string path = folder + "/table.json";
  TuningTable table, again;
  table.set(Field::spins, 75, Origin::measured);
  ASSERT_TRUE(write_tuning(table, path).ok());
  ASSERT_TRUE(read_tuning(path, &again).ok());
  EXPECT_EQ(again.values(), table.values());
  EXPECT_EQ(again.path, path);
  EXPECT_EQ(read_tuning(folder, &again).code(), TUTTI_INVALID) << "a folder";
  std::ofstream(path) << std::string(2 << 20, ' ');
  EXPECT_EQ(read_tuning(path, &again).code(), TUTTI_INVALID) << "too long";
  std::remove(path.c_str());
  EXPECT_EQ(read_tuning(path, &again).code(), TUTTI_INVALID) << "there is none";
  rmdir(folder.c_str());
  EXPECT_EQ(write_tuning(table, "/proc/nowhere/table.json").code(), TUTTI_INVALID);
}

TEST(ThisMachine, HasAName) {
  EXPECT_EQ(this_machine().id.size(), 12u);
  EXPECT_NE(this_machine().about.find(" core"), std::string::npos);
}

}  // namespace
}  // namespace tutti
