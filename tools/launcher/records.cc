#include "tools/launcher/records.h"

#include <stdlib.h>

#include <filesystem>
#include <optional>

#include "lib/config/config.h"
#include "tools/doctor/folder.h"

namespace tutti {

Records Records::make() {
  Records made;
  std::optional<std::string> named;
  if (!config_text(Variable::tutti_record_dir, &named).ok()) return made;
  if (named) {
    if (*named != "none") made.folder_ = *named;
    return made;
  }
  for (const char* place : {"/dev/shm", "/tmp"}) {
    std::string path = std::string(place) + "/tutti-record-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) continue;
    made.folder_ = path;
    made.is_private_ = true;
    break;
  }
  return made;
}

void Records::note_stopped() {
  doctor::Folder found;
  if (folder_.empty() || !doctor::read_folder(folder_, &found).ok()) return;
  for (const doctor::Subject& one : found.subjects)
    if (one.life == doctor::Life::stopped) stopped_.insert(one.record.process);
}

std::string Records::diagnose(pid_t process, const std::string& ending) const {
  doctor::Folder found;
  if (folder_.empty() || !doctor::read_folder(folder_, &found).ok()) return {};
  for (doctor::Subject& one : found.subjects) {
    if (process != 0 && one.record.process == process) one.ending = ending;
    if (stopped_.contains(one.record.process)) one.life = doctor::Life::stopped;
  }
  const doctor::Diagnosis diagnosis = doctor::diagnose(std::move(found.subjects), found.now_ns);
  return diagnosis.finding == doctor::Finding::healthy ? std::string() : diagnosis.sentence;
}

void Records::remove() const {
  std::error_code ignored;
  if (is_private_) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace tutti
