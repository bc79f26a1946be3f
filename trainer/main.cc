// tutti-train: trains a model on several workers. See trainer/README.md.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "trainer/command_line.h"
#include "trainer/common/error.h"
#include "trainer/device/device.h"
#include "trainer/generate.h"
#include "trainer/launch.h"
#include "trainer/plan.h"
#include "trainer/report/screen.h"
#include "trainer/sync/replay.h"
#include "trainer/train.h"
#include "tutti/tutti.hpp"

using namespace tutti::train;

namespace {

// Several ranks may fail at once, so the rank is named.
void complain(const std::string& text) {
  if (text.empty()) return;  // another rank says it
  const char* rank = std::getenv("TUTTI_RANK");
  const std::string who = rank ? std::string("rank ") + rank + ": " : "";
  std::fputs(("tutti-train: " + who + text + "\n").c_str(), stderr);
}

// Runs it; what it throws becomes a sentence on stderr and an exit status.
int guarded(const std::function<int()>& run) {
  try {
    return run();
  } catch (const BadInput& error) {
    complain(error.what());
    return 2;
  } catch (const tutti::error& error) {
    complain(error.what());
    std::_Exit(1);  // other threads may still wait for ranks
  } catch (const std::exception& error) {
    complain(error.what());
    std::_Exit(1);
  }
}

// Without the destructors of LibTorch's tables of operators: those take longer than a short run,
// and in a fork they copy every page that they touch.
[[noreturn]] void leave(int status) {
  std::fflush(nullptr);
  std::_Exit(status);
}

// What a rank of the run does. The exit status.
int as_rank(const Options& options, const std::vector<std::string>& arguments, bool prepared) {
  return guarded([&] { return train(options, arguments, prepared); });
}

}  // namespace

int main(int argc, char** argv) {
  leave(guarded([&] {
    const std::vector<std::string> arguments = with_config({argv, argv + argc});
    const Options options = parse_options(arguments);
    restart_with_threads(options.threads, argv);
    if (options.generate) {
      const Device device = Device::open(options.device, local_rank());
      std::puts(printable(generated(options, device)).c_str());
      return 0;
    }
    if (launched()) return as_rank(options, arguments, false);
    if (!options.replay.empty()) {
      const ServerLog log = read_log(options.replay);
      const Options run = parse_options(log.arguments);
      const Device device = Device::open(run.device, local_rank());
      std::printf("replayed, bit for bit: parameters %s\n", replay(log, run, device).c_str());
      return 0;
    }
    prepare(options);
    if (options.dry_run) {
      show_plan(options);
      return 0;
    }
    if (!can_fork_ranks(Device::names_gpu(options.device)))
      become_ranks(options.world(), options.transport, {arguments.begin() + 1, arguments.end()});
    return fork_ranks(options.world(), options.transport,
                      [&]() -> int { leave(as_rank(options, arguments, true)); });
  }));
}
