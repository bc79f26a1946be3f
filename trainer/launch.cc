#include "trainer/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "trainer/common/error.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;

fs::path own_path() {
  std::error_code error;
  fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw Failure("cannot find this program's own file: " + error.message());
  return path;
}

// The program `tutti` beside this one, else the one in PATH.
std::string find_tutti() {
  const fs::path here = own_path().parent_path();
  for (const fs::path& place : {here / "tutti", here / "../tools/tutti"})
    if (std::error_code error;
        fs::is_regular_file(place, error) && access(place.c_str(), X_OK) == 0)
      return place.lexically_normal();
  return "tutti";
}

}  // namespace

bool launched() {
  return std::getenv("TUTTI_RANK") || (std::getenv("RANK") && std::getenv("WORLD_SIZE"));
}

int local_rank() {
  for (const char* name : {"TUTTI_LOCAL_RANK", "LOCAL_RANK", "TUTTI_RANK", "RANK"})
    if (const char* number = std::getenv(name)) return std::max(0, std::atoi(number));
  return 0;
}

void restart_with_threads(int threads, char** argv) {
  const std::string number = std::to_string(threads);
  bool set = true;
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    const char* now = std::getenv(name);
    set = set && now && now == number;
    setenv(name, number.c_str(), 1);
  }
  if (set) return;
  execv("/proc/self/exe", argv);  // if that fails the run is slower, not wrong
}

void become_ranks(int nranks, const std::string& transport, bool keep_going,
                  const std::vector<std::string>& arguments) {
  std::vector<std::string> command{find_tutti(), "run", "-n", std::to_string(nranks)};
  if (!transport.empty()) command.insert(command.end(), {"--transport", transport});
  if (keep_going) command.emplace_back("--keep-going");
  command.push_back(own_path());
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  throw Failure(fmt::format(
      "cannot start ranks with the program `tutti`, beside tutti-train or in PATH: {}: {}",
      command.front(), std::strerror(errno)));
}

}  // namespace tutti::train
