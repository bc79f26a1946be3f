#include "bench/launch.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

#include "bench/cores.h"
#include "bench/error.h"

namespace tutti::bench {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

std::vector<char*> as_argv(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  return argv;
}

}  // namespace

bool launched() {
  return std::getenv("TUTTI_RANK") || (std::getenv("RANK") && std::getenv("WORLD_SIZE"));
}

std::string own_path() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw Failure("cannot find this program's own file: " + error.message());
  return path;
}

std::string find_tutti() {
  const fs::path here = fs::path(own_path()).parent_path();
  std::vector<fs::path> places{here / "tutti", here / "../tutti", here / "../tools/tutti",
                               here / "../tools/tutti/tutti"};
  if (const char* path = std::getenv("PATH")) {
    std::istringstream folders(path);
    for (std::string folder; std::getline(folders, folder, ':');)
      places.push_back(fs::path(folder) / "tutti");
  }
  for (const fs::path& place : places)
    if (is_program(place)) return place.lexically_normal();
  throw Failure("cannot start ranks: the program `tutti` is neither beside this one nor in PATH");
}

std::vector<std::string> run_ranks_command(int nranks, const std::vector<std::string>& arguments,
                                           const std::vector<std::string>& options) {
  std::vector<std::string> command{find_tutti(), "run", "-n", std::to_string(nranks)};
  command.insert(command.end(), options.begin(), options.end());
  command.push_back(own_path());
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

void become(const std::vector<std::string>& command) {
  execvp(command.front().c_str(), as_argv(command).data());
  throw Failure(fmt::format("cannot start {}: {}", command.front(), std::strerror(errno)));
}

int run_command(const std::vector<std::string>& command) {
  const auto argv = as_argv(command);
  const pid_t pid = fork();
  if (pid < 0)
    throw Failure(fmt::format("cannot start {}: {}", command.front(), std::strerror(errno)));
  if (pid == 0) {
    execvp(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void run_threads(int nranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(size_t(nranks));
  for (int rank = 0; rank < nranks; ++rank) {
    threads.emplace_back([&, rank] {
      bind_rank(rank, nranks);
      try {
        body(rank);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "tutti-bench: rank %d: %s\n", rank, error.what());
        std::_Exit(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tutti::bench
