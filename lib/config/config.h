// Every environment variable that tutti reads, in one table. Nothing else reads the environment:
// the documentation, `tutti info --environment` and the checks of values all come from here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace tutti {

// To add one: a row in variables.inc, and the code that reads it.
enum class Variable {
#define VARIABLE(id, ...) id,
#include "lib/config/variables.inc"
#undef VARIABLE
};

struct VariableInfo {
  const char* name;
  const char* type;           // "integer", "list" (comma separated), "word", "text", "path"
  const char* default_value;  // in words where there is no value
  const char* about;          // one sentence
  int64_t least = 0;          // of an integer
  int64_t most = 0;
  const char* allowed = nullptr;  // of a list or word: the words, comma separated
};

std::span<const VariableInfo> config_variables();
const VariableInfo& config_variable(Variable variable);

// Whether `value` is allowed for the variable; else INVALID with a sentence that says what is.
Status config_check(Variable variable, const std::string& value);

// The variable's value; nothing if it is unset or empty; INVALID if config_check() refuses it. A
// list is split at its commas.
Status config_integer(Variable variable, std::optional<int64_t>* out);
Status config_text(Variable variable, std::optional<std::string>* out);
Status config_list(Variable variable, std::vector<std::string>* out);

// Whether the program's environment sets a variable of another library, which tutti then leaves to
// it.
bool environment_has(const char* name);

}  // namespace tutti
