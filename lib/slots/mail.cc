#include "lib/slots/mail.h"

#include <algorithm>
#include <utility>

#include "lib/slots/access.h"
#include "transports/transport.h"

namespace tutti::slots {

Mail::Mail(const Segment& segment, uint32_t self)
    : segment_(segment), self_(self), peers_(segment.geometry().nranks) {}

bool Mail::has_room(uint32_t to) const {
  const uint32_t taken = load(segment_.mail_credit(self_, to).consumed, std::memory_order_acquire);
  return peers_[to].put - taken < Geometry::mail_slots;
}

bool Mail::has_piece(uint32_t from) const {
  const Peer& peer = peers_[from];
  const MailSlot& slot = segment_.mail(from, self_)[peer.taken % Geometry::mail_slots];
  return !peer.broken && load(slot.sequence, std::memory_order_acquire) == peer.taken + 1;
}

bool Mail::push(uint32_t to) {
  Peer& peer = peers_[to];
  bool pushed = false;
  while (!peer.outgoing.empty() && has_room(to)) {
    const std::string& text = peer.outgoing.front();
    MailSlot& slot = segment_.mail(self_, to)[peer.put % Geometry::mail_slots];
    const size_t bytes = std::min(text.size() - peer.put_bytes, MailSlot::payload_bytes);
    will_write(&slot.bytes, sizeof(slot) - sizeof(slot.sequence));
    slot.bytes = uint32_t(bytes);
    std::memcpy(slot.payload, text.data() + peer.put_bytes, bytes);
    peer.put_bytes += bytes;
    slot.more = peer.put_bytes < text.size() ? 1 : 0;
    if (slot.more == 0) {
      peer.outgoing.pop_front();
      peer.put_bytes = 0;
    }
    store(slot.sequence, ++peer.put, std::memory_order_release);
    pushed = true;
  }
  return pushed;
}

bool Mail::take(uint32_t from, std::string* text, bool* moved) {
  Peer& peer = peers_[from];
  for (*moved = false; has_piece(from);) {
    const MailSlot& slot = segment_.mail(from, self_)[peer.taken % Geometry::mail_slots];
    will_read(&slot.bytes, sizeof(slot) - sizeof(slot.sequence));
    const uint32_t bytes = static_cast<const volatile MailSlot&>(slot).bytes;
    const bool more = slot.more != 0;
    peer.broken =
        bytes > MailSlot::payload_bytes || peer.incoming.size() + bytes > Link::most_mail_bytes;
    if (peer.broken) return false;
    peer.incoming.append(reinterpret_cast<const char*>(slot.payload), bytes);
    store(segment_.mail_credit(from, self_).consumed, ++peer.taken, std::memory_order_release);
    *moved = true;
    if (more) continue;
    *text = std::exchange(peer.incoming, {});
    return true;
  }
  return false;
}

bool Mail::has_come() const {
  for (uint32_t local = 0; local < peers_.size(); ++local) {
    if (local != self_ && has_piece(local)) return true;
  }
  return false;
}

}  // namespace tutti::slots
