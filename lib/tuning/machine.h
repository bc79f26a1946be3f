// What kind of machine this is: hosts with the same processor, as many cores and the same caches
// are tuned alike.
#pragma once

#include <string>

namespace tutti {

struct MachineKind {
  std::string
      about;       // "Intel(R) Xeon(R) Processor, family 6, model 207; 2 cores; caches 48 KiB, ..."
  std::string id;  // 12 hexadecimal digits that follow from it
};

// The first call reads files.
const MachineKind& this_machine();

}  // namespace tutti
