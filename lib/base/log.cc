#include "lib/base/log.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "lib/base/fd.h"
#include "lib/base/host_name.h"

namespace tutti {

namespace {

struct Listener {
  std::mutex mutex;
  tutti_log_fn log = nullptr;
  void* context = nullptr;
  Fd file;
  std::string path;
};
Listener& listener() {
  static Listener* const instance = new Listener;  // outlives every thread
  return *instance;
}

// "2026-11-25T06:12:01.250Z host 4711 error: rank 0: ...", in one piece, so that lines of several
// processes stay whole.
void append(const Fd& file, tutti_log_level level, const std::string& text) {
  static constexpr const char* names[] = {"error", "warning", "info", "debug"};
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts;
  gmtime_r(&now.tv_sec, &parts);
  char date[32] = "";
  strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
  char start[160];
  std::snprintf(start, sizeof(start), "%s.%03dZ %s %d %s: ", date, int(now.tv_nsec / 1'000'000),
                host_name().c_str(), int(getpid()), names[size_t(level)]);
  std::string line = start + text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  // A line that cannot be written must not fail a call.
  [[maybe_unused]] const ssize_t written = write(file.get(), line.data(), line.size());
}

}  // namespace

void set_log(tutti_log_fn log, void* context) {
  const std::lock_guard lock(listener().mutex);
  listener().log = log;
  listener().context = context;
}

Status log_to(const std::string& path) {
  const std::lock_guard lock(listener().mutex);
  if (listener().path == path) return {};
  Fd file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666));
  if (!file) {
    return {TUTTI_INVALID,
            "TUTTI_LOG is '" + path + "', which cannot be opened: " + std::strerror(errno)};
  }
  listener().file = std::move(file);
  listener().path = path;
  return {};
}

bool logging() {
  const std::lock_guard lock(listener().mutex);
  return listener().log != nullptr || listener().file;
}

void log(tutti_log_level level, const std::string& text) {
  const std::lock_guard lock(listener().mutex);
  try {
    if (listener().file) append(listener().file, level, text);
    if (listener().log != nullptr) listener().log(level, text.c_str(), listener().context);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a failure to log must not fail a call
  }
}

}  // namespace tutti
