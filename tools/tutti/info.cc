#include <fmt/core.h>

#include <memory>
#include <string>

#include "lib/config/config.h"
#include "tools/tutti/commands.h"
#include "tools/tutti/machine.h"

namespace {

using Json = nlohmann::ordered_json;

struct InfoOptions {
  bool json = false;
  bool environment = false;
};

std::string size_text(uint64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return fmt::format("{:.3g} {}", value, units[unit]);
}

std::string plural(int count, const std::string& word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

void print_build(const Json& build) {
  fmt::print("tutti {}, {} build by {}\n\n", build["version"].get<std::string>(),
             build["type"].get<std::string>(), build["compiler"].get<std::string>());
  fmt::print("Libraries found when it was built\n");
  for (const Json& feature : build["features"]) {
    std::string state = "no";
    if (feature["found"]) state = "yes " + feature["version"].get<std::string>();
    if (feature["found"] && !feature["used"]) state += ", not used by this version";
    fmt::print("  {:<10}{} (for {})\n", feature["name"].get<std::string>(), state,
               feature["for"].get<std::string>());
  }
  fmt::print("\nReduction kernels\n  {}{}\n", build["reductions"].get<std::string>(),
             build["native"] ? ", in a build for this machine alone" : "");
}

void print_transports(const Json& transports) {
  fmt::print("\nTransports\n");
  for (const Json& transport : transports) {
    const std::string reason = transport["reason"];
    fmt::print("  {:<10}{}: {}\n", transport["name"].get<std::string>(),
               transport["usable"] ? "usable" : "not usable here",
               reason.empty() ? transport["about"].get<std::string>() : reason);
  }
}

void print_interfaces(const Json& interfaces) {
  fmt::print("\nNetwork interfaces\n");
  for (const Json& interface : interfaces) {
    std::string addresses;
    for (const Json& address : interface["addresses"])
      addresses += " " + address.get<std::string>();
    fmt::print("  {:<10}{}{}\n", interface["name"].get<std::string>(),
               interface["up"] ? "up" : "down", addresses);
  }
}

void print_topology(const Json& topology) {
  fmt::print("\nThis host\n");
  if (topology.is_null()) {
    fmt::print("  hwloc cannot read its topology\n");
    return;
  }
  const std::string model = topology["model"];
  if (!model.empty()) fmt::print("  {}\n", model);
  fmt::print("  {}, {}, {}, {}, {} of memory\n", plural(topology["packages"], "package"),
             plural(topology["cores"], "core"), plural(topology["processors"], "processor"),
             plural(topology["numa_nodes"], "NUMA node"), size_text(topology["memory_bytes"]));
  for (const Json& cache : topology["caches"])
    fmt::print("  {} x {} {}, each shared by {}\n", cache["count"].get<int>(),
               size_text(cache["bytes"]), cache["name"].get<std::string>(),
               plural(cache["processors_each"], "processor"));
}

void print_gpus(const Json& gpus) {
  fmt::print("\nGPUs\n");
  if (gpus["usable"]) {
    fmt::print("  device buffers: yes, driver {}\n", gpus["driver"].get<std::string>());
  } else {
    fmt::print("  device buffers: no: {}\n", gpus["reason"].get<std::string>());
  }
  int number = 0;
  for (const Json& gpu : gpus["gpus"])
    fmt::print("  cuda:{:<5}{}, {} of memory, {}, compute capability {}\n", number++,
               gpu["name"].get<std::string>(), size_text(gpu["memory_bytes"]),
               plural(gpu["multiprocessors"], "multiprocessor"),
               gpu["capability"].get<std::string>());
}

void print_job(const Json& job) {
  fmt::print("\nJob\n  started by {}", job["started_by"].get<std::string>());
  if (job.contains("problem")) {
    fmt::print(": {}\n", job["problem"].get<std::string>());
  } else {
    fmt::print(", rank {} of {}, key: {}\n", job["rank"].get<int>(), job["ranks"].get<int>(),
               job["key"].get<std::string>());
  }
}

// As a table of Markdown: the README has a copy, and a test compares.
void print_environment() {
  fmt::print("| variable | type | default | meaning |\n|---|---|---|---|\n");
  for (const tutti::VariableInfo& info : tutti::config_variables())
    fmt::print("| `{}` | {} | {} | {} |\n", info.name, info.type, info.default_value, info.about);
}

void print_environment_json() {
  Json all = Json::array();
  for (const tutti::VariableInfo& info : tutti::config_variables())
    all.push_back({{"name", info.name},
                   {"type", info.type},
                   {"default", info.default_value},
                   {"about", info.about}});
  fmt::print("{}\n", all.dump(2));
}

void run(const InfoOptions& options) {
  if (options.environment) return options.json ? print_environment_json() : print_environment();
  Json all;
  all["build"] = tutti::describe_build();
  all["transports"] = tutti::describe_transports();
  all["interfaces"] = tutti::describe_interfaces();
  all["topology"] = tutti::describe_topology();
  all["gpus"] = tutti::describe_gpus();
  all["job"] = tutti::describe_job();
  if (options.json) {
    fmt::print("{}\n", all.dump(2));
    return;
  }
  print_build(all["build"]);
  print_transports(all["transports"]);
  print_interfaces(all["interfaces"]);
  print_topology(all["topology"]);
  print_gpus(all["gpus"]);
  print_job(all["job"]);
}

}  // namespace

void add_info(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* command =
      app.add_subcommand("info", "Says what this build has and what this machine offers");
  command->add_flag("--json", options->json, "as one JSON object");
  command->add_flag("--environment", options->environment,
                    "the environment variables that tutti reads, instead");
  command->callback([options] { run(*options); });
}
