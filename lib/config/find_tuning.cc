#include "lib/config/find_tuning.h"

#include <unistd.h>

#include <optional>

#include "lib/base/log.h"
#include "lib/config/config.h"
#include "lib/tuning/file.h"
#include "lib/tuning/machine.h"

namespace tutti {

namespace {

std::string file_name() { return "/tutti/tuning-" + this_machine().id + ".json"; }

// The folder that a variable names; empty unless that is an absolute path.
std::string folder_of(Variable variable) {
  std::optional<std::string> folder;
  if (!config_text(variable, &folder).ok() || !folder || folder->front() != '/') return {};
  return *folder;
}

// *found: there is one.
Status read_found(const std::string& path, TuningTable* out, bool* found) {
  *found = !path.empty() && ::access(path.c_str(), F_OK) == 0;
  if (!*found) return {};
  int version = 0;
  Status read = read_tuning(path, out, &version);
  if (read.ok() || version == 0 || version == tuning_version) return read;
  log(TUTTI_LOG_WARNING, "the tuning table " + path +
                             " is passed over: it is of another version; `tutti tune` makes one of "
                             "this version");
  *found = false;
  return {};
}

}  // namespace

std::string own_tuning_path() {
  if (const std::string cache = folder_of(Variable::xdg_cache_home); !cache.empty()) {
    return cache + file_name();
  }
  const std::string home = folder_of(Variable::home);
  return home.empty() ? "" : home + "/.cache" + file_name();
}

std::string installed_tuning_path() { return TUTTI_DATA_FOLDER + file_name(); }

Status read_named_tuning(const std::string& named, TuningTable* out) {
  *out = {};
  out->measures = named == "measure";
  return named == "none" || out->measures ? Status() : read_tuning(named, out);
}

Status find_tuning(TuningTable* out) {
  std::optional<std::string> named;
  TUTTI_TRY(config_text(Variable::tutti_tuning, &named));
  if (named) return read_named_tuning(*named, out);
  *out = {};
  for (const std::string& path : {own_tuning_path(), installed_tuning_path()}) {
    bool found = false;
    TUTTI_TRY(read_found(path, out, &found));
    if (found) return {};
  }
  return {};
}

}  // namespace tutti
