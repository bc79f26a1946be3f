// What was measured, as data: one struct that everything which decides by such a number is handed.
// A communicator has one, the same on all its ranks (lib/comm/create.cc compares the ids); nothing
// else holds one, and nothing on the path of a call looks one up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/cache.h"
#include "lib/base/status.h"
#include "tutti/tutti.h"

namespace tutti {

// For what the library decides by itself unless a setting says.
enum class Use : uint8_t { automatic, always, never };

struct Tuning {
#define FIELD(type, id, unit, initial, ...) type id = initial;
#include "lib/tuning/fields.inc"
#undef FIELD
  bool operator==(const Tuning&) const = default;

  // The last-level cache that ranks of a host share. The first call may read files.
  size_t last_level_cache() const {
    return cache_bytes != 0 ? cache_bytes : last_level_cache_bytes();
  }
  // The cache that a core has for itself; likewise.
  size_t core_cache() const { return core_bytes != 0 ? core_bytes : core_cache_bytes(); }
};
inline constexpr Tuning default_tuning{};

enum class Field : uint32_t {
#define FIELD(type, id, ...) id,
#include "lib/tuning/fields.inc"
#undef FIELD
  count
};
constexpr size_t field_count = size_t(Field::count);

// What values a number can have, besides its limits.
enum class Shape : uint8_t {
  any,
  lines,  // a multiple of a cache line
  power,  // a power of two
};

struct FieldInfo {
  const char* name;
  const char* unit;  // empty: none
  enum class Type : uint8_t { word, integer, number } type;
  double least, most;
  Shape shape;
  const char* about;  // one sentence
};
std::span<const FieldInfo, field_count> tuning_fields();
inline const FieldInfo& tuning_field(Field field) { return tuning_fields()[size_t(field)]; }
// False: there is none of that name.
bool find_field(std::string_view name, Field* out);

// Words are 0, 1 and 2: auto, always, never. All values are exact as a double.
double get(const Tuning& tuning, Field field);
void set(Tuning* tuning, Field field, double value);
// As texts have it: "auto", "65536", "0.15".
std::string value_text(Field field, double value);
bool use_from_name(std::string_view name, Use* out);
const char* use_name(Use use);

// Why the field cannot have that value; empty: it can.
std::string why_not(Field field, double value);
// Why such values cannot work together; empty: they can. *about: the fields that clash. Each must
// be possible by itself.
std::string why_not(const Tuning& tuning, std::array<Field, 2>* about);

// Of all values: for ranks that compare theirs, also those of another version of the library.
uint64_t digest_of(const Tuning& tuning);

enum class Origin : uint8_t { initial, measured, file, environment };
const char* origin_name(Origin origin);  // "default", "measured", "file", "environment"

// Values, and where they came from.
class TuningTable {
 public:
  const Tuning& values() const { return values_; }
  Origin origin(Field field) const { return origins_[size_t(field)]; }
  void set(Field field, double value, Origin origin) {
    tutti::set(&values_, field, value);
    origins_[size_t(field)] = origin;
  }
  // 16 hexadecimal digits that follow from what a file or a measurement has set; "default" if
  // nothing was. What the environment sets is not in it: that need not be equal on all ranks.
  std::string id() const;
  // For people: the id, and whether communicators have measured some of it when they were made.
  std::string name() const { return id() + (measures && id() != "default" ? ", measured" : ""); }

  std::string machine;    // the kind that it was measured on, in words; empty: unknown
  std::string path;       // the file that it was read from; empty: none
  bool measures = false;  // communicators measure their medium when they are made

 private:
  Tuning values_;
  std::array<Origin, field_count> origins_{};
};

}  // namespace tutti
