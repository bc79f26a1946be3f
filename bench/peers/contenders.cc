#include "bench/peers/contenders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/cores.h"
#include "bench/error.h"
#include "bench/launch.h"

namespace tutti::bench {
namespace {

namespace fs = std::filesystem;

// What a shell command prints; "" if it fails.
std::string output_of(const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((command + " 2>/dev/null").c_str(), "r"),
                                             pclose);
  std::string out;
  char buffer[4096];
  while (pipe && std::fgets(buffer, sizeof buffer, pipe.get())) out += buffer;
  return out;
}

bool in_path(const std::string& program) { return !output_of("command -v " + program).empty(); }

// The programs' sources are where this program was built from.
std::string build(const ContenderOptions& options, const Commandline& compiler,
                  const std::string& name, const Commandline& sources,
                  const Commandline& libraries = {}) {
  const fs::path root = TUTTI_SOURCE_ROOT;
  if (!fs::exists(root / "bench/peers/server.h"))
    throw Failure("the comparison builds small programs from tutti's sources, which are not at " +
                  root.string());
  const std::string program = (fs::path(options.folder) / ("peer-" + name)).string();
  Commandline command = compiler;
  for (const char* flag : {"-std=c++20", "-O2", "-w"}) command.emplace_back(flag);
  command.push_back("-I" + root.string());
  command.push_back("-I" + (root / "include").string());
  for (const std::string& source : sources) command.push_back((root / source).string());
  command.insert(command.end(), {"-o", program});
  command.insert(command.end(), libraries.begin(), libraries.end());
  if (run_command(command) != 0)
    throw Failure(
        fmt::format("building the program for {} failed: {}", name, fmt::join(command, " ")));
  return program;
}

Commandline with_checks(const std::string& source) {
  return {source, "bench/collectives.cc", "bench/oracle.cc"};
}

bool bind_ranks(const ContenderOptions& options) {
  return size_t(options.nranks) <= usable_cores().size();
}

Contender tutti_contender(const ContenderOptions& options, size_t team, bool symmetric) {
  Contender c{symmetric ? "tutti symmetric" : "tutti", Role::own, {}, {}, {}};
  std::vector<std::string> arguments{"peer-rank",        "--socket",           options.socket,
                                     "--team",           std::to_string(team), "--collective",
                                     options.collective, "--algorithm",        options.algorithm};
  if (symmetric) arguments.emplace_back("--symmetric");
  if (!options.transport.empty())
    arguments.insert(arguments.end(), {"--transport", options.transport});
  c.commands.push_back(run_ranks_command(options.nranks, arguments));
  c.settings = fmt::format("tutti run -n {}, algorithm {}{}", options.nranks, options.algorithm,
                           symmetric ? ", buffers of tutti_mem_alloc()" : "");
  return c;
}

Contender open_mpi(const ContenderOptions& options, const std::string& program, size_t team,
                   const std::string& name, const Commandline& extra) {
  Contender c{name, extra.empty() ? Role::peer : Role::forced, {}, {}, {}};
  Commandline command{"mpirun.openmpi", "-n", std::to_string(options.nranks)};
  if (bind_ranks(options))
    command.insert(command.end(), {"--bind-to", "core"});
  else
    command.insert(command.end(), {"--bind-to", "none", "--oversubscribe"});
  command.insert(command.end(), extra.begin(), extra.end());
  c.settings = fmt::format("{}", fmt::join(command, " "));
  command.insert(command.end(),
                 {program, options.socket, std::to_string(team), options.collective});
  c.commands.push_back(command);
  c.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  return c;
}

void add_open_mpi(const ContenderOptions& options, std::vector<Contender>& contenders,
                  std::vector<std::string>& notes) {
  if (!in_path("mpicxx.openmpi") || !in_path("mpirun.openmpi")) {
    notes.emplace_back("Open MPI is not here (Debian: openmpi-bin, libopenmpi-dev).");
    return;
  }
  const std::string program =
      build(options, {"mpicxx.openmpi"}, "openmpi", with_checks("bench/peers/mpi.cc"));
  contenders.push_back(open_mpi(options, program, contenders.size(), "Open MPI", {}));
  if (!options.forced) return;
  if (output_of("ompi_info --parsable").find("mca:pml:ucx:") == std::string::npos) {
    notes.emplace_back("Open MPI has no ucx component to force.");
    return;
  }
  const Commandline ucx{"--mca",
                        "pml",
                        "ucx",
                        "--mca",
                        "opal_common_ucx_tls",
                        "any",
                        "--mca",
                        "opal_common_ucx_devices",
                        "any"};
  contenders.push_back(open_mpi(options, program, contenders.size(), "Open MPI ucx", ucx));
  Commandline eager = ucx;
  eager.insert(eager.end(), {"-x", "UCX_RNDV_THRESH=inf"});
  contenders.push_back(open_mpi(options, program, contenders.size(), "Open MPI ucx-eager", eager));
}

void add_mpich(const ContenderOptions& options, std::vector<Contender>& contenders,
               std::vector<std::string>& notes) {
  if (!in_path("mpicxx.mpich") || !in_path("mpiexec.mpich")) {
    notes.emplace_back("MPICH is not here (Debian: mpich, libmpich-dev).");
    return;
  }
  const std::string program =
      build(options, {"mpicxx.mpich"}, "mpich", with_checks("bench/peers/mpi.cc"));
  Contender c{"MPICH", Role::peer, {}, {}, {}};
  Commandline command{"mpiexec.mpich", "-launcher", "fork", "-n", std::to_string(options.nranks)};
  if (bind_ranks(options)) command.insert(command.end(), {"-bind-to", "core"});
  c.settings = fmt::format("{}", fmt::join(command, " "));
  command.insert(command.end(),
                 {program, options.socket, std::to_string(contenders.size()), options.collective});
  c.commands.push_back(command);
  contenders.push_back(c);
}

void add_gloo(const ContenderOptions& options, std::vector<Contender>& contenders,
              std::vector<std::string>& notes) {
  if (options.collective != "allreduce") {
    notes.emplace_back("Gloo takes part in allreduce only.");
    return;
  }
  if (output_of("echo '#include <gloo/allreduce.h>' | g++ -std=c++20 -w -x c++ -M -").empty()) {
    notes.emplace_back("Gloo is not here (Debian: libgloo-dev).");
    return;
  }
  const std::string program =
      build(options, {"g++"}, "gloo", with_checks("bench/peers/gloo.cc"), {"-lgloo", "-lpthread"});
  Contender c{"Gloo", Role::peer, "tcp over loopback, its default ring", {}, {}};
  const std::string store = (fs::path(options.folder) / "gloo").string();
  fs::create_directory(store);
  for (int rank = 0; rank < options.nranks; ++rank)
    c.commands.push_back({program, options.socket, std::to_string(contenders.size()),
                          std::to_string(rank), std::to_string(options.nranks), store});
  contenders.push_back(c);
}

}  // namespace

std::vector<Contender> find_contenders(const ContenderOptions& options,
                                       std::vector<std::string>& notes) {
  std::vector<Contender> contenders{tutti_contender(options, 0, false),
                                    tutti_contender(options, 1, true)};
  const size_t own = contenders.size();
  add_open_mpi(options, contenders, notes);
  add_mpich(options, contenders, notes);
  add_gloo(options, contenders, notes);
  if (contenders.size() == own)
    throw Failure(fmt::format("nothing to compare with: {}", fmt::join(notes, " ")));
  return contenders;
}

}  // namespace tutti::bench
