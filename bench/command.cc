// `tutti-bench COLLECTIVE`: who runs the ranks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "bench/commands.h"
#include "bench/error.h"
#include "bench/gpu.h"
#include "bench/launch.h"
#include "bench/options.h"
#include "bench/rank.h"
#include "bench/report.h"
#include "bench/session.h"
#include "bench/transports.h"

namespace tutti::bench {
namespace {

void check_writable(const Options& options) {
  for (const std::string& name : {options.json, options.csv}) {
    if (name.empty() || name == "-") continue;
    if (!std::ofstream(name, std::ios::app))
      throw BadInput(fmt::format("cannot write to '{}'", name));
  }
}

int exit_status(uint64_t wrong) {
  if (wrong == 0) return 0;
  throw Failure(fmt::format("{} elements are wrong", wrong));
}

int as_rank(const Options& options) {
  if (options.gpu_threads) throw BadInput("--ranks-as threads: run it without a launcher");
  const auto& transports = options.transports;
  const auto threads = std::find_if(transports.begin(), transports.end(), joins_threads_only);
  if (threads != transports.end())
    throw BadInput(
        fmt::format("transport {} means ranks as threads: run it without a launcher", *threads));
  const Rank me = Rank::from_environment();
  check_ranks(options, me.nranks());
  std::unique_ptr<Report> report;
  if (me.first()) report = std::make_unique<Report>(options);
  const uint64_t wrong = run_session(options, me, report.get());
  return me.first() ? exit_status(wrong) : 0;
}

int as_threads(const Options& options) {
  tutti_unique_id id;
  require(tutti_unique_id_create(nullptr, &id), nullptr, "making an id");
  Report report(options);
  std::atomic<uint64_t> wrong{0};
  run_threads(options.nranks, [&](int rank) {
    const Rank me = Rank::from_id(id, rank, options.nranks);
    const uint64_t result = run_session(options, me, me.first() ? &report : nullptr);
    if (me.first()) wrong = result;
  });
  return exit_status(wrong);
}

// Must precede the loading of the driver: streams that share a hardware queue of the GPU would wait
// for each other (head-of-line blocking).
void give_threads_queues() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

int start_on_gpus(const Options& options, const std::vector<std::string>& arguments) {
  if (options.gpu_threads) give_threads_queues();
  gpu_of_rank(options.nranks - 1, options.nranks, options.ranks_a_gpu, count_gpus());
  if (options.gpu_threads) return as_threads(options);
  become(run_ranks_command(options.nranks, arguments));
}

int start(Options options, std::vector<std::string> arguments) {
  if (on_gpu(options.memory)) return start_on_gpus(options, arguments);
  std::string processes;
  std::vector<std::string> threads;
  for (const std::string& transport : options.transports) {
    if (joins_threads_only(transport))
      threads.push_back(transport);
    else
      processes += (processes.empty() ? "" : ",") + transport;
  }
  if (!processes.empty()) {
    arguments.push_back("--transport=" + processes);
    const auto command = run_ranks_command(options.nranks, arguments);
    if (threads.empty()) become(command);
    const int status = run_command(command);
    if (status != 0) return status;
    options.append = true;
  }
  options.transports = threads;
  return as_threads(options);
}

}  // namespace

Command add_collective(CLI::App& app, const Collective& collective) {
  auto options = std::make_shared<Options>(collective);
  CLI::App* command = app.add_subcommand(collective.name, collective.about);
  command->group("Collectives: their algorithms compared, every result checked");
  add_options(*command, *options);
  return [options](const std::vector<std::string>& arguments) {
    resolve(*options);
    if (launched()) return as_rank(*options);
    check_ranks(*options, options->nranks);
    check_writable(*options);
    return start(*options, arguments);
  };
}

}  // namespace tutti::bench
