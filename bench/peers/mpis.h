// The MPIs of this machine: Debian's, today's releases that tools/setup installs from PyPI, and
// that in PATH, each with its version.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tutti::bench {

struct Mpi {
  enum class Family { open_mpi, mpich, intel };
  Family family = Family::mpich;
  std::string name;                                              // "Open MPI 5.0.11"
  std::string compiler;                                          // of C++, a command
  std::string launcher;                                          // a command
  std::vector<std::pair<std::string, std::string>> environment;  // that both need
};

// `folder`: where tools/setup has put those of PyPI. An MPI that is found twice is listed once.
std::vector<Mpi> find_mpis(const std::string& folder);

// What a shell command prints; "" if it fails.
std::string output_of(const std::string& command);

}  // namespace tutti::bench
