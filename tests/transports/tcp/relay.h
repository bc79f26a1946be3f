// A relay that holds no key, between the ranks of this process: connect() is led to it, it calls
// who was meant, passes the handshake on, and then changes one thing among the records that follow.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "lib/control/address.h"
#include "lib/control/handshake.h"
#include "lib/control/seal.h"
#include "lib/control/socket.h"

namespace tutti::testing {

enum class Change : uint8_t { none, flip, swap, repeat, leave_out, shorten, stale, insert, cut };

// What is changed: a record, counted from 0, of one direction of one connection; in clear a byte.
struct Tampering {
  Change change = Change::none;
  Purpose purpose = Purpose::data;
  bool from_client = true;
  size_t record = 0;
  bool in_clear = false;
  uint64_t random = 0;  // which bit, where
};

class Relay {
 public:
  Relay() : address_(Address::loopback()) {
    static_cast<void>(listen_on(&address_, &listener_));
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    stopped_ = true;
    thread_.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  const Address& address() const { return address_; }

  // From now on, and records are counted from now. What they were is forgotten, but for stale ones.
  void tamper(const Tampering& with) {
    const std::lock_guard lock(mutex_);
    tampering_ = with;
    ++tamperings_;
    done_ = false;
  }
  // Whether the change was made.
  bool done() const { return done_; }

  // Who calls from this port means that address.
  void lead(uint16_t port, const Address& to) {
    const std::lock_guard lock(mutex_);
    meant_[port] = to;
  }
  // And so does who calls without that being known.
  void lead_others(const Address& to) {
    const std::lock_guard lock(mutex_);
    meant_by_others_ = to;
  }

 private:
  // One direction of one connection.
  struct Half {
    int from = -1, to = -1;
    bool from_client = false;
    size_t handshake_left = 0;
    std::string bytes;  // of a record that is not whole yet
    std::string held;   // to be sent behind the next one
    size_t records = 0;
    bool closed = false;
    uint64_t tamperings = 0;  // by the time that `records` is counted from
  };
  struct Connection {
    Fd client, server;
    Purpose purpose = Purpose::data;
    std::string hello;
    Half out, back;
  };

  static constexpr size_t from_client_bytes = 128 + 32, from_server_bytes = 64 + 32;
  static constexpr size_t tag_bytes = 16;

  void run() {
    while (!stopped_) {
      std::vector<pollfd> set{{listener_.get(), POLLIN, 0}};
      for (const Connection& one : connections_) {
        set.push_back({one.out.closed ? -1 : one.client.get(), POLLIN, 0});
        set.push_back({one.back.closed ? -1 : one.server.get(), POLLIN, 0});
      }
      ::poll(set.data(), set.size(), 20);
      size_t place = 1;
      for (Connection& one : connections_) {
        if (set[place++].revents != 0) pass(one, one.out);
        if (set[place++].revents != 0) pass(one, one.back);
      }
      std::erase_if(connections_,
                    [](const Connection& one) { return one.out.closed && one.back.closed; });
      if (set[0].revents != 0) accept_one();
    }
  }

  void accept_one() {
    Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!client) return;
    Address to;
    const uint16_t port = peer_address(client.get()).port();
    for (int i = 0; i < 2000 && to.any.sa_family == AF_UNSPEC; ++i) {
      if (i > 0) usleep(500);
      const std::lock_guard lock(mutex_);
      const auto found = meant_.find(port);
      to = found != meant_.end() ? found->second : meant_by_others_;
      meant_.erase(port);
    }
    Fd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::syscall(SYS_connect, server.get(), &to.any, to.length()) != 0) return;
    connections_.emplace_back();
    Connection& made = connections_.back();
    made.out = {client.get(), server.get(), true, from_client_bytes, {}, {}, 0, false, 0};
    made.back = {server.get(), client.get(), false, from_server_bytes, {}, {}, 0, false, 0};
    made.client = std::move(client);
    made.server = std::move(server);
    tune(made.client.get(), 0);
    tune(made.server.get(), 0);
  }

  static void say(const Half& half, const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = ::send(half.to, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n > 0) {
        sent += size_t(n);
      } else if (errno == EAGAIN) {
        usleep(100);
      } else {
        return;
      }
    }
  }

  void pass(Connection& one, Half& half) {
    char bytes[64 << 10];
    const ssize_t got = ::recv(half.from, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      ::shutdown(half.to, SHUT_WR);
      half.closed = true;
      return;
    }
    const size_t greeting = std::min(half.handshake_left, size_t(got));
    if (half.from_client && one.hello.size() < 9) {
      one.hello.append(bytes, greeting);
      if (one.hello.size() >= 9) one.purpose = Purpose(one.hello[8]);
    }
    say(half, std::string(bytes, greeting));
    half.handshake_left -= greeting;
    half.bytes.append(bytes + greeting, size_t(got) - greeting);
    const std::lock_guard lock(mutex_);
    if (std::exchange(half.tamperings, tamperings_) != tamperings_) half.records = 0;
    if (tampering_.in_clear) {
      const size_t place = tampering_.record - half.records;
      if (is_of_changed(one, half) && place < half.bytes.size()) {
        half.bytes[place] ^= 1;
        done_ = true;
      }
      say(half, half.bytes);
      half.records += half.bytes.size();
      half.bytes.clear();
      return;
    }
    for (;;) {
      if (half.bytes.size() < Seal::head_bytes) return;
      const auto* head = reinterpret_cast<const uint8_t*>(half.bytes.data());
      const size_t length = Seal::head_bytes + Seal::text_bytes(head) + tag_bytes;
      if (half.bytes.size() < length) return;
      const std::string record = half.bytes.substr(0, length);
      half.bytes.erase(0, length);
      change(one, half, record);
      earlier_[{one.purpose, half.from_client, half.records++}] = record;
    }
  }

  bool is_of_changed(const Connection& one, const Half& half) const {
    return tampering_.change != Change::none && one.purpose == tampering_.purpose &&
           half.from_client == tampering_.from_client;
  }

  void change(Connection& one, Half& half, std::string record) {
    if (!is_of_changed(one, half) || half.records != tampering_.record) {
      say(half, record + half.held);
      half.held.clear();
      return;
    }
    done_ = true;
    const uint64_t random = tampering_.random;
    switch (tampering_.change) {
      case Change::none:
        return;
      case Change::flip:
        record[random / 8 % record.size()] ^= char(1u << (random % 8));
        return say(half, record);
      case Change::swap:
        half.held = record;
        return;
      case Change::repeat:
        return say(half, record + record);
      case Change::leave_out:
        return;
      case Change::shorten: {
        const size_t from = random % record.size();
        const size_t bytes = 1 + (random >> 32) % (record.size() - from);
        record.erase(from, bytes);
        return say(half, record);
      }
      case Change::stale: {
        const std::string& old = earlier_[{one.purpose, half.from_client, half.records}];
        done_ = !old.empty();
        return say(half, old.empty() ? record : old);
      }
      case Change::insert:
        record.insert(random % record.size(), 1 + (random >> 32) % 40, char(random >> 16));
        return say(half, record);
      case Change::cut:
        say(half, record.substr(0, random % record.size()));
        ::shutdown(half.from, SHUT_RDWR);
        ::shutdown(half.to, SHUT_RDWR);
        return;
    }
  }

  using Place = std::tuple<Purpose, bool, size_t>;

  Address address_;
  Fd listener_;
  std::mutex mutex_;
  Tampering tampering_;
  uint64_t tamperings_ = 0;
  std::map<uint16_t, Address> meant_;
  Address meant_by_others_;
  std::map<Place, std::string> earlier_;  // what earlier connections carried
  std::list<Connection> connections_;
  std::atomic<bool> done_{false}, stopped_{false};
  std::thread thread_;
};

// Where connect() leads to; null: to where it is told.
inline std::atomic<Relay*> relay_of_connect{nullptr};

}  // namespace tutti::testing

// In place of the C library's, for the whole program.
extern "C" int connect(int fd, const sockaddr* address, socklen_t length) {
  using tutti::testing::relay_of_connect;
  tutti::testing::Relay* const relay = relay_of_connect;
  if (relay == nullptr) return int(::syscall(SYS_connect, fd, address, length));
  tutti::Address meant;
  std::memcpy(&meant.any, address, std::min<size_t>(length, sizeof(meant.v6)));
  const tutti::Address& to = relay->address();
  const int result = int(::syscall(SYS_connect, fd, &to.any, to.length()));
  const int error_number = errno;
  if (result == 0 || error_number == EINPROGRESS)
    relay->lead(tutti::local_address(fd).port(), meant);
  errno = error_number;
  return result;
}
