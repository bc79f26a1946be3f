#include "lib/config/config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string_view>

#include "transports/list.h"

namespace tutti {
namespace {

constexpr int64_t most_int = std::numeric_limits<int>::max();

#define TUTTI_WORD(name) "," #name
constexpr char listed_transports[] = TUTTI_TRANSPORTS(TUTTI_WORD);
#undef TUTTI_WORD
constexpr const char* transport_words = listed_transports + 1;

constexpr VariableInfo table[] = {
#define VARIABLE(id, ...) {__VA_ARGS__},
#include "lib/config/variables.inc"
#undef VARIABLE
};

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t from = 0;;) {
    const size_t comma = text.find(',', from);
    parts.emplace_back(text.substr(from, comma - from));
    if (comma == text.npos) return parts;
    from = comma + 1;
  }
}

bool parse(const std::string& text, int64_t* out) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *out);
  return result.ec == std::errc() && result.ptr == end;
}

Status refuse(const VariableInfo& info, const std::string& value, const std::string& allowed) {
  return {TUTTI_INVALID, std::string(info.name) + " is '" + value + "', but must be " + allowed};
}

// Empty counts as unset, because shell scripts pass on unset variables as empty ones.
const char* lookup(Variable variable) {
  const char* value = std::getenv(config_variable(variable).name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

std::span<const VariableInfo> config_variables() { return table; }

const VariableInfo& config_variable(Variable variable) { return table[size_t(variable)]; }

Status config_check(Variable variable, const std::string& value) {
  const VariableInfo& info = config_variable(variable);
  if (info.most > 0) {
    int64_t number = 0;
    if (!parse(value, &number) || number < info.least || number > info.most)
      return refuse(
          info, value,
          "an integer from " + std::to_string(info.least) + " to " + std::to_string(info.most));
  }
  if (info.allowed != nullptr) {
    const bool list = std::string_view(info.type) == "list";
    const std::vector<std::string> words = split(info.allowed);
    for (const std::string& part : list ? split(value) : std::vector{value})
      if (std::find(words.begin(), words.end(), part) == words.end())
        return refuse(
            info, value,
            (list ? "a comma separated list of " : "one of ") + std::string(info.allowed));
  }
  return {};
}

Status config_integer(Variable variable, std::optional<int64_t>* out) {
  std::optional<std::string> text;
  TUTTI_TRY(config_text(variable, &text));
  out->reset();
  if (text) {
    int64_t number = 0;
    parse(*text, &number);
    *out = number;
  }
  return {};
}

Status config_text(Variable variable, std::optional<std::string>* out) {
  out->reset();
  const char* value = lookup(variable);
  if (value == nullptr) return {};
  TUTTI_TRY(config_check(variable, value));
  *out = value;
  return {};
}

bool environment_has(const char* name) { return std::getenv(name) != nullptr; }

Status config_list(Variable variable, std::vector<std::string>* out) {
  std::optional<std::string> text;
  TUTTI_TRY(config_text(variable, &text));
  out->clear();
  if (text) *out = split(*text);
  return {};
}

}  // namespace tutti
