// `tutti tune`: measures what decides on this machine, and leaves a tuning table where
// communicators find it.
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/types.h"
#include "lib/config/config.h"
#include "lib/config/find_tuning.h"
#include "lib/config/launch.h"
#include "lib/control/bootstrap.h"
#include "lib/tuning/file.h"
#include "lib/tuning/machine.h"
#include "tools/launcher/launcher.h"
#include "tools/tutti/commands.h"
#include "tools/tutti/tuner.h"
#include "transports/registry.h"

namespace {

using tutti::Status;

struct TuneOptions {
  std::optional<int> nranks;  // 2, or those of the job that this process is a rank of
  std::vector<std::string> transports = {"shm"};
  double seconds = 120;
  std::string output;
  bool dry_run = false;
};

// On a terminal a bar, else a line now and then.
class Meter {
 public:
  void show(double done, const std::string& what) {
    const uint64_t now = tutti::now_ns();
    if (terminal_) {
      constexpr size_t cells = 30;
      const auto full = std::min(cells, size_t(done * double(cells)));
      fmt::print(stderr, "\r\033[K[{}{}] {:3.0f} %  {}", std::string(full, '#'),
                 std::string(cells - full, '.'), 100 * done, what);
    } else if (now >= next_ns_) {
      fmt::print(stderr, "tuning: {:.0f} %, {}\n", 100 * done, what);
      next_ns_ = now + period_ns;
    }
    std::fflush(stderr);
  }
  void clear() const {
    if (terminal_) fmt::print(stderr, "\r\033[K");
  }

 private:
  static constexpr uint64_t period_ns = 15'000'000'000;
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  uint64_t next_ns_ = tutti::now_ns() + period_ns;
};

int fail(const std::string& sentence) {
  fmt::print(stderr, "tutti tune: {}\n", sentence);
  return 1;
}

void print(const tutti::tune::Result& result) {
  fmt::print("{}\n\n", tutti::this_machine().about);
  for (const std::string& line : result.found) fmt::print("  {}\n", line);
  fmt::print("\n  {:<14}{:>10}{:>14}{:>14}{:>10}\n", "", "bytes", "before, us", "after, us",
             "ratio");
  for (const tutti::tune::Comparison& one : result.compared) {
    fmt::print("  {:<14}{:>10}{:>14.3g}{:>14.3g}{:>10.2f}\n", collective_name(one.collective),
               one.bytes, one.before_us, one.after_us, one.after_us / one.before_us);
  }
  fmt::print("\nWith the table calls take {:.2f} of the time before (geometric mean).\n",
             result.change);
}

// What the file has that this run has not measured stays: that of other transports, and what
// somebody wants.
void keep_others(const std::string& path, tutti::TuningTable* table) {
  tutti::TuningTable before, all = *table;
  if (!std::filesystem::exists(path) || !tutti::read_tuning(path, &before).ok()) return;
  if (before.machine != table->machine) return;
  for (size_t i = 0; i < tutti::field_count; ++i) {
    const auto field = tutti::Field(i);
    if (table->origin(field) == tutti::Origin::initial)
      all.set(field, get(before.values(), field), before.origin(field));
  }
  std::array<tutti::Field, 2> clash{};
  if (why_not(all.values(), &clash).empty()) *table = all;
}

// What the first rank does with the result; the exit status.
int keep(tutti::tune::Result result, const TuneOptions& options, bool launched) {
  print(result);
  if (!options.output.empty()) keep_others(options.output, &result.table);
  if (options.dry_run) {
    fmt::print("Nothing was written (--dry-run). The table would be:\n{}",
               tutti::print_tuning(result.table));
    return 0;
  }
  constexpr double no_worse = 1.02;
  if (result.change > no_worse) {
    return fail(
        "what was found is slower than what holds without a table, so nothing was written; was "
        "the machine busy?");
  }
  const Status written = tutti::write_tuning(result.table, options.output);
  if (!written.ok()) return fail(written.text());
  fmt::print("Tuning table {} written to {}\n", result.table.id(), options.output);
  if (launched)
    fmt::print("Give it to all ranks of a job, also on other hosts, by TUTTI_TUNING.\n");
  return 0;
}

Status join(const tutti::Launch& launch, const tutti::CommSettings& settings,
            std::unique_ptr<tutti::Exchange>* out) {
  const uint64_t deadline_ns = tutti::deadline_after_ms(settings.setup_ms);
  const uint64_t heartbeat_ns = tutti::ns_of_ms(settings.heartbeat_ms);
  if (launch.by == tutti::Launch::By::rendezvous) {
    return tutti::join_rendezvous_at({launch.host, launch.port, settings.interface},
                                     launch.key_file, launch.rank, launch.nranks, deadline_ns,
                                     heartbeat_ns, out);
  }
  return join_rendezvous(launch.id, tutti::Fd(launch.listen_fd), launch.rank, launch.nranks,
                         deadline_ns, heartbeat_ns, out);
}

// In the process of each rank; its exit status.
int run_rank(const TuneOptions& options, bool launched) {
  tutti::Launch launch;
  std::unique_ptr<tutti::Exchange> exchange;
  std::unique_ptr<tutti::Communicator> world;
  tutti::CommSettings settings;
  settings.transports = options.transports;
  settings.transports_named = true;
  settings.tuning.machine = tutti::this_machine().about;
  tutti::tune::Result result;
  Meter meter;
  const auto measure = [&]() -> Status {
    TUTTI_TRY(read_launch(&launch));
    std::optional<std::string> interface;
    TUTTI_TRY(config_text(tutti::Variable::tutti_interface, &interface));
    settings.interface = interface.value_or("");
    TUTTI_TRY(join(launch, settings, &exchange));
    TUTTI_TRY(tutti::Communicator::create(std::move(exchange), settings, &world));
    return tutti::tune::tune(
        *world, settings, options.seconds,
        [&](double done, const std::string& what) { meter.show(done, what); }, &result);
  };
  const Status measured = measure();
  if (launch.rank != 0) return measured.ok() ? 0 : 1;
  meter.clear();
  return measured.ok() ? keep(result, options, launched) : fail(measured.text());
}

void run(TuneOptions options) {
  tutti::Launch launch;
  if (const Status status = read_launch(&launch); !status.ok()) finish(fail(status.text()));
  const bool launched = launch.by != tutti::Launch::By::nobody;
  if (launched && options.nranks.has_value())
    refuse("tune: -n says nothing here, this process is a rank of a job of its own");
  if (launched && launch.nranks < 2) refuse("tune: a job of one rank has nobody to exchange with");
  if (!options.dry_run && launch.rank == 0) {
    if (options.output.empty()) options.output = tutti::own_tuning_path();
    if (options.output.empty()) {
      refuse("tune: neither XDG_CACHE_HOME nor HOME names a folder; say where with --output FILE");
    }
    // Before the minutes, not after them.
    const auto folder = std::filesystem::absolute(options.output).parent_path();
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error || access(folder.c_str(), W_OK) != 0) {
      refuse("tune: cannot write to the folder " + folder.string());
    }
  }
  if (launched) finish(run_rank(options, launched));
  tutti::LocalJob job;
  job.nranks = options.nranks.value_or(2);
  job.function = [&options] { return run_rank(options, false); };
  int exit_status = 0;
  const Status status = run_local(job, &exit_status);
  if (!status.ok()) finish(fail(status.text()));
  if (exit_status != 0) finish(exit_status);
}

}  // namespace

void add_tune(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* command = app.add_subcommand(
      "tune", "Measures this machine and writes a tuning table where communicators find it");
  command
      ->add_option(
          "-n", options->nranks,
          "number of ranks to measure with; default: 2, or those of the job that runs this")
      ->check(CLI::Range(2, 64));
  std::vector<std::string> between_processes;
  for (const tutti::Transport* transport : tutti::transports()) {
    if (transport->reach != tutti::Transport::Reach::process)
      between_processes.emplace_back(transport->name);
  }
  command
      ->add_option(
          "--transport", options->transports,
          "how the ranks exchange: shm, or tcp for example, by commas; links between hosts "
          "are measured by a job with ranks on them")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember(between_processes));
  command->add_option("--seconds", options->seconds, "about how long it may take")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 86'400.0));
  command->add_option("--output", options->output,
                      "the file to write, instead of the one in the cache folder");
  command->add_flag("--dry-run", options->dry_run, "write nothing, print the table");
  command->callback([options] { run(*options); });
}
