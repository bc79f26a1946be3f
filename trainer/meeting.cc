#include "trainer/meeting.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "trainer/common/error.h"
#include "trainer/common/files.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto look_again = std::chrono::milliseconds(10);
constexpr const char* asks = "newcomer-";

std::string run_in(const std::string& folder) { return folder + "/run.json"; }
std::string ticket_of(const std::string& folder, const std::string& newcomer) {
  return folder + "/ticket-" + newcomer.substr(std::strlen(asks));
}

// Whether a process holds the lock of the file.
bool is_held(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0;
  close(fd);
  return held;
}

std::string made_folder(std::string folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw BadInput(fmt::format("--meet {}: {}", folder, failed.message()));
  return folder;
}

}  // namespace

LockedFile::LockedFile(const std::string& path, const std::string& text)
    : path_(path), fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  bool held = false;
  // Who looks whether it is held holds it for a moment.
  for (int tries = 0; fd_ >= 0 && !held && tries <= 100; ++tries) {
    if (tries > 0) std::this_thread::sleep_for(look_again);
    held = flock(fd_, LOCK_EX | LOCK_NB) == 0;
  }
  if (held && ftruncate(fd_, 0) == 0 && write(fd_, text.data(), text.size()) >= 0) return;
  const std::string why =
      fd_ >= 0 && !held ? "another run goes on in this folder" : std::strerror(errno);
  if (fd_ >= 0) close(fd_);
  throw BadInput(fmt::format("--meet: {}: {}", path, why));
}

LockedFile::~LockedFile() {
  unlink(path_.c_str());
  close(fd_);
}

void check_meeting_place(const std::string& folder) {
  room_in("--meet", folder);
  if (is_held(run_in(folder)))
    throw BadInput(fmt::format("--meet {}: another run goes on in this folder", folder));
}

MeetingPlace::MeetingPlace(std::string folder, const json& run)
    : folder_(made_folder(std::move(folder))), run_(run_in(folder_), run.dump(2) + "\n") {}

std::vector<std::string> MeetingPlace::newcomers(int most) const {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(asks) || fs::exists(ticket_of(folder_, name), ignored)) continue;
    if (is_held(entry.path().string())) found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  if (found.size() > size_t(std::max(most, 0))) found.resize(size_t(std::max(most, 0)));
  return found;
}

void MeetingPlace::let_in(const std::string& newcomer, const Ticket& ticket) const {
  const std::string path = ticket_of(folder_, newcomer), unfinished = path + ".unfinished";
  unlink(unfinished.c_str());
  const int fd = open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written = fd >= 0 && write(fd, &ticket, sizeof ticket) == ssize_t(sizeof ticket);
  const int why = errno;
  if (fd >= 0) close(fd);
  // Under its name only when it is whole.
  if (!written || rename(unfinished.c_str(), path.c_str()) != 0)
    throw Failure(fmt::format("--meet: cannot write {}: {}", path, std::strerror(why)));
}

Ticket ask_to_join(const std::string& folder, const json& run) {
  const auto nobody = [&] { return fmt::format("--join: no run with --meet {} goes on", folder); };
  if (!is_held(run_in(folder))) throw BadInput(nobody());
  json theirs;
  try {
    theirs = json::parse(read_file(run_in(folder)));
  } catch (const std::exception& failed) {
    throw BadInput(fmt::format("--join: {}: {}", run_in(folder), failed.what()));
  }
  for (const auto& [name, value] : run.items())
    if (!theirs.contains(name) || theirs[name] != value)
      throw BadInput(fmt::format("--join: the run in {} is another one: {} is {} there, not {}",
                                 folder, name, theirs.value(name, json()).dump(), value.dump()));
  const std::string name = asks + std::to_string(getpid());
  const std::string path = ticket_of(folder, name);
  unlink(path.c_str());  // of a process of an earlier run that had this number
  const LockedFile waits(folder + "/" + name, "");
  // Another rank may be about to become rank 0.
  constexpr int patience = 500;
  for (int unheld = 0; unheld < patience; std::this_thread::sleep_for(look_again)) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
      Ticket ticket;
      const bool whole = read(fd, &ticket, sizeof ticket) == ssize_t(sizeof ticket);
      close(fd);
      unlink(path.c_str());
      if (!whole) throw Failure(fmt::format("--join: {} is damaged", path));
      return ticket;
    }
    unheld = is_held(run_in(folder)) ? 0 : unheld + 1;
  }
  throw Failure(nobody() + " any more");
}

}  // namespace tutti::train
