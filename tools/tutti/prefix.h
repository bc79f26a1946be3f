// Passes on what a rank prints, whole lines only, each with the rank in front.
#pragma once

#include <string>

#include "lib/base/fd.h"

namespace tutti {

class Prefixer {
 public:
  // Reads from `from` (which must not block), writes to the descriptor `to`.
  Prefixer(Fd from, int to, int rank);

  int fd() const { return from_.get(); }
  bool open() const { return bool(from_); }

  // Passes on what has come. At the end of the input, a last line without its newline too.
  void pump();
  // Passes on what has come and takes no more.
  void close();

 private:
  void pass_on();

  Fd from_;
  int to_;
  std::string tag_;
  std::string pending_;
};

}  // namespace tutti
