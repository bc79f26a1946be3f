// tutti-soak: random calls with known results, for as long as wanted. See README.md.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "bench/transports.h"
#include "tools/tutti-soak/ranks.h"
#include "tools/tutti-soak/soak.h"
#include "transports/registry.h"

namespace {

using tutti::soak::RankOptions;
using tutti::soak::SoakOptions;

void add_options(CLI::App& app, SoakOptions* soak) {
  app.add_option("--seconds", soak->seconds, "how long in all (default: 60, unless --calls)")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--calls", soak->calls, "how many calls in all, the same of every configuration");
  app.add_option("--transport", soak->transports,
                 "comma list; " + tutti::bench::thread_transport() + ": ranks are threads")
      ->delimiter(',')
      ->check(CLI::IsMember(tutti::transport_names()));
  app.add_option("--ranks", soak->ranks, "numbers of ranks, 2,3,4,8 for example")
      ->delimiter(',')
      ->check(CLI::Range(1, 128));
  app.add_option("--cores", soak->cores,
                 "own (a core for each rank, where there are enough), crowded (one for two)")
      ->delimiter(',')
      ->check(CLI::IsMember({"own", "crowded"}));
  app.add_option("--seed", soak->seed, "of the first stretch; the next has the next one");
  app.add_option("--stretch", soak->stretch_s,
                 "seconds that ranks live, with one seed (default: as the time allows, 15 at most)")
      ->check(CLI::Range(0.1, 1e6));
  app.add_option("--rounds", soak->rounds, "stretches of each configuration (default: no limit)");
  app.add_option("--from-step", soak->from_step, "where in the sequence of its seed each begins");
  app.add_option("--steps", soak->steps, "so many steps of it and no more");
  app.add_option("--timeout", soak->timeout_s, "limit of each call in seconds")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 1e6));
  app.add_option("--state", soak->state, "file from which an interrupted run goes on");
  app.add_option("--json", soak->json, "write the table to this file, too");
}

// Options that this program passes to itself when it starts ranks.
void add_rank_options(CLI::App& app, RankOptions* ranks) {
  app.add_option("--board", ranks->board)->group("");
  app.add_option("--as-threads", ranks->as_threads)->group("");
  app.add_option("--threads", ranks->threads)->group("");
}

int run(const SoakOptions& options, RankOptions ranks, bool limited) {
  if (ranks.board.empty()) {
    SoakOptions soak = options;
    if (!limited) soak.seconds = 60;
    return tutti::soak::Soak(soak).run();
  }
  ranks.timeout_s = options.timeout_s;
  ranks.work.seed = options.seed;
  ranks.work.from_step = options.from_step;
  ranks.work.steps = options.steps;
  ranks.work.seconds = options.stretch_s;
  return tutti::soak::run_ranks(ranks);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Makes random calls of tutti and checks every result.", "tutti-soak");
  SoakOptions soak;
  RankOptions ranks;
  add_options(app, &soak);
  add_rank_options(app, &ranks);
  try {
    app.parse(argc, argv);
    return run(soak, ranks, soak.seconds > 0 || soak.calls > 0 || soak.rounds > 0);
  } catch (const CLI::ParseError& end) {
    if (end.get_exit_code() == 0) return app.exit(end);
    std::fprintf(stderr, "tutti-soak: %s\n", end.what());
    return 2;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "tutti-soak: %s\n", failure.what());
    return 1;
  }
}
