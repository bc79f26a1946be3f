// What the library says to the program while this lives, from whatever thread.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::testing {

class KeptLog {
 public:
  KeptLog() { tutti_log_set(keep, this); }
  ~KeptLog() { tutti_log_set(nullptr, nullptr); }
  KeptLog(const KeptLog&) = delete;
  KeptLog& operator=(const KeptLog&) = delete;

  // Copies: other ranks' threads may go on logging.
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  std::string text() const {
    std::string all;
    for (const std::string& line : lines()) all += line + "\n";
    return all;
  }
  bool says(const std::string& what) const { return text().find(what) != std::string::npos; }

 private:
  static void keep(tutti_log_level, const char* text, void* self) {
    auto* const log = static_cast<KeptLog*>(self);
    const std::lock_guard lock(log->mutex_);
    log->lines_.emplace_back(text);
  }

  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace tutti::testing
