// The Python scripts of this folder. They are part of the program, and need only python3 in PATH.
#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "trainer/common/error.h"

namespace tutti::train {

extern const char* const events_script;  // events.py
extern const char* const page_script;    // page.py

// Throws BadInput if the option is used and there is no Python.
inline void check_python(const char* option, const std::string& path) {
  if (!path.empty() && std::system("command -v python3 >/dev/null") != 0)
    throw BadInput(fmt::format("{} {}: needs python3, which is not in PATH", option, path));
}

// A script that runs beside the program and writes to `path` what it makes of the JSON that it is
// given, a line each.
class Script {
 public:
  // Ctrl-C is for the program, which then gives the script its last lines.
  Script(const char* source, const std::string& path)
      : input_(popen(fmt::format("trap '' INT; exec python3 -c {} {}", quoted(source), quoted(path))
                         .c_str(),
                     "w"),
               pclose) {
    if (!input_) throw Failure("python3 cannot be started");
    std::signal(SIGPIPE, SIG_IGN);  // finish() tells of a script that has ended early
  }
  void give(const nlohmann::json& line) {
    std::fputs((line.dump() + "\n").c_str(), input_.get());
    if (std::fflush(input_.get()) == 0) return;
    finish();
    throw Failure("python3 has ended early");
  }
  // Waits until the script has ended. Throws Failure, without a text, if it could not write: it has
  // said so itself.
  void finish() {
    if (pclose(input_.release()) != 0) throw Failure("");
  }

 private:
  // As one word of a shell.
  static std::string quoted(const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
  }

  std::unique_ptr<std::FILE, int (*)(std::FILE*)> input_;
};

}  // namespace tutti::train
