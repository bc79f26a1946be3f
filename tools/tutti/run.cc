#include <cmath>
#include <cstdio>
#include <map>
#include <memory>

#include "lib/base/fault.h"
#include "lib/config/config.h"
#include "tools/launcher/launcher.h"
#include "tools/tutti/commands.h"

namespace {

using tutti::Bind;
using tutti::LocalJob;
using tutti::Status;

struct RunOptions {
  LocalJob job;
  double timeout_s = 0;
  std::string bind = "core";
  std::vector<std::string> faults;
};

// Of "rank 2 kill at call 100".
void add_fault(const std::string& text, LocalJob& job) {
  int rank = -1, read = 0;
  if (std::sscanf(text.c_str(), "rank %9d %n", &rank, &read) != 1 || read == 0)
    refuse("run: --fault '" + text +
           "': must be 'rank R kill at call N' or 'rank R stop at call N'");
  if (rank < 0 || rank >= job.nranks)
    refuse("run: --fault '" + text + "': ranks are 0 to " + std::to_string(job.nranks - 1));
  tutti::Fault fault;
  const Status known = tutti::parse_fault(text.substr(size_t(read)), &fault);
  if (!known.ok()) refuse("run: --fault: " + known.text());
  if (!job.faults.emplace(rank, text.substr(size_t(read))).second)
    refuse("run: --fault: rank " + std::to_string(rank) + " has two");
}

void run(RunOptions& options, std::vector<std::string> command) {
  static const std::map<std::string, Bind> binds{
      {"none", Bind::none}, {"core", Bind::core}, {"numa", Bind::numa}};
  LocalJob& job = options.job;
  if (!command.empty() && command.front() == "--") command.erase(command.begin());
  if (command.empty()) refuse("run: which program? (tutti run -n RANKS PROGRAM [ARGUMENTS...])");
  if (command.front().starts_with('-'))
    refuse("run: unknown option " + command.front() +
           " (allowed before the program: -n, --prefix, --transport, --interface, --timeout, "
           "--bind, --fault, --keep-going, --verbose)");
  job.command = std::move(command);
  job.timeout_ms = int64_t(std::ceil(options.timeout_s * 1000));
  job.bind = binds.at(options.bind);
  for (const std::string& fault : options.faults) add_fault(fault, job);

  int exit_status = 0;
  const Status status = run_local(job, &exit_status);
  if (status.code() == TUTTI_INVALID) refuse("run: " + status.text());
  if (!status.ok()) {
    std::fprintf(stderr, "tutti run: %s\n", status.text().c_str());
    finish(127);
  }
  if (exit_status != 0) finish(exit_status);
}

}  // namespace

void add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand(
      "run", "Starts ranks of a program on this host: tutti run -n RANKS PROGRAM [ARGUMENTS...]");
  command->add_option("-n", options->job.nranks, "number of ranks")
      ->required()
      ->check(CLI::Range(1, 4096));
  command->add_flag("--prefix", options->job.prefix, "put [rank] before every line of output");
  command->add_option("--transport", options->job.transports,
                      "allowed transports in order of preference (TUTTI_TRANSPORTS)");
  command->add_option("--interface", options->job.interface,
                      "network interface or address for tcp (TUTTI_INTERFACE)");
  command->add_option("--timeout", options->timeout_s, "end the job after so many seconds")
      ->check(CLI::Range(0.001, 1e9));
  command
      ->add_option("--bind", options->bind,
                   "where ranks may run: none (anywhere), core (a core each that neither another "
                   "job of tutti nor a busy program has; anywhere if there are too few of them; "
                   "shared evenly by more ranks than the machine has cores), numa (a node)")
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "core", "numa"}));
  command
      ->add_option("--fault", options->faults,
                   "fail on purpose: 'rank R kill at call N' or 'rank R stop at call N' of a "
                   "communicator; may be repeated for other ranks")
      ->type_size(1)
      ->allow_extra_args(false);
  command->add_flag(
      "--keep-going", options->job.keep_going,
      "a rank that a signal ends (a kill, a crash) does not end the others, which may "
      "go on by tutti_comm_shrink(); one that ends with a status still does");
  command->add_flag("--verbose", options->job.verbose,
                    "say on stderr which cores ranks have, or why none, and when they move");
  command->prefix_command();
  command->callback([options, command] { run(*options, command->remaining()); });
}
