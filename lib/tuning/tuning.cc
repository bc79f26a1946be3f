#include "lib/tuning/tuning.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <type_traits>

namespace tutti {

namespace {

template <class T>
constexpr FieldInfo::Type type_of() {
  if (std::is_same_v<T, Use>) return FieldInfo::Type::word;
  return std::is_same_v<T, double> ? FieldInfo::Type::number : FieldInfo::Type::integer;
}

constexpr std::array<FieldInfo, field_count> table = {{
#define FIELD(type, id, unit, initial, least, most, shape, about) \
  {#id, unit, type_of<type>(), double(least), double(most), Shape::shape, about},
#include "lib/tuning/fields.inc"
#undef FIELD
}};

constexpr const char* use_names[] = {"auto", "always", "never"};
constexpr const char* origin_names[] = {"default", "measured", "file", "environment"};

// FNV-1a.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) hash_ = (hash_ ^ uint8_t(c)) * 0x100000001b3u;
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

void add(Hash* hash, const Tuning& tuning, Field field) {
  hash->add(tuning_field(field).name);
  hash->add("=");
  hash->add(value_text(field, get(tuning, field)));
  hash->add("\n");
}

}  // namespace

std::span<const FieldInfo, field_count> tuning_fields() { return table; }

bool find_field(std::string_view name, Field* out) {
  for (size_t i = 0; i < field_count; ++i) {
    if (name != table[i].name) continue;
    *out = Field(i);
    return true;
  }
  return false;
}

double get(const Tuning& tuning, Field field) {
  switch (field) {
#define FIELD(type, id, ...) \
  case Field::id:            \
    return double(tuning.id);
#include "lib/tuning/fields.inc"
#undef FIELD
    case Field::count:
      break;
  }
  return 0;
}

void set(Tuning* tuning, Field field, double value) {
  switch (field) {
#define FIELD(type, id, ...)  \
  case Field::id:             \
    tuning->id = type(value); \
    break;
#include "lib/tuning/fields.inc"
#undef FIELD
    case Field::count:
      break;
  }
}

std::string value_text(Field field, double value) {
  const FieldInfo& info = tuning_field(field);
  if (info.type == FieldInfo::Type::word) return use_name(Use(value));
  if (info.type == FieldInfo::Type::integer) return std::to_string(uint64_t(value));
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return {text, end};
}

bool use_from_name(std::string_view name, Use* out) {
  for (size_t i = 0; i < std::size(use_names); ++i) {
    if (name != use_names[i]) continue;
    *out = Use(i);
    return true;
  }
  return false;
}

const char* use_name(Use use) { return use_names[size_t(use)]; }

const char* origin_name(Origin origin) { return origin_names[size_t(origin)]; }

std::string why_not(Field field, double value) {
  const FieldInfo& info = tuning_field(field);
  const std::string name = info.name;
  const auto text = [&](double number) { return value_text(field, number); };
  if (info.type == FieldInfo::Type::integer && value != std::floor(value)) {
    return name + " must be a whole number";
  }
  if (!(value >= info.least && value <= info.most)) {
    return name + " must be from " + text(info.least) + " to " + text(info.most);
  }
  if (info.shape == Shape::lines && uint64_t(value) % line_bytes != 0) {
    return name + " must be a multiple of " + std::to_string(line_bytes);
  }
  if (info.shape == Shape::power && !std::has_single_bit(uint64_t(value))) {
    return name + " must be a power of two";
  }
  return {};
}

std::string why_not(const Tuning& tuning, std::array<Field, 2>* about) {
  struct Rule {
    Field large;
    double times;
    Field small;
  };
  constexpr Rule rules[] = {
      // A slice must fit into the ring that it lies in.
      {Field::ring_bytes, 1, Field::one_hop_slice_bytes},
      {Field::one_hop_slice_bytes, 1, Field::least_one_hop_slice_bytes},
      // Two-shot needs a place for the result of a slice while the one before is read.
      {Field::rotated_bytes, 2, Field::two_shot_slice_bytes},
      {Field::few_arena_bytes, 4, Field::two_shot_slice_bytes},
      {Field::some_arena_bytes, 4, Field::two_shot_slice_bytes},
      {Field::many_arena_bytes, 4, Field::two_shot_slice_bytes},
      {Field::tcp_stage_bytes, 1, Field::tcp_small_stage_bytes},
      {Field::tcp_stage_bytes, 1, Field::tcp_header_stage_bytes},
  };
  const auto text = [&](Field field) {
    return std::string(tuning_field(field).name) + " (" + value_text(field, get(tuning, field)) +
           ")";
  };
  for (const Rule& rule : rules) {
    if (get(tuning, rule.large) >= rule.times * get(tuning, rule.small)) continue;
    *about = {rule.large, rule.small};
    return text(rule.large) + " must be at least " +
           (rule.times == 1 ? "" : std::to_string(int(rule.times)) + " times ") + text(rule.small);
  }
  constexpr uint64_t most_slots_bytes = 4 << 20;  // there are slots for each pair of ranks
  if (uint64_t(tuning.slots) * tuning.slot_bytes > most_slots_bytes) {
    *about = {Field::slots, Field::slot_bytes};
    return text(Field::slots) + " times " + text(Field::slot_bytes) + " must be at most " +
           std::to_string(most_slots_bytes);
  }
  return {};
}

uint64_t digest_of(const Tuning& tuning) {
  Hash hash;
  for (size_t i = 0; i < field_count; ++i) add(&hash, tuning, Field(i));
  return hash.value();
}

std::string TuningTable::id() const {
  Hash hash;
  bool any = false;
  for (size_t i = 0; i < field_count; ++i) {
    if (origins_[i] != Origin::measured && origins_[i] != Origin::file) continue;
    add(&hash, values_, Field(i));
    any = true;
  }
  if (!any) return "default";
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash.value()));
  return text;
}

}  // namespace tutti
