// Which tuning table holds: the one that TUTTI_TUNING names; else, for this kind of machine, the
// one that `tutti tune` left in the user's cache folder; else the installed one; else the defaults.
#pragma once

#include <string>

#include "lib/tuning/tuning.h"

namespace tutti {

// The table of the file `named`; "none": the defaults; "measure": the defaults, for communicators
// that measure. INVALID where it is none.
Status read_named_tuning(const std::string& named, TuningTable* out);

// INVALID where a file that should be read is no tuning table. One that was found, but is of
// another version of the format, is passed over, and the log told.
Status find_tuning(TuningTable* out);

// Where `tutti tune` writes and find_tuning() looks, for this kind of machine:
// $XDG_CACHE_HOME/tutti/tuning-ID.json, or ~/.cache instead of that; empty where neither
// XDG_CACHE_HOME nor HOME is an absolute path.
std::string own_tuning_path();
// The same below the folder for data that the library was configured with.
std::string installed_tuning_path();

}  // namespace tutti
