// Where processes leave their records that no launcher and no user has given a folder: one of each
// user's own on the host, in memory.
#pragma once

#include <string>

#include "lib/base/status.h"

namespace tutti::record {

// Its path, whether or not it is there. `base`: the folder in which it lies; "": /dev/shm, or /tmp
// where there is none.
std::string own_folder(const std::string& base = "");

// Makes it, and removes what has lain there for long: a record whose process has ended is marked
// (by its mode) when this sees it first, and goes a day after that, or sooner where there are many.
// Not OK: it is not this user's alone, or cannot be made.
Status make_own_folder(const std::string& path);

}  // namespace tutti::record
