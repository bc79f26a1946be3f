#include "trainer/generate.h"

#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/common/error.h"
#include "trainer/data/sources.h"
#include "trainer/models/replica.h"

namespace tutti::train {
namespace {

// The options with the checkpoint's model.
Options with_model(Options o, const Checkpoint& found) {
  try {
    const nlohmann::json& model = found.identity;
    o.model = model.at("model").get<std::string>();
    o.dtype = model.at("dtype").get<std::string>();
    const auto take = [&model](const char* name, std::optional<int64_t>& to) {
      if (const auto value = model.at(name).get<int64_t>(); value > 0) to = value;
    };
    take("layers", o.layers);
    take("width", o.width);
    take("heads", o.heads);
    take("context", o.context);
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

}  // namespace

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
  return replica.generate(Vocabulary::parsed(found.vocabulary, found.folder), o.prompt, *o.generate,
                          o.seed);
}

}  // namespace tutti::train
