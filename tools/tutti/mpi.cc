#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "tools/build_info.h"
#include "tools/tutti/commands.h"

namespace {

namespace fs = std::filesystem;

struct Abi {
  const char* name;  // of --mpi, and of the library
  const char* about;
};
constexpr Abi abis[] = {{"ompi", "Open MPI 4 and 5"},
                        {"mpich", "MPICH, Intel MPI and others of their ABI"},
                        {"abi", "the standard ABI of MPI 5"}};

// What a program that uses an MPI names as needed.
struct Needed {
  const char* library;
  const char* abi;
};
constexpr Needed needed[] = {{"libmpi_abi.so", "abi"},
                             {"libmpi.so.40", "ompi"},
                             {"libmpi.so.12", "mpich"},
                             {"libmpich.so.12", "mpich"}};

// What launchers say of themselves.
constexpr Needed said[] = {{"Open MPI", "ompi"},
                           {"OpenRTE", "ompi"},
                           {"Intel(R) MPI", "mpich"},
                           {"HYDRA", "mpich"},
                           {"MPICH", "mpich"}};

std::string find_in_path(const std::string& word) {
  std::error_code failed;
  if (word.find('/') != std::string::npos) return fs::is_regular_file(word, failed) ? word : "";
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + word;
    if (fs::is_regular_file(file, failed) && access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

// By the libraries that the program needs; "": it needs no MPI itself.
std::string abi_of_program(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!content.starts_with("\177ELF")) return {};
  for (const Needed& one : needed) {
    if (content.find(one.library) != std::string::npos) return one.abi;
  }
  return {};
}

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string abi_of_launcher(const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen((quoted(command) + " --version 2>/dev/null </dev/null").c_str(), "r"), pclose);
  std::string text;
  char buffer[4096];
  while (pipe && std::fgets(buffer, sizeof buffer, pipe.get()) != nullptr) text += buffer;
  for (const Needed& one : said) {
    if (text.find(one.library) != std::string::npos) return one.abi;
  }
  return {};
}

bool is_launcher(const std::string& word) {
  const std::string name = fs::path(word).filename().string();
  return name.starts_with("mpirun") || name.starts_with("mpiexec") || name == "prterun" ||
         name == "orterun";
}

// Beside the programs where they were built or installed.
std::string find_interposer(const std::string& abi) {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
  const std::string file = "libtutti-mpi-" + abi + ".so.0";
  std::error_code failed;
  for (const fs::path& place : {folder / "lib/adapters/mpi", folder / TUTTI_BUILD_LIBDIR}) {
    if (fs::exists(place / file, failed)) return fs::canonical(place / file, failed).string();
  }
  return {};
}

std::string allowed() {
  std::string out;
  for (const Abi& one : abis)
    out += (out.empty() ? "" : ", ") + std::string(one.name) + " (" + one.about + ")";
  return out;
}

void run(std::string abi, std::vector<std::string> command) {
  if (!command.empty() && command.front() == "--") command.erase(command.begin());
  if (command.empty()) refuse("mpi: which program? (tutti mpi -- mpirun -n RANKS PROGRAM)");
  if (find_in_path(command.front()).empty()) refuse("mpi: there is no program " + command.front());
  const bool launched = is_launcher(command.front());
  for (size_t i = launched ? 1 : 0; abi.empty() && i < command.size(); ++i) {
    const std::string file = find_in_path(command[i]);
    if (!file.empty()) abi = abi_of_program(file);
  }
  const std::string launcher_abi = launched ? abi_of_launcher(command.front()) : "";
  if (abi.empty()) abi = launcher_abi;
  if (abi.empty())
    refuse("mpi: cannot tell which MPI " + command.front() + " uses; --mpi names it: " + allowed());
  const std::string interposer = find_interposer(abi);
  if (interposer.empty()) {
    std::fprintf(stderr,
                 "tutti mpi: no interposer for %s was built: it needs that MPI's mpi.h (Debian: "
                 "libopenmpi-dev, libmpich-dev; then build again)\n",
                 abi.c_str());
    finish(1);
  }
  const char* const before = std::getenv("LD_PRELOAD");
  const std::string preload =
      interposer + (before != nullptr && *before != '\0' ? ":" + std::string(before) : "");
  setenv("LD_PRELOAD", preload.c_str(), 1);
  // To other hosts Open MPI takes only the variables that it is told to; the others' take all.
  if (launcher_abi == "ompi") command.insert(command.begin() + 1, {"-x", "LD_PRELOAD"});
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  execvp(words[0], words.data());
  std::fprintf(stderr, "tutti mpi: cannot run %s: %s\n", words[0], std::strerror(errno));
  finish(127);
}

}  // namespace

void add_mpi(CLI::App& app) {
  auto abi = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "mpi", "Runs an MPI program over tutti: tutti mpi -- mpirun -n RANKS PROGRAM [ARGUMENTS...]");
  command
      ->add_option("--mpi", *abi,
                   "whose binary interface the program was built for, where that cannot be told: " +
                       allowed())
      ->check(CLI::IsMember({"ompi", "mpich", "abi"}));
  command->prefix_command();
  command->callback([abi, command] { run(*abi, command->remaining()); });
}
