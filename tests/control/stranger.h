// Somebody who connects to a port of the job without belonging to it.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

#include "lib/base/fd.h"
#include "lib/control/address.h"

namespace tutti::testing {

class Stranger {
 public:
  enum class Kind {
    silent,        // connects and waits
    garbage,       // a web client
    right_magic,   // a whole hello without the key
    half_a_hello,  // stops in the middle of one
  };

  Stranger(const Address& to, Kind kind) : socket_(::socket(to.any.sa_family, SOCK_STREAM, 0)) {
    EXPECT_EQ(::connect(socket_.get(), &to.any, to.length()), 0) << std::strerror(errno);
    if (kind == Kind::garbage) say("GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    if (kind == Kind::right_magic) say(hello());
    if (kind == Kind::half_a_hello) say(hello().substr(0, 48));
  }

  // False once the other side has closed.
  bool send_one_byte_of_a_hello() {
    const std::string text = hello();
    if (said_ < 48) say(text.substr(said_++, 1));
    pollfd entry{socket_.get(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 0;
  }

  bool was_closed_without_an_answer() {
    pollfd entry{socket_.get(), POLLIN, 0};
    if (::poll(&entry, 1, 5000) != 1) return false;
    char byte;
    return ::recv(socket_.get(), &byte, 1, 0) <= 0;
  }

 private:
  static std::string hello() { return "tutti-h3" + std::string(120, '\1'); }
  void say(const std::string& text) {
    static_cast<void>(::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL));
  }

  Fd socket_;
  size_t said_ = 0;
};

}  // namespace tutti::testing
