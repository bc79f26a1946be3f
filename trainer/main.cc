// tutti-train: trains a model on several workers. See trainer/README.md.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "trainer/common/error.h"
#include "trainer/launch.h"
#include "trainer/plan.h"
#include "trainer/sync/server.h"
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
    const Options options = parse_options(argc, argv);
    if (launched()) {
      train(options, {argv, argv + argc});
      return 0;
    }
    if (!options.replay.empty()) {
      std::printf("replayed, bit for bit: parameters %s\n", replay(options.replay).c_str());
      return 0;
    }
    prepare(options);
    if (options.dry_run) {
      show_plan(options);
      return 0;
    }
    become_ranks(options.world(), options.transport, {argv + 1, argv + argc});
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
