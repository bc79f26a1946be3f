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

// In the order of the table.
enum class Variable {
  tutti_rank,
  tutti_size,
  tutti_local_rank,
  tutti_local_size,
  tutti_job_fd,
  tutti_listen_fd,
  tutti_key_file,
  tutti_transports,
  tutti_interface,
  tutti_timeout_ms,
  tutti_progress_thread,
  tutti_single_copy,
  tutti_past_caches,
  tutti_check,
  tutti_level,
  tutti_device,
  tutti_device_path,
  tutti_ucx_device,
  rank,
  world_size,
  local_rank,
  master_addr,
  master_port,
};

struct VariableInfo {
  Variable id;
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

// The variable's value, nothing where it is unset or empty; INVALID where config_check refuses it.
// For an integer and for the others; a list comes in its parts.
Status config_integer(Variable variable, std::optional<int64_t>* out);
Status config_text(Variable variable, std::optional<std::string>* out);
Status config_list(Variable variable, std::vector<std::string>* out);

// Whether the program's environment sets a variable of another library, which tutti then leaves to
// it.
bool environment_has(const char* name);

}  // namespace tutti
