// The Python scripts of this folder. They are part of the program, and need only python3 in PATH.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace tutti::train {

extern const char* const events_script;  // events.py
extern const char* const page_script;    // page.py

// Throws BadInput if the option is used and there is no Python.
void check_python(const char* option, const std::string& path);

// A script that runs beside the program and writes to `path` what it makes of the JSON that it is
// given, a line each.
class Script {
 public:
  Script(const char* source, const std::string& path);
  ~Script();
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  void give(const nlohmann::json& line);
  // Waits until the script has ended. Throws Failure, without a text, if it could not write: it has
  // said so itself.
  void finish();

 private:
  std::FILE* input_;
};

}  // namespace tutti::train
