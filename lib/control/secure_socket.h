// A connected TCP socket that carries bytes in clear, or in records (seal.h). It never blocks.
//
// One thread may send while another receives, which take_in() does, too.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/base/fd.h"
#include "lib/control/seal.h"

namespace tutti {

// In words, what receive() met with EBADMSG.
constexpr const char* changed_on_the_way =
    "what came was changed on its way: a record is not the next one that was sealed";

class SecureSocket {
 public:
  SecureSocket() = default;
  SecureSocket(Fd socket) : socket_(std::move(socket)) {}  // in clear
  // `integrity`: not automatic. Throws std::bad_alloc.
  SecureSocket(Fd socket, Integrity integrity, const SessionKeys& keys);

  int get() const { return socket_.get(); }
  explicit operator bool() const { return bool(socket_); }
  void reset() { *this = SecureSocket(); }
  Integrity integrity() const { return integrity_; }

  // As sendmsg(). In records, bytes count as taken once the kernel has all of their record: it
  // would not see to the rest of one of which it has a part. So what was offered and not taken must
  // be offered again before anything else.
  ssize_t send(std::span<const iovec> parts);
  // Whether some of what was offered, but not taken, is in a record.
  bool holds() const { return out_ != nullptr && out_->text_bytes > 0; }

  // As recvmsg(), with EBADMSG for a record that is not what the other end has sealed. What is in
  // `parts` beyond the bytes that it returns may have been overwritten.
  ssize_t receive(std::span<const iovec> parts);

  // Takes from the kernel what has come, some records at most, and keeps it for receive(). For who
  // cannot send: where both ends have a record that is longer than what the kernel holds for them,
  // and want it sent before they receive, neither would go on.
  void take_in();

 private:
  struct Outgoing {
    Seal seal;
    std::unique_ptr<uint8_t[]> record;
    size_t begin = 0, end = 0;  // what the kernel has not taken of it
    size_t text_bytes = 0;      // of it, not yet reported as taken
    int failed = 0;             // errno of what the kernel has told, which it does once
  };
  struct Incoming {
    ssize_t take(int fd, uint8_t* to, size_t room);
    ssize_t fill(int fd);
    void take_in(int fd);
    // The whole record at `begin`; null: it has not come, or none can.
    const uint8_t* next_record();

    Seal seal;
    std::unique_ptr<uint8_t[]> bytes;  // as they came
    size_t capacity = 0, begin = 0, end = 0;
    bool was_filled = false;
    std::unique_ptr<uint8_t[]> text;  // of a record that was longer than what it was wanted for
    size_t text_begin = 0, text_end = 0;
    bool broken = false;
    int failed = 0;  // as there
  };

  bool flush_record();

  Fd socket_;
  Integrity integrity_ = Integrity::none;
  std::unique_ptr<Outgoing> out_;  // null: in clear
  std::unique_ptr<Incoming> in_;
};

}  // namespace tutti
