// Starting this program: with its number of threads, and its ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tutti::train {

// This rank's number among those on its host, from the launcher's environment; 0 without a
// launcher.
int local_rank();

// Whether a launcher has started this process as a rank.
bool launched();

// Mathematical libraries read the number of threads from the environment when they are loaded. If
// it is not this one there, this sets it and starts the program again.
void restart_with_threads(int threads, char** argv);

// Whether ranks can be forks of this process: they would lack its threads, and a driver of GPUs
// that it has asked. Never in the trainer of a bundle.
bool can_fork_ranks(bool uses_gpu);

// Runs `nranks` ranks on this host as `tutti run` does and returns the exit status of the job. They
// are forks of this process, which call `rank` and exit with what it returns: loading LibTorch
// takes longer than many a run. With `keep_going` one that is killed does not end the others.
// Throws Failure if it cannot start them.
int fork_ranks(int nranks, const std::string& transport, bool keep_going,
               const std::function<int()>& rank);

// Becomes `tutti run -n nranks` of this program with these arguments; throws Failure if it cannot.
[[noreturn]] void become_ranks(int nranks, const std::string& transport, bool keep_going,
                               const std::vector<std::string>& arguments);

}  // namespace tutti::train
