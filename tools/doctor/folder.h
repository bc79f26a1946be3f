// The flight records in a folder, and what this host knows of the processes that wrote them.
#pragma once

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "tools/doctor/diagnose.h"

namespace tutti::doctor {

struct Folder {
  std::vector<Subject> subjects;
  std::vector<std::string> damaged;  // a sentence for each file that cannot be read
  int64_t now_ns = 0;                // of CLOCK_REALTIME; 0: all are copies
};

// INVALID if the folder cannot be read.
Status read_folder(const std::string& path, Folder* out);

}  // namespace tutti::doctor
