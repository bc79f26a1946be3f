// The log of a run with servers: every gradient that came and every read, from which the run can be
// repeated.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/device/device.h"

namespace tutti::train {

struct ServerLog {
  std::string path;
  std::vector<std::string> arguments;               // the run's command line
  std::vector<std::vector<nlohmann::json>> events;  // of each server, in their order
  std::string parameters;                           // their digest at the end
};
// Throws BadInput where the file is no whole log.
ServerLog read_log(const std::string& path);

// Repeats the run in this process, without other ranks. `options`: of its command line. Throws
// Failure if the bits differ. Returns the digest of the parameters.
std::string replay(const ServerLog& log, const Options& options, const Device& device);

std::string digest_of(std::span<const float> values);

}  // namespace tutti::train
