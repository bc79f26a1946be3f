// Tuning tables from anywhere: reading never misbehaves, a refusal names a line and changes
// nothing, and what is read prints to a text that is read to the same values, origins and id.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/tuning/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  TuningTable table, again;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  int version = 0;
  const Status read = parse_tuning(text, "table", &table, &version);
  if (read.ok() && version != tuning_version) std::abort();
  if (!read.ok()) {
    const bool unchanged = table.values() == default_tuning && table.id() == TuningTable().id();
    if (read.text().find("line ") == std::string::npos || !unchanged) std::abort();
    return 0;
  }
  std::array<Field, 2> about{};
  for (size_t i = 0; i < field_count; ++i) {
    if (!why_not(Field(i), get(table.values(), Field(i))).empty()) std::abort();
  }
  if (!why_not(table.values(), &about).empty()) std::abort();
  if (!parse_tuning(print_tuning(table), "table", &again).ok()) std::abort();
  if (again.values() != table.values() || again.id() != table.id()) std::abort();
  for (size_t i = 0; i < field_count; ++i) {
    if (again.origin(Field(i)) != table.origin(Field(i))) std::abort();
  }
  return 0;
}
