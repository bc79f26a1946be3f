// Which cores there are, and binding to one.
#pragma once

#include <vector>

namespace tutti::bench {

// CPUs that this process may be bound to, one for each core, whatever its binding is now.
const std::vector<int>& usable_cores();

// Binds the calling thread; false if the system refuses.
bool bind_to_cpu(int cpu);

// Binds the calling thread to a core of the rank's own, or, of more ranks than cores, to one that
// is shared evenly.
void bind_rank(int rank, int nranks);

// CPUs that the calling thread is bound to.
std::vector<int> bound_cpus();

}  // namespace tutti::bench
