// Forwards a rank's output, whole lines only, each prefixed with the rank.
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

  // Forwards the lines read so far; at the end of the input also a last line without a newline.
  void pump();
  // Forwards what has been read and reads no more.
  void close();

 private:
  void pass_on();

  Fd from_;
  int to_;
  std::string tag_;
  std::string pending_;
};

}  // namespace tutti
