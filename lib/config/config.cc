#include "lib/config/config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string_view>

namespace tutti {
namespace {

constexpr int64_t most_int = std::numeric_limits<int>::max();

constexpr VariableInfo table[] = {
    {Variable::tutti_rank, "TUTTI_RANK", "integer", "set by `tutti run`",
     "The number of this process among the ranks of the job.", 0, most_int - 1},
    {Variable::tutti_size, "TUTTI_SIZE", "integer", "set by `tutti run`",
     "How many ranks the job has.", 1, most_int},
    {Variable::tutti_local_rank, "TUTTI_LOCAL_RANK", "integer", "set by `tutti run`",
     "The number of this process among the ranks of its host.", 0, most_int - 1},
    {Variable::tutti_local_size, "TUTTI_LOCAL_SIZE", "integer", "set by `tutti run`",
     "How many ranks of the job run on this host.", 1, most_int},
    {Variable::tutti_job_fd, "TUTTI_JOB_FD", "integer", "set by `tutti run`",
     "Inherited descriptor of a sealed memory file with the id of the job.", 0, most_int},
    {Variable::tutti_listen_fd, "TUTTI_LISTEN_FD", "integer", "set by `tutti run` for rank 0",
     "Inherited socket on which rank 0 awaits the other ranks.", 0, most_int},
    {Variable::tutti_key_file, "TUTTI_KEY_FILE", "path", "none",
     "File with the 32-byte key of a job whose launcher is not `tutti run`; only its owner may be "
     "able to read it."},
    {Variable::tutti_transports, "TUTTI_TRANSPORTS", "list", "inproc,shm,ucx,tcp",
     "The transports that a communicator may use, in order of preference; unless it is set, ucx "
     "only between hosts with RDMA.",
     0, 0, "inproc,shm,ucx,tcp"},
    {Variable::tutti_interface, "TUTTI_INTERFACE", "text", "the one that reaches rank 0",
     "Network interface (its name or an address) that the tcp transport uses."},
    {Variable::tutti_timeout_ms, "TUTTI_TIMEOUT_MS", "integer", "30000",
     "Limit of each call of a communicator, in milliseconds.", 1, int64_t{1} << 40},
    {Variable::tutti_progress_thread, "TUTTI_PROGRESS_THREAD", "integer", "0",
     "1: a thread of the library moves nonblocking calls on while nobody waits for them.", 0, 1},
    {Variable::tutti_single_copy, "TUTTI_SINGLE_COPY", "word", "auto",
     "Whether ranks of a host copy long blocks straight from each other's memory, if it permits "
     "that: auto (where it is faster than writing them for each other), always or never; if one "
     "forbids it, none does.",
     0, 0, "auto,always,never"},
    {Variable::tutti_past_caches, "TUTTI_PAST_CACHES", "word", "auto",
     "Whether ranks of a host write long slices for each other past their caches: auto (while a "
     "line takes long from core to core, which is measured all along), always or never.",
     0, 0, "auto,always,never"},
    {Variable::tutti_check, "TUTTI_CHECK", "list", "none",
     "`result`: ranks compare a digest of each result that all should have; the same on all ranks.",
     0, 0, "result"},
    {Variable::tutti_level, "TUTTI_LEVEL", "word", "fast",
     "What is promised of the bits of reductions: fast, layout, canonical or exact.", 0, 0,
     "fast,layout,canonical,exact"},
    {Variable::tutti_device, "TUTTI_DEVICE", "text", "none",
     "The GPU whose memory a communicator takes, too: cuda:0 ..., cuda (the current one) or none."},
    {Variable::tutti_device_path, "TUTTI_DEVICE_PATH", "word", "auto",
     "How calls on memory of GPUs go: auto (from GPU to GPU where all reach each other) or host "
     "(through memory of the host, by its transports); if one rank says host, all do.",
     0, 0, "auto,host"},
    {Variable::tutti_ucx_device, "TUTTI_UCX_DEVICE", "word", "auto",
     "Whether UCX moves memory of GPUs itself, in calls that only move data: auto (where it says "
     "that it can, on all ranks), always (without asking it) or never; if one rank says never, "
     "none does.",
     0, 0, "auto,always,never"},
    {Variable::rank, "RANK", "integer", "none",
     "As TUTTI_RANK, from launchers in the manner of torchrun.", 0, most_int - 1},
    {Variable::world_size, "WORLD_SIZE", "integer", "none",
     "As TUTTI_SIZE, from launchers in the manner of torchrun.", 1, most_int},
    {Variable::local_rank, "LOCAL_RANK", "integer", "none",
     "As TUTTI_LOCAL_RANK, from launchers in the manner of torchrun.", 0, most_int - 1},
    {Variable::master_addr, "MASTER_ADDR", "text", "none",
     "Name or address of the host of rank 0, from launchers in the manner of torchrun."},
    {Variable::master_port, "MASTER_PORT", "integer", "none",
     "Port at which rank 0 listens, from launchers in the manner of torchrun.", 1, 65535},
};

constexpr bool in_order() {
  for (size_t i = 0; i < std::size(table); ++i)
    if (table[i].id != Variable(i)) return false;
  return true;
}
static_assert(in_order(), "the table is indexed by Variable");

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

// Empty counts as unset: that is how a shell script passes on what it was not given.
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
