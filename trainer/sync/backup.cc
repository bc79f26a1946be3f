// Backup workers (Chen et al. 2016): a step takes the first gradients, all but --backup of them,
// and drops the others. With several servers, server 0 tells the others which gradients came first.
#include <fmt/format.h>

#include "trainer/common/checks.h"
#include "trainer/sync/list.h"
#include "trainer/sync/server_ranks.h"

namespace tutti::train {
namespace {

int64_t spare(const Options& o) { return o.of_way<int64_t>("--backup"); }

}  // namespace

SyncWay ways::backup() {
  SyncWay way = server_way("backup", [](const Options& o) {
    return ServerRule{.needed = o.dp - int(spare(o)), .steps = o.steps, .agreed_order = true};
  });
  way.options = {
      {"--backup", "of backup: workers whose gradients a step does not wait for", int64_t{1}}};
  way.common_steps = false;
  way.check = [](const Options& o) {
    within("--backup", double(spare(o)), 0, o.dp);
    if (spare(o) >= o.dp)
      throw BadInput(fmt::format("--backup {} leaves none of --dp {} workers", spare(o), o.dp));
  };
  return way;
}

}  // namespace tutti::train
