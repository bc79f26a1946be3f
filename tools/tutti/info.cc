#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/config/config.h"
#include "lib/config/find_tuning.h"
#include "lib/tuning/file.h"
#include "lib/tuning/machine.h"
#include "tools/tutti/commands.h"
#include "tools/tutti/machine.h"

namespace {

using Json = nlohmann::ordered_json;

struct InfoOptions {
  bool json = false;
  bool environment = false;
  bool tuning = false;
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
  const Json& huge = topology["huge_pages"];
  const std::string for_private = huge["private"], for_shared = huge["shared"];
  if (for_private.empty()) return;
  fmt::print("  transparent huge pages: {}; of shared memory: {}\n", for_private,
             for_shared.empty() ? "unknown" : for_shared);
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
    fmt::print(", rank {} of {}, key: {}; over tcp: {}\n", job["rank"].get<int>(),
               job["ranks"].get<int>(), job["key"].get<std::string>(),
               job["integrity"].get<std::string>());
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

// The table as a communicator made here would have it, with its id, which the environment does not
// change.
tutti::TuningTable tuning_here(std::string* id) {
  const auto require = [](const tutti::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "tutti info: %s\n", status.text().c_str());
    finish(1);
  };
  tutti::TuningTable table;
  require(tutti::find_tuning(&table));
  *id = table.id();
  for (const auto& [variable, field] :
       {std::pair(tutti::Variable::tutti_single_copy, tutti::Field::single_copy),
        std::pair(tutti::Variable::tutti_past_caches, tutti::Field::past_caches)}) {
    std::optional<std::string> word;
    require(tutti::config_text(variable, &word));
    tutti::Use use{};
    if (word && tutti::use_from_name(*word, &use))
      table.set(field, double(use), tutti::Origin::environment);
  }
  return table;
}

void print_tuning() {
  std::string id;
  const tutti::TuningTable table = tuning_here(&id);
  fmt::print("tuning table {}{}{}\n", id, table.path.empty() ? "" : " of ", table.path);
  if (table.measures)
    fmt::print("measured  by the first communicator of a kind of medium, and told in its log\n");
  if (!table.machine.empty()) fmt::print("made for  {}\n", table.machine);
  fmt::print("here      {}\n", tutti::this_machine().about);
  fmt::print("{:<28}{:<10}\n\n", "`tutti tune` writes", tutti::own_tuning_path());
  fmt::print("{:<27}{:>9} {:<8}{:<12}{}\n", "field", "value", "unit", "origin", "meaning");
  for (size_t i = 0; i < tutti::field_count; ++i) {
    const auto field = tutti::Field(i);
    const tutti::FieldInfo& info = tutti::tuning_field(field);
    fmt::print("{:<27}{:>9} {:<8}{:<12}{}\n", info.name,
               tutti::value_text(field, tutti::get(table.values(), field)), info.unit,
               tutti::origin_name(table.origin(field)), info.about);
  }
}

void print_tuning_json() {
  std::string id;
  const tutti::TuningTable table = tuning_here(&id);
  Json all{
      {"tutti_tuning", tutti::tuning_version},
      {"id", id},
      {"path", table.path},
      {"measures", table.measures},
      {"machine", table.machine},
      {"this_machine", {{"id", tutti::this_machine().id}, {"about", tutti::this_machine().about}}},
      {"own_path", tutti::own_tuning_path()},
      {"installed_path", tutti::installed_tuning_path()},
      {"fields", Json::array()}};
  for (size_t i = 0; i < tutti::field_count; ++i) {
    const auto field = tutti::Field(i);
    const tutti::FieldInfo& info = tutti::tuning_field(field);
    const auto as_json = [&](double value) -> Json {
      if (info.type == tutti::FieldInfo::Type::word) return tutti::use_name(tutti::Use(value));
      if (info.type == tutti::FieldInfo::Type::integer) return uint64_t(value);
      return value;
    };
    all["fields"].push_back({{"name", info.name},
                             {"value", as_json(tutti::get(table.values(), field))},
                             {"unit", info.unit},
                             {"origin", tutti::origin_name(table.origin(field))},
                             {"default", as_json(tutti::get(tutti::default_tuning, field))},
                             {"least", as_json(info.least)},
                             {"most", as_json(info.most)},
                             {"about", info.about}});
  }
  fmt::print("{}\n", all.dump(2));
}

void run(const InfoOptions& options) {
  if (options.tuning) return options.json ? print_tuning_json() : print_tuning();
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
  command->add_flag(
      "--tuning", options->tuning,
      "the tuning table that holds here, each value with its unit and origin, instead");
  command->callback([options] { run(*options); });
}
