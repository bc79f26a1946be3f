#include "trainer/sync/ways.h"

#include <algorithm>
#include <stdexcept>
#include <variant>

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

nlohmann::json identity_of(const Options& o) {
  nlohmann::json identity = {{"model", o.model},       {"layers", o.layers},
                             {"width", o.width},       {"heads", o.heads},
                             {"context", o.context},   {"dropout", o.dropout},
                             {"seed", o.seed},         {"batch", o.batch},
                             {"shards", o.shards},     {"optimizer", o.optimizer},
                             {"lr", o.rate},           {"warmup", o.warmup},
                             {"momentum", o.momentum}, {"weight-decay", o.weight_decay},
                             {"sync", o.sync},         {"level", o.level},
                             {"wire", o.wire},         {"topk", o.topk},
                             {"dtype", o.dtype},       {"clip", o.clip}};
  for (const auto& [name, value] : o.of_ways)
    std::visit([&](const auto& is) { identity[name.substr(2)] = is; }, value);
  if (!sync_way(o).sums_gradients) identity["dp"] = o.dp;
  return identity;
}

size_t checkpoint_bytes(const Options& o, size_t parameters) {
  const size_t vectors = (1 + moments_of(o)) * size_t(sync_way(o).own_replicas ? o.dp : 1) +
                         size_t(o.topk > 0 ? o.dp : 0);
  return o.element_bytes() * parameters * vectors;
}

}  // namespace tutti::train
