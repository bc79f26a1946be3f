// The hop: the time a flag takes from one core to another, which dominates the latency of small
// messages.
#pragma once

namespace tutti::bench {

// Two threads of this process, pinned to two cores, pass a cache line back and forth; half of a
// round trip, in ns. 0 where there are no two cores. Other threads on these cores disturb it, so
// the other ranks must sleep. Takes about 0.2 ms.
double measure_hop_ns();

}  // namespace tutti::bench
