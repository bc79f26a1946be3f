// Starting ranks: this very program, by `tutti run`.
#pragma once

#include <string>
#include <vector>

namespace tutti::train {

// This rank's number among those on its host, as launchers say; 0 where there is none.
int local_rank();

// Whether a launcher has started this process as a rank.
bool launched();

// Mathematical libraries read how many threads they may use when they are loaded: where the
// environment does not say, it is set to one and the program starts again.
void restart_with_one_thread(char** argv);

// Becomes `tutti run -n nranks` of this program with these arguments; throws Failure where it
// cannot.
[[noreturn]] void become_ranks(int nranks, const std::string& transport,
                               const std::vector<std::string>& arguments);

}  // namespace tutti::train
