// What this host calls itself.
#pragma once

#include <unistd.h>

#include <string>

namespace tutti {

inline std::string host_name() {
  char name[65] = "";  // Linux has at most 64 characters
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace tutti
