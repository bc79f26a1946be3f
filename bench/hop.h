// The time a flag takes from one core to another, which decides all small messages.
#pragma once

namespace tutti::bench {

// Two threads of this process, pinned to two cores, pass a cache line back and forth; half of a
// round trip, in ns. 0 where there are no two cores. Whoever else runs on them disturbs it, so the
// other ranks must sleep. Takes about 0.2 ms.
double measure_hop_ns();

}  // namespace tutti::bench
