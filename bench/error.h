// The exceptions of the programs of this folder. The library itself never throws.
#pragma once

#include <stdexcept>
#include <string>

#include "tutti/tutti.h"

namespace tutti::bench {

// The user's input is not allowed: one line, exit status 2.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The measurement could not be made: one line, exit status 1.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws Failure with the library's own sentence unless `status` is OK. `comm` may be null.
inline void require(tutti_status status, tutti_comm comm, const char* what) {
  if (status == TUTTI_OK) return;
  std::string text = std::string(what) + ": " + tutti_status_name(status);
  tutti_error error{};
  if (comm && tutti_comm_last_error(comm, &error) == TUTTI_OK && error.text && error.text[0])
    text += std::string(": ") + error.text;
  else if (!comm && tutti_last_error()[0])
    text += std::string(": ") + tutti_last_error();
  throw Failure(text);
}

}  // namespace tutti::bench
