#include "bench/peers/mpis.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <regex>

namespace tutti::bench {
namespace {

namespace fs = std::filesystem;

struct Candidate {
  std::string compiler, launcher;  // in PATH, or paths
};

// Absolute, without links; "" if there is no such command.
std::string place_of(const std::string& command) {
  std::string path = output_of("command -v " + command);
  path.erase(std::remove(path.begin(), path.end(), '\n'), path.end());
  std::error_code failed;
  const fs::path place = fs::canonical(path, failed);
  return failed ? std::string() : place.string();
}

// By what its launcher says of itself; false if that is no MPI which is known here.
bool identify(const std::string& said, Mpi* mpi) {
  struct Known {
    const char* words;
    Mpi::Family family;
    const char* name;
  };
  static constexpr Known known[] = {{"Open MPI", Mpi::Family::open_mpi, "Open MPI"},
                                    {"OpenRTE", Mpi::Family::open_mpi, "Open MPI"},
                                    {"Intel(R) MPI", Mpi::Family::intel, "Intel MPI"},
                                    {"HYDRA", Mpi::Family::mpich, "MPICH"}};
  std::smatch version;
  if (!std::regex_search(said, version, std::regex(R"((\d+\.\d+(\.\d+)?))"))) return false;
  for (const Known& one : known) {
    if (said.find(one.words) == std::string::npos) continue;
    mpi->family = one.family;
    mpi->name = one.name + (" " + version.str());
    return true;
  }
  return false;
}

}  // namespace

std::string output_of(const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((command + " 2>/dev/null").c_str(), "r"),
                                             pclose);
  std::string out;
  char buffer[4096];
  while (pipe && std::fgets(buffer, sizeof buffer, pipe.get())) out += buffer;
  return out;
}

std::vector<Mpi> find_mpis(const std::string& folder) {
  std::vector<Candidate> candidates{{"mpicxx.openmpi", "mpirun.openmpi"},
                                    {"mpicxx.mpich", "mpiexec.mpich"},
                                    {"mpicxx", "mpiexec"}};
  for (const char* name : {"openmpi", "mpich", "impi"}) {
    const std::string programs = folder + "/" + name + "/bin/";
    candidates.push_back({programs + "mpicxx", programs + "mpiexec"});
  }
  std::vector<Mpi> found;
  std::vector<std::string> places;
  for (const Candidate& c : candidates) {
    const std::string place = place_of(c.launcher);
    if (place.empty() || place_of(c.compiler).empty()) continue;
    if (std::find(places.begin(), places.end(), place) != places.end()) continue;
    places.push_back(place);
    Mpi mpi;
    mpi.compiler = c.compiler;
    mpi.launcher = c.launcher;
    if (!identify(output_of(c.launcher + " --version"), &mpi)) continue;
    // Its scripts do not know where they were installed.
    if (mpi.family == Mpi::Family::intel)
      mpi.environment = {{"I_MPI_ROOT", fs::path(place).parent_path().parent_path().string()}};
    const auto same = std::count_if(found.begin(), found.end(), [&](const Mpi& other) {
      return other.name.substr(0, mpi.name.size()) == mpi.name;
    });
    if (same > 0) mpi.name += " (" + std::to_string(same + 1) + ")";
    found.push_back(std::move(mpi));
  }
  return found;
}

}  // namespace tutti::bench
