// Memory of the program whose whole pages are shared, in place: the same content at the same
// address, in a mapping that other processes can have too. Given back at the end of its owner: the
// pages are private again, their content stays. Or left: a mapping that nobody else has any more.
//
// No page is ever missing for who reads it: the content is copied, and then the mapping is replaced
// in one step. What is written between the two would be lost, so nobody may write while memory is
// adopted or given back. fork() needs no such rule: the pages stay as they are, are kept out of the
// child (MADV_DONTFORK), and the child gets a copy that was made right before. So neither sees what
// the other writes.
//
// The program may unmap the memory, or free it, which comes to the same for long pieces, and find
// other memory at the same address later. So nothing is done with pages before they have been
// looked at: holds() in calls, the list of mappings when they are given back and before fork().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/base/fd.h"
#include "lib/base/status.h"

namespace tutti::shared {

class Adopted {
 public:
  // What becomes of the pages at the end: they are given back, or left to the program as they are,
  // which it may write to at that time. What was left can be adopted again.
  enum class End : uint8_t { given_back, left };

  // All pages that lie within [address, address + bytes). On failure nothing has changed.
  static Status adopt(std::byte* address, size_t bytes, End end, std::shared_ptr<Adopted>* out);
  ~Adopted();
  Adopted(const Adopted&) = delete;
  Adopted& operator=(const Adopted&) = delete;

  void end_with(End end) { end_ = end; }
  bool is_left_at_end() const { return end_ == End::left; }

  // The adopted pages, and the memory behind them, from its beginning on.
  std::byte* begin() const;
  size_t bytes() const;
  const Fd& memory() const;

  // Whether what lies at [at, at + bytes) is still these pages, as far as it is within them. One
  // system call where the kernel can tell (Linux 6.11), else two that look at the first and at the
  // last page.
  bool holds(const std::byte* at, size_t bytes) const;

 private:
  struct Pages;
  class Registry;
  Adopted(std::shared_ptr<Pages> pages, End end) : pages_(std::move(pages)), end_(end) {}

  std::shared_ptr<Pages> pages_;
  End end_;
};

}  // namespace tutti::shared
