// tutti-train: trains a model on several workers. See trainer/README.md.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "trainer/command_line.h"
#include "trainer/common/error.h"
#include "trainer/device/device.h"
#include "trainer/launch.h"
#include "trainer/plan.h"
#include "trainer/sync/replay.h"
#include "trainer/train.h"
#include "tutti/tutti.hpp"

namespace {

// Several ranks may fail at once: who says it helps.
void complain(const std::string& text) {
  const char* rank = std::getenv("TUTTI_RANK");
  const std::string who = rank ? std::string("rank ") + rank + ": " : "";
  std::fputs(("tutti-train: " + who + text + "\n").c_str(), stderr);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tutti::train;
  try {
    restart_with_one_thread(argv);
    const std::vector<std::string> arguments(argv, argv + argc);
    const Options options = parse_options(arguments);
    if (launched()) {
      train(options, arguments);
      return 0;
    }
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
    become_ranks(options.world(), options.transport, {arguments.begin() + 1, arguments.end()});
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
