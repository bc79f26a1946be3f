// Tuning tables as files: versioned JSON.
//   {"tutti_tuning": 1,                 the version of the format
//    "id": "0123456789abcdef",          what TuningTable::id() says; may be left out
//    "machine": "...",                  the kind of machine that it is for, in words
//    "measured": {"spins": 75, ...},    fields by name, as `tutti tune` has measured them
//    "set": {"past_caches": "never"}}   fields as somebody wants them
// What is left out has its default.
#pragma once

#include <string>
#include <string_view>

#include "lib/tuning/tuning.h"

namespace tutti {

constexpr int tuning_version = 1;

// INVALID, with the line and the reason, for what is no such text, and for fields that do not
// exist, have the wrong type, cannot have the value or cannot work together; *out is then
// unchanged. `name` is what the sentence calls the text. `*version`, if not null: what it says,
// also where that is not this one; 0 unless it is known.
Status parse_tuning(std::string_view text, const std::string& name, TuningTable* out,
                    int* version = nullptr);
std::string print_tuning(const TuningTable& table);

// The same for a file; INVALID also where it cannot be read.
Status read_tuning(const std::string& path, TuningTable* out, int* version = nullptr);
// Replaces the file as a whole, so that nobody reads half of it. Makes the folder, not those above.
Status write_tuning(const TuningTable& table, const std::string& path);

}  // namespace tutti
