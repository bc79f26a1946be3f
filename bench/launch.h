// Starting ranks: by a launcher around this process, by `tutti run` from it, or as its threads.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tutti::bench {

// Whether some launcher's environment says that this process is a rank already.
bool launched();

// The `tutti` program: beside this one, where the build folder has it, or in PATH. Throws Failure.
std::string find_tutti();

// The path of this program.
std::string own_path();

// `tutti run -n nranks [options] <this program> arguments`, as argv.
std::vector<std::string> run_ranks_command(int nranks, const std::vector<std::string>& arguments,
                                           const std::vector<std::string>& options = {});

// Replaces this process. Throws Failure if it cannot.
[[noreturn]] void become(const std::vector<std::string>& command);

// Runs a command to its end; its exit status, 128 + signal if one ended it.
int run_command(const std::vector<std::string>& command);

// Runs `body(rank)` in one thread per rank, each bound to a core of its own if there are enough.
// The first exception ends the process with status 1 and its message.
void run_threads(int nranks, const std::function<void(int)>& body);

}  // namespace tutti::bench
