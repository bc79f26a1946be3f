#include "lib/schedule/levels.h"

#include <map>
#include <mutex>
#include <tuple>

#include "lib/schedule/prove.h"

namespace tutti::schedule {

bool Levels::hold(tutti_level level) const {
  switch (level) {
    case TUTTI_LEVEL_LAYOUT:
      return layout;
    case TUTTI_LEVEL_CANONICAL:
      return canonical;
    case TUTTI_LEVEL_EXACT:
      return exact;
    default:
      return fast;
  }
}

Levels derive_levels(const Algorithm& algorithm, Shape shape) {
  shape.bracketing = Bracketing::left;
  const Verdict left = prove(algorithm, shape);
  Levels levels;
  levels.fast = left.sound();
  levels.layout = left.sound() && left.position_independent;
  levels.exact = levels.layout && left.one_fold;
  if (!levels.layout) return levels;
  shape.bracketing = Bracketing::canonical;
  const Verdict canonical = prove(algorithm, shape);
  levels.canonical = canonical.sound() && canonical.canonical;
  return levels;
}

Levels levels_of(const Algorithm& algorithm, const Shape& shape) {
  static std::mutex mutex;
  static std::map<std::tuple<const Algorithm*, uint32_t, uint32_t, uint32_t>, Levels> known;
  const std::tuple key(&algorithm, shape.nranks, shape.root, shape.radix);
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = derive_levels(algorithm, shape);
}

}  // namespace tutti::schedule
