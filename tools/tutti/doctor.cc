#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "lib/config/config.h"
#include "lib/record/own_folder.h"
#include "tools/doctor/folder.h"
#include "tools/tutti/commands.h"

namespace {

using Json = nlohmann::ordered_json;
using tutti::doctor::Diagnosis;
using tutti::doctor::Finding;
using tutti::doctor::Folder;
using tutti::doctor::Person;

struct DoctorOptions {
  std::string folder;
  bool json = false;
};

Json as_json(const Person& person) {
  if (person.rank < 0) return nullptr;
  Json one{{"rank", person.rank}};
  one["process"] = person.process != 0 ? Json(person.process) : Json(nullptr);
  one["host"] = !person.host.empty() ? Json(person.host) : Json(nullptr);
  return one;
}

Json as_json(const Diagnosis& found, const Folder& folder) {
  const bool healthy = found.finding == Finding::healthy;
  Json all{{"finding", tutti::doctor::name_of(found.finding)}, {"sentence", found.sentence}};
  all["who"] = as_json(found.who);
  all["waiting"] = as_json(found.waiting);
  all["communicator"] = nullptr;
  if (!healthy) {
    all["communicator"] = {{"id", fmt::format("{:016x}", found.comm)}, {"ranks", found.nranks}};
  }
  all["call"] = nullptr;
  if (!found.what.empty()) {
    all["call"] = {{"number", found.call != 0 ? Json(found.call) : Json(nullptr)},
                   {"what", found.what}};
  }
  all["link"] = !found.link.empty() ? Json(found.link) : Json(nullptr);
  all["addresses"] = !found.addresses.empty() ? Json(found.addresses) : Json(nullptr);
  all["why"] = !found.why.empty() ? Json(found.why) : Json(nullptr);
  all["processes"] = found.processes;
  all["communicators"] = found.communicators;
  all["calls"] = found.calls;
  all["other_jobs"] = found.other_jobs;
  all["unreadable"] = folder.damaged;
  return all;
}

void run(DoctorOptions& options) {
  if (options.folder.empty()) {
    std::optional<std::string> named;
    const tutti::Status known = tutti::config_text(tutti::Variable::tutti_record_dir, &named);
    if (!known.ok()) refuse("doctor: " + known.text());
    options.folder = named.value_or(tutti::record::own_folder());
    if (!named && access(options.folder.c_str(), F_OK) != 0)
      refuse("doctor: no process of this user has left a flight record in " + options.folder);
  }
  Folder folder;
  const tutti::Status read = read_folder(options.folder, &folder);
  if (!read.ok()) refuse("doctor: " + read.text());
  if (folder.subjects.empty()) {
    refuse("doctor: " + (folder.damaged.empty()
                             ? "there is no flight record (*.record) in " + options.folder
                             : folder.damaged.front()));
  }
  for (const std::string& sentence : folder.damaged)
    std::fprintf(stderr, "tutti: doctor: %s\n", sentence.c_str());
  const Diagnosis found = diagnose(folder.subjects, folder.now_ns);
  if (options.json) {
    const auto replaced = Json::error_handler_t::replace;
    fmt::print("{}\n", as_json(found, folder).dump(2, ' ', false, replaced));
  } else {
    fmt::print("{}\n", found.sentence);
  }
  if (found.finding != Finding::healthy) finish(1);
}

}  // namespace

void add_doctor(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app.add_subcommand(
      "doctor",
      "Says in one sentence what is wrong with a job, from the flight records of its processes: "
      "while it runs, or when it is gone. Exit status: 0 nothing is wrong, 1 something is, 2 "
      "there are no records to be read");
  command->add_option("folder", options->folder,
                      "with the records: what TUTTI_RECORD_DIR named, or those of several hosts "
                      "copied together (default: TUTTI_RECORD_DIR, else the folder in which "
                      "processes without one leave them)");
  command->add_flag("--json", options->json, "as one JSON object");
  command->callback([options] { run(*options); });
}
