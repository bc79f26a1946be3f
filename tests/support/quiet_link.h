// A link on which nothing comes, for tests that need some of its functions only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "transports/transport.h"

namespace tutti::testing {

class QuietLink : public Link {
 public:
  const char* name() const override { return "quiet"; }
  void begin(const CallMark&) override {}
  size_t try_send(int, const std::byte*, size_t) override { return 0; }
  std::span<const std::byte> try_peek(int, size_t, size_t) override { return {}; }
  void consume(int, size_t) override {}
  Next next(int, const CallMark&) override { return Next::nothing; }
  size_t try_recv(int, std::byte*, size_t) override { return 0; }
  Status inspect(uint64_t) override { return {}; }
  void sleep(uint64_t) override {}
  std::optional<CallMark> last_seen(int) const override { return {}; }
  void abort(const Status&) override {}
  void post_mail(int, std::string_view) override {}
  bool take_mail(int, std::string*) override { return false; }
  bool mail_is_out(int) const override { return true; }
  Presence presence(int, uint64_t) override { return Presence::here; }
  void sleep_for_mail(uint64_t) override {}
  void move_on() override {}
};

}  // namespace tutti::testing
