// A Link over slots that checks what goes through the shared memory (TUTTI_INTEGRITY=checksum): in
// each slot there is a record with a checksum (lib/control/seal.h), and the reader uses its own
// copy of it, once the checksum of that copy has been found right. So it has no fused paths: all
// calls go by their schedules.
//
// Not checked are flags, credit, mail and what ranks tell of their calls. A flag that has been
// changed ends the call by MISMATCH or TIMEOUT: a record that is read too early, or twice, is not
// the next one.
#pragma once

#include <memory>
#include <vector>

#include "lib/control/seal.h"
#include "lib/slots/slot_link.h"

namespace tutti::slots {

class CheckedLink final : public Link {
 public:
  explicit CheckedLink(SlotLinkParts parts);

  const char* name() const override { return slots_->name(); }
  Integrity integrity_to(int) const override { return Integrity::checksum; }
  void begin(const CallMark& mark) override;
  size_t try_send(int peer, const std::byte* data, size_t bytes) override;
  std::span<const std::byte> try_peek(int peer, size_t most, size_t granule) override;
  void consume(int peer, size_t bytes) override { incoming_[size_t(peer)].begin += bytes; }
  Next next(int peer, const CallMark& mark) override { return slots_->next(peer, mark); }
  size_t try_recv(int peer, std::byte* to, size_t most) override;
  Status inspect(uint64_t now_ns) override;

  void arm() override { slots_->arm(); }
  void disarm() override { slots_->disarm(); }
  void sleep(uint64_t until_ns) override { slots_->sleep(until_ns); }
  std::optional<CallMark> last_seen(int peer) const override { return slots_->last_seen(peer); }
  void abort(const Status& reason) override { slots_->abort(reason); }
  void leave(bool in_call) noexcept override { slots_->leave(in_call); }
  void post_note(const Note& note) override { slots_->post_note(note); }
  Note read_note(int peer) const override { return slots_->read_note(peer); }
  void post_mail(int peer, std::string_view text) override { slots_->post_mail(peer, text); }
  bool take_mail(int peer, std::string* text) override { return slots_->take_mail(peer, text); }
  bool mail_is_out(int peer) const override { return slots_->mail_is_out(peer); }
  Presence presence(int peer, uint64_t now_ns) override { return slots_->presence(peer, now_ns); }
  void sleep_for_mail(uint64_t until_ns) override { slots_->sleep_for_mail(until_ns); }
  void move_on() override { slots_->move_on(); }
  uint32_t most_spins() const override { return slots_->most_spins(); }

 private:
  struct Incoming {
    Seal seal{Integrity::checksum, Seal::Use::opening, {}};
    std::vector<uint8_t> text;  // of records that were right; from begin to end not yet consumed
    size_t begin = 0, end = 0;
    uint32_t digest = 0;  // of the call that it belongs to
    bool empty() const { return begin == end; }
  };

  bool read_record(int peer);
  // Whether bytes of the present call are there.
  bool has_some(int peer) {
    Incoming& from = incoming_[size_t(peer)];
    if (from.empty()) return read_record(peer);
    if (from.digest == mark_.digest) return true;
    slots_->note_mismatched(peer);
    return false;
  }

  int rank_;
  size_t slot_bytes_, most_text_;
  std::unique_ptr<SlotLink> slots_;
  CallMark mark_;
  std::vector<uint8_t> record_;  // the one that is being sent
  std::vector<Seal> outgoing_;   // by rank of the communicator
  std::vector<Incoming> incoming_;
  int corrupt_ = -1;  // a peer whose record was wrong
};

// The link over these parts: a CheckedLink where `integrity` is checksum, else a SlotLink.
std::unique_ptr<Link> make_link(SlotLinkParts parts, Integrity integrity);

}  // namespace tutti::slots
