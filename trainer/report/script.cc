#include "trainer/report/script.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <utility>

#include "trainer/common/error.h"

namespace tutti::train {
namespace {

// As one word of a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

void check_python(const char* option, const std::string& path) {
  if (!path.empty() && std::system("command -v python3 >/dev/null") != 0)
    throw BadInput(fmt::format("{} {}: needs python3, which is not in PATH", option, path));
}

// Ctrl-C is for the program, which then gives the script its last lines.
Script::Script(const char* source, const std::string& path)
    : input_(popen(
          fmt::format("trap '' INT; exec python3 -c {} {}", quoted(source), quoted(path)).c_str(),
          "w")) {
  if (!input_) throw Failure("python3 cannot be started");
  std::signal(SIGPIPE, SIG_IGN);  // finish() tells of a script that has ended early
}

Script::~Script() {
  if (input_) pclose(input_);
}

void Script::give(const nlohmann::json& line) {
  std::fputs((line.dump() + "\n").c_str(), input_);
  if (std::fflush(input_) == 0) return;
  finish();
  throw Failure("python3 has ended early");
}

void Script::finish() {
  std::FILE* const input = std::exchange(input_, nullptr);
  if (pclose(input) != 0) throw Failure("");
}

}  // namespace tutti::train
