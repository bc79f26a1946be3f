#include "trainer/sync/ways.h"

#include <fmt/format.h>

#include <stdexcept>
#include <variant>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/common/error.h"
#include "trainer/models/shape.h"
#include "trainer/parallel/optimizer.h"
#include "trainer/sync/list.h"

namespace tutti::train {

std::span<const SyncWay> sync_ways() {
#define TUTTI_ENTRY(way) ways::way(),
  static const SyncWay all[] = {TUTTI_SYNC_WAYS(TUTTI_ENTRY)};
#undef TUTTI_ENTRY
  return all;
}

const SyncWay* find_sync_way(const std::string& name) {
  for (const SyncWay& way : sync_ways())
    if (way.name == name) return &way;
  return nullptr;
}

const SyncWay& sync_way(const Options& o) {
  if (const SyncWay* way = find_sync_way(o.sync)) return *way;
  throw std::logic_error("no way to agree is called " + o.sync);
}

nlohmann::json model_of(const Options& o) {
  const Shape shape = shape_of(o);
  return {{"model", shape.name + ":" + shape.size},
          {"layers", shape.layers},
          {"width", shape.width},
          {"heads", shape.heads},
          {"context", shape.context},
          {"tokens", tokens_of(o.tokens)},
          {"dtype", o.dtype}};
}

void set_initial(const Options& o, const Data& data, Replica& replica) {
  if (o.init.empty()) return;
  const Checkpoint found = initial_checkpoint(o, model_of(o));
  if (!found.words.empty() && found.words != data.vocabulary().text())
    throw BadInput(fmt::format("--init: {0} has other tokens: --tokens {0}/{1} are its own",
                               found.folder, vocabulary_file));
  load_weights(found, o, replica.layout(), replica.device(), replica.bytes());
}

nlohmann::json identity_of(const Options& o) {
  nlohmann::json identity = model_of(o);
  identity.update({{"dropout", o.dropout},
                   {"seed", o.seed},
                   {"batch", o.batch},
                   {"optimizer", o.optimizer},
                   {"momentum", o.momentum},
                   {"weight-decay", o.weight_decay},
                   {"sync", o.sync},
                   {"level", o.level},
                   {"wire", o.wire},
                   {"topk", o.topk},
                   {"clip", o.clip ? nlohmann::json(*o.clip) : nlohmann::json()}});
  for (const auto& [name, value] : o.of_ways)
    std::visit([&, key = name.substr(2)](const auto& is) { identity[key] = is; }, value);
  if (!sync_way(o).sums_gradients) identity["dp"] = o.dp;
  return identity;
}

nlohmann::json settings_of(const Options& o) {
  return {{"steps", o.steps},
          {"lr", o.rate},
          {"warmup", o.warmup},
          {"decay", o.decay},
          {"min-lr", o.least_rate},
          {"precision", o.precision},
          {"shards", o.shards},
          {"dp", o.dp},
          {"tp", o.tp},
          {"pp", o.pp}};
}

size_t checkpoint_bytes(const Options& o, size_t parameters) {
  const size_t vectors = (1 + moments_of(o)) * size_t(sync_way(o).own_replicas ? o.dp : 1) +
                         size_t(o.topk > 0 ? o.dp : 0);
  return o.element_bytes() * parameters * vectors;
}

}  // namespace tutti::train
