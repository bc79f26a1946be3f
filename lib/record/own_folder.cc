#include "lib/record/own_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <vector>

#include "lib/base/fd.h"
#include "lib/record/writer_lock.h"

namespace tutti::record {

namespace {

constexpr time_t kept_seconds = 24 * 3600;
constexpr size_t most_kept = 512;
constexpr mode_t marked = 0400;

struct Remains {
  std::string path;
  time_t since;  // when it was marked
};

// What of the folder's records has ended, the longest ago first.
std::vector<Remains> ended_in(const std::string& folder) {
  std::vector<Remains> ended;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string path = at->path().string();
    if (!path.ends_with(".record")) continue;
    struct stat found {};
    if (lstat(path.c_str(), &found) != 0) continue;
    if ((found.st_mode & 0777) == marked) {
      ended.push_back({path, found.st_mtime});
      continue;
    }
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file || writer_of(file).is != Writer::Is::gone) continue;
    if (futimens(file.get(), nullptr) == 0)  // its time is now that of the mark
      fchmod(file.get(), marked);
  }
  std::sort(ended.begin(), ended.end(),
            [](const Remains& a, const Remains& b) { return a.since < b.since; });
  return ended;
}

void remove_old(const std::string& folder) {
  const std::vector<Remains> ended = ended_in(folder);
  const size_t too_many = ended.size() > most_kept ? ended.size() - most_kept : 0;
  const time_t now = time(nullptr);
  for (size_t i = 0; i < ended.size(); ++i)
    if (i < too_many || now - ended[i].since > kept_seconds) unlink(ended[i].path.c_str());
}

}  // namespace

std::string own_folder(const std::string& base) {
  const std::string in =
      !base.empty() ? base : (access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
  return in + "/tutti-records-" + std::to_string(geteuid());
}

Status make_own_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error("cannot make " + path, errno);
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return system_error("cannot look at " + path, errno);
  if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & 0077) != 0)
    return {TUTTI_INVALID, path + " is not a folder of this user's alone"};
  remove_old(path);
  return {};
}

}  // namespace tutti::record
