// tutti-train: trains a model on several workers. See trainer/README.md.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/command_line.h"
#include "trainer/common/error.h"
#include "trainer/data/data.h"
#include "trainer/device/device.h"
#include "trainer/launch.h"
#include "trainer/models/replica.h"
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
  } catch (const std::exception& error) {
    complain(error.what());
    std::_Exit(1);  // other threads may still wait for ranks
  }
}

// Without the destructors of LibTorch's tables of operators: those take longer than a short run,
// and in a fork they copy every page that they touch.
[[noreturn]] void leave(int status) {
  std::fflush(nullptr);
  std::_Exit(status);
}

// The options with the checkpoint's model.
Options with_model(Options o, const Checkpoint& found) {
  try {
    const nlohmann::json& model = found.identity;
    o.model = model.at("model").get<std::string>();
    o.dtype = model.at("dtype").get<std::string>();
    for (const auto& [name, to] : {std::pair("layers", &o.layers), std::pair("width", &o.width),
                                   std::pair("heads", &o.heads), std::pair("context", &o.context)})
      if (const auto value = model.at(name).get<int64_t>(); value > 0) *to = value;
    if (const auto tokens = model.at("tokens").get<size_t>(); tokens > Vocabulary::bytes)
      o.tokens = std::to_string(tokens);
  } catch (const nlohmann::json::exception&) {
    throw BadInput(fmt::format("--init: {}: checkpoint.json is damaged", found.folder));
  }
  if (!family_of(o.model_name()).continues_texts)
    throw BadInput(fmt::format("--generate: {} has the model {}, which writes no text",
                               found.folder, o.model_name()));
  return o;
}

// --generate: the continuation of --prompt by the model of --init's checkpoint.
std::string generated(const Options& asked, const Device& device) {
  use_threads(asked.threads);
  const Checkpoint found = initial_checkpoint(asked, nlohmann::json::object());
  if (found.identity.empty())
    throw BadInput(
        fmt::format("--generate: {} does not say of which model it is; a checkpoint of "
                    "a run does",
                    found.folder));
  const Options o = with_model(asked, found);
  // A model of text is made without looking at data.
  Replica replica(shape_of(o), *make_noise(), o.seed, {}, device);
  load_weights(found, o, replica.layout(), device, replica.bytes());
  return replica.generate(Vocabulary::parsed(found.words, found.folder), o.prompt, *o.generate,
                          o.seed);
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
    if (launched() || options.join) return as_rank(options, arguments, false);
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
      become_ranks(options.world(), options.transport, options.elastic,
                   {arguments.begin() + 1, arguments.end()});
    return fork_ranks(options.world(), options.transport, options.elastic,
                      [&]() -> int { leave(as_rank(options, arguments, true)); });
  }));
}
