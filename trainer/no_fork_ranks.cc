// Of a bundle's trainer, which is built without the launcher's sources (tools/packaging/trainer).
#include "trainer/common/error.h"
#include "trainer/launch.h"

namespace tutti::train {

bool can_fork_ranks(bool) { return false; }

int fork_ranks(int, const std::string&, bool, const std::function<int()>&) {
  throw Failure("this build cannot fork ranks");
}

}  // namespace tutti::train
