// The log of a run with servers: every gradient that arrived and every read. The run can be
// repeated from it.
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
  std::vector<std::vector<nlohmann::json>> events;  // by server, in the server's order
  std::string parameters;                           // their digest at the end
};
// Throws BadInput if the file is not a complete log.
ServerLog read_log(const std::string& path);

// Repeats the run in this process, without other ranks. `options`: those of the run's command line.
// Throws Failure if the bits differ. Returns the digest of the parameters.
std::string replay(const ServerLog& log, const Options& options, const Device& device);

std::string digest_of(std::span<const float> values);

}  // namespace tutti::train
