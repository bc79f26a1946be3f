#include "bench/peers/contenders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "bench/cores.h"
#include "bench/error.h"
#include "bench/launch.h"
#include "bench/peers/mpis.h"

namespace tutti::bench {
namespace {

namespace fs = std::filesystem;

// The program's path, "" if it cannot be built. Its sources are where this program was built from.
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
  return run_command(command) == 0 ? program : std::string();
}

Commandline with_checks(const std::string& source) {
  return {source, "bench/collectives.cc", "bench/oracle.cc"};
}

bool bind_ranks(const ContenderOptions& options) {
  return size_t(options.nranks) <= usable_cores().size();
}

// `memory`: as peer-rank has it; heap: its own, as all peers.
Contender tutti_contender(const ContenderOptions& options, size_t team, const std::string& memory) {
  const bool plain = memory == "heap";
  Contender c{plain ? "tutti" : "tutti " + memory, Role::own, {}, {}, {}};
  std::vector<std::string> arguments{
      "peer-rank",    "--socket",         options.socket, "--team",          std::to_string(team),
      "--collective", options.collective, "--algorithm",  options.algorithm, "--memory",
      memory};
  if (!options.transport.empty())
    arguments.insert(arguments.end(), {"--transport", options.transport});
  // The launcher would leave a core that another contender has to that one, though it sleeps now.
  c.commands.push_back(run_ranks_command(options.nranks, arguments, {"--bind", "none"}));
  c.settings = fmt::format("tutti run -n {}, bound as the others are, algorithm {}{}",
                           options.nranks, options.algorithm,
                           plain                 ? ""
                           : memory == "adopted" ? ", buffers given to tutti_mem_adopt()"
                                                 : ", buffers of tutti_mem_alloc()");
  return c;
}

// How an MPI's launcher starts ranks on this host, bound to cores where there are enough.
Commandline launch_command(const ContenderOptions& options, const Mpi& mpi) {
  Commandline command{mpi.launcher};
  const bool bind = bind_ranks(options);
  switch (mpi.family) {
    case Mpi::Family::open_mpi:
      if (bind)
        command.insert(command.end(), {"--bind-to", "core"});
      else
        command.insert(command.end(), {"--bind-to", "none", "--oversubscribe"});
      break;
    case Mpi::Family::mpich:
      command.insert(command.end(), {"-launcher", "fork"});
      if (bind) command.insert(command.end(), {"-bind-to", "core"});
      break;
    case Mpi::Family::intel:  // binds by itself
      command.insert(command.end(), {"-launcher", "fork"});
      break;
  }
  command.insert(command.end(), {"-n", std::to_string(options.nranks)});
  return command;
}

std::vector<std::pair<std::string, std::string>> environment_of(const Mpi& mpi) {
  auto environment = mpi.environment;
  if (mpi.family == Mpi::Family::open_mpi) {
    environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT", "1");
    environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  return environment;
}

Contender contender_of(const ContenderOptions& options, const Mpi& mpi, const std::string& program,
                       size_t team, const std::string& suffix = "", const Commandline& extra = {}) {
  Contender c{mpi.name + suffix, extra.empty() ? Role::peer : Role::forced, {}, {}, {}};
  Commandline command = launch_command(options, mpi);
  command.insert(command.end(), extra.begin(), extra.end());
  c.settings = fmt::format("{}", fmt::join(command, " "));
  const std::string folder = TUTTI_BUILD_ROOT "/";  // where it is says nothing to a reader
  if (c.settings.starts_with(folder)) c.settings.erase(0, folder.size());
  command.insert(command.end(),
                 {program, options.socket, std::to_string(team), options.collective});
  c.commands.push_back(command);
  c.environment = environment_of(mpi);
  return c;
}

// Open MPI does not take UCX's shared memory by itself.
void force_ucx(const ContenderOptions& options, const Mpi& mpi, const std::string& program,
               std::vector<Contender>& contenders, std::vector<std::string>& notes) {
  const fs::path launcher(mpi.launcher);
  const std::string info =
      launcher.has_parent_path() ? launcher.parent_path() / "ompi_info" : fs::path("ompi_info");
  if (output_of(info + " --parsable").find("mca:pml:ucx:") == std::string::npos) {
    notes.push_back(mpi.name + " has no ucx component to force.");
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
  contenders.push_back(contender_of(options, mpi, program, contenders.size(), " ucx", ucx));
  Commandline eager = ucx;
  eager.insert(eager.end(), {"-x", "UCX_RNDV_THRESH=inf"});
  contenders.push_back(contender_of(options, mpi, program, contenders.size(), " ucx-eager", eager));
}

void add_mpis(const ContenderOptions& options, std::vector<Contender>& contenders,
              std::vector<std::string>& notes) {
  const std::vector<Mpi> mpis = find_mpis(TUTTI_BUILD_ROOT "/peers");
  if (mpis.empty()) notes.emplace_back("No MPI is here (tools/setup peers installs some).");
  for (const Mpi& mpi : mpis) {
    Commandline compiler{"env"};
    for (const auto& [name, value] : mpi.environment) compiler.push_back(name + "=" + value);
    compiler.push_back(mpi.compiler);
    const std::string program = build(options, compiler, fmt::format("{}", contenders.size()),
                                      with_checks("bench/peers/mpi.cc"));
    if (program.empty()) {
      notes.push_back(
          fmt::format("{} is left out: {} cannot build its program.", mpi.name, mpi.compiler));
      continue;
    }
    contenders.push_back(contender_of(options, mpi, program, contenders.size()));
    if (options.forced && mpi.family == Mpi::Family::open_mpi)
      force_ucx(options, mpi, program, contenders, notes);
  }
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
  if (program.empty()) {
    notes.emplace_back("Gloo is left out: its program cannot be built.");
    return;
  }
  Contender c{"Gloo", Role::peer, "tcp over loopback, its default ring", {}, {}};
  const std::string store = (fs::path(options.folder) / "gloo").string();
  fs::create_directory(store);
  for (int rank = 0; rank < options.nranks; ++rank)
    c.commands.push_back({program, options.socket, std::to_string(contenders.size()),
                          std::to_string(rank), std::to_string(options.nranks), store});
  contenders.push_back(c);
}

// Where CCL_ROOT says that it is, as oneAPI's own scripts do, or where tools/setup installs it.
void add_oneccl(const ContenderOptions& options, std::vector<Contender>& contenders,
                std::vector<std::string>& notes) {
  static const std::set<std::string> collectives{"allreduce", "broadcast",      "reduce",
                                                 "allgather", "reduce_scatter", "alltoall"};
  if (!collectives.contains(options.collective)) {
    notes.push_back(fmt::format("oneCCL takes part in {} only.", fmt::join(collectives, ", ")));
    return;
  }
  const char* const named = std::getenv("CCL_ROOT");
  const bool by_name = named != nullptr && *named != 0;
  const fs::path place(by_name ? named : TUTTI_BUILD_ROOT "/peers/oneccl");
  if (!fs::exists(place / "include/oneapi/ccl.hpp")) {
    notes.push_back(by_name ? fmt::format("CCL_ROOT names {}, where no oneCCL is.", place.string())
                            : "oneCCL is not here (tools/setup oneccl installs it).");
    return;
  }
  // Its library finds what it loads itself by the program's RPATH alone.
  const std::string libraries = (place / "lib").string();
  const std::string program =
      build(options, {"g++", "-I" + (place / "include").string()}, "oneccl",
            with_checks("bench/peers/oneccl.cc"),
            {"-L" + libraries, "-l:libccl.so.1", "-Wl,-rpath," + libraries,
             "-Wl,--disable-new-dtags", "-Wl,--allow-shlib-undefined", "-lpthread"});
  if (program.empty()) {
    notes.emplace_back("oneCCL is left out: its program cannot be built.");
    return;
  }
  const auto add = [&](const std::string& name, Role role, const std::string& settings) -> auto& {
    Contender c{name, role, settings, {}, {}};
    const std::string store =
        fs::path(options.folder) / fmt::format("oneccl-{}", contenders.size());
    fs::create_directory(store);
    for (int rank = 0; rank < options.nranks; ++rank)
      c.commands.push_back({program, options.socket, std::to_string(contenders.size()),
                            options.collective, std::to_string(rank),
                            std::to_string(options.nranks), store});
    return contenders.emplace_back(std::move(c));
  };
  add("oneCCL", Role::peer, "its defaults, no launcher");
  if (options.forced)
    add("oneCCL no workers", Role::forced, "CCL_WORKER_OFFLOAD=0, no launcher").environment = {
        {"CCL_WORKER_OFFLOAD", "0"}};
}

}  // namespace

std::vector<Contender> find_contenders(const ContenderOptions& options,
                                       std::vector<std::string>& notes) {
  std::vector<Contender> contenders;
  for (const char* memory : {"heap", "symmetric", "adopted"})
    contenders.push_back(tutti_contender(options, contenders.size(), memory));
  const size_t own = contenders.size();
  add_mpis(options, contenders, notes);
  add_gloo(options, contenders, notes);
  add_oneccl(options, contenders, notes);
  if (contenders.size() == own)
    throw Failure(fmt::format("nothing to compare with: {}", fmt::join(notes, " ")));
  return contenders;
}

}  // namespace tutti::bench
