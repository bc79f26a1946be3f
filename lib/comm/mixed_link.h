// A link whose peers are reached by different transports: shared memory inside a host, sockets
// across.
#pragma once

#include <memory>
#include <vector>

#include "transports/transport.h"

namespace tutti {

class MixedLink final : public Link {
 public:
  // `link_of[rank]`: index in `links`, -1 for the own rank.
  MixedLink(std::vector<std::unique_ptr<Link>> links, std::vector<int> link_of);

  const char* name() const override { return name_.c_str(); }
  const char* name_to(int peer) const override {
    return links_[size_t(link_of_[size_t(peer)])]->name();
  }
  const char* addresses_to(int peer) const override {
    return links_[size_t(link_of_[size_t(peer)])]->addresses_to(peer);
  }
  Integrity integrity_to(int peer) const override {
    return links_[size_t(link_of_[size_t(peer)])]->integrity_to(peer);
  }
  void begin(const CallMark& mark) override;
  size_t try_send(int peer, const std::byte* data, size_t bytes) override {
    return to(peer).try_send(peer, data, bytes);
  }
  std::span<const std::byte> try_peek(int peer, size_t most, size_t granule) override {
    return to(peer).try_peek(peer, most, granule);
  }
  void consume(int peer, size_t bytes) override { to(peer).consume(peer, bytes); }
  Next next(int peer, const CallMark& mark) override { return to(peer).next(peer, mark); }
  size_t try_recv(int peer, std::byte* data, size_t most) override {
    return to(peer).try_recv(peer, data, most);
  }
  Status inspect(uint64_t now_ns) override;
  void arm() override;
  void disarm() override;
  void sleep(uint64_t until_ns) override;
  std::optional<CallMark> last_seen(int peer) const override {
    return links_[size_t(link_of_[size_t(peer)])]->last_seen(peer);
  }
  void abort(const Status& reason) override;
  void leave(bool in_call) noexcept override;
  void post_note(const Note& note) override;
  Note read_note(int peer) const override {
    return links_[size_t(link_of_[size_t(peer)])]->read_note(peer);
  }
  void post_mail(int peer, std::string_view text) override { to(peer).post_mail(peer, text); }
  bool take_mail(int peer, std::string* text) override { return to(peer).take_mail(peer, text); }
  bool mail_is_out(int peer) const override {
    return links_[size_t(link_of_[size_t(peer)])]->mail_is_out(peer);
  }
  Presence presence(int peer, uint64_t now_ns) override { return to(peer).presence(peer, now_ns); }
  bool is_on_other_host(int peer) const override {
    return links_[size_t(link_of_[size_t(peer)])]->is_on_other_host(peer);
  }
  void sleep_for_mail(uint64_t until_ns) override;
  void move_on() override;

 private:
  // A futex and a set of sockets cannot be waited for together: the links take short turns.
  Link& next_sleeper();
  Link& to(int peer) { return *links_[size_t(link_of_[size_t(peer)])]; }

  std::vector<std::unique_ptr<Link>> links_;
  std::vector<int> link_of_;
  std::string name_;
  size_t sleeper_ = 0;  // the link that the last sleep was on
};

}  // namespace tutti
