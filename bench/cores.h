// Which cores there are, and binding to one.
#pragma once

#include <vector>

namespace tutti::bench {

// CPUs that this process may be bound to, one for each core, whatever its binding is now.
const std::vector<int>& usable_cores();

// Binds the calling thread; false if the system refuses.
bool bind_to_cpu(int cpu);

// CPUs that the calling thread is bound to.
std::vector<int> bound_cpus();

}  // namespace tutti::bench
