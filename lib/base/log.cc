#include "lib/base/log.h"

#include <mutex>

namespace tutti {

namespace {

struct Listener {
  std::mutex mutex;
  tutti_log_fn log = nullptr;
  void* context = nullptr;
};
Listener& listener() {
  static Listener* const instance = new Listener;  // outlives every thread
  return *instance;
}

}  // namespace

void set_log(tutti_log_fn log, void* context) {
  const std::lock_guard lock(listener().mutex);
  listener().log = log;
  listener().context = context;
}

bool logging() {
  const std::lock_guard lock(listener().mutex);
  return listener().log != nullptr;
}

void log(tutti_log_level level, const std::string& text) {
  const std::lock_guard lock(listener().mutex);
  if (listener().log == nullptr) return;
  try {
    listener().log(level, text.c_str(), listener().context);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a failure to log must not fail a call
  }
}

}  // namespace tutti
