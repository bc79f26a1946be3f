#include "tools/launcher/threads.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace tutti {
namespace {

namespace fs = std::filesystem;

std::string folder_of(pid_t process) { return "/proc/" + std::to_string(process) + "/task"; }

std::vector<pid_t> tasks_of(pid_t process) {
  std::vector<pid_t> tasks;
  std::error_code error;
  for (fs::directory_iterator at(folder_of(process), error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    pid_t task = 0;
    std::from_chars(name.data(), name.data() + name.size(), task);
    if (task > 0) tasks.push_back(task);
  }
  return tasks;
}

// Calls each(process, thread).
template <class Each>
void for_each_thread(pid_t process, Each&& each) {
  std::vector<pid_t> processes{process};
  while (!processes.empty()) {
    const pid_t next = processes.back();
    processes.pop_back();
    for (const pid_t task : tasks_of(next)) {
      each(next, task);
      std::ifstream children(folder_of(next) + '/' + std::to_string(task) + "/children");
      for (pid_t child = 0; children >> child;) processes.push_back(child);
    }
  }
}

}  // namespace

std::vector<pid_t> threads_of(pid_t process) {
  std::vector<pid_t> threads;
  for_each_thread(process, [&](pid_t, pid_t thread) { threads.push_back(thread); });
  return threads;
}

std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  const std::string own = std::to_string(getpid());
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream file("/proc/" + name + "/stat");
    std::string line, state, parent;
    std::getline(file, line);
    const size_t end_of_name = line.rfind(')');
    if (end_of_name == line.npos) continue;
    std::istringstream rest(line.substr(end_of_name + 1));
    if (rest >> state >> parent && parent == own) children.push_back(pid_t(std::stol(name)));
  }
  return children;
}

std::map<pid_t, Turns> turns_of(pid_t process) {
  std::map<pid_t, Turns> all;
  for_each_thread(process, [&](pid_t owner, pid_t thread) {
    std::ifstream file(folder_of(owner) + '/' + std::to_string(thread) + "/schedstat");
    if (Turns turns; file >> turns.run_ns >> turns.wait_ns) all.emplace(thread, turns);
  });
  return all;
}

}  // namespace tutti
