#include "lib/slots/checked_link.h"

#include <algorithm>
#include <cstring>

namespace tutti::slots {

namespace {

constexpr size_t frame_bytes = Seal::head_bytes + tag_bytes_of(Integrity::checksum);

}  // namespace

CheckedLink::CheckedLink(SlotLinkParts parts)
    : rank_(parts.ranks[parts.self]),
      slot_bytes_(parts.segment.geometry().slice_bytes),
      // Whole lines, so that elements whose size is a power of two end where records do.
      most_text_(
          std::min((slot_bytes_ - frame_bytes) / line_bytes * line_bytes, Seal::most_text_bytes)),
      record_(slot_bytes_) {
  const uint32_t nranks = parts.comm_nranks;
  for (uint32_t rank = 0; rank < nranks; ++rank)
    outgoing_.emplace_back(Integrity::checksum, Seal::Use::sealing, JobKey{});
  incoming_.resize(nranks);
  slots_ = std::make_unique<SlotLink>(std::move(parts));
}

void CheckedLink::begin(const CallMark& mark) {
  mark_ = mark;
  slots_->begin(mark);
}

size_t CheckedLink::try_send(int peer, const std::byte* data, size_t bytes) {
  size_t taken = 0;
  while (taken < bytes && slots_->has_room(peer)) {
    const iovec rest{const_cast<std::byte*>(data) + taken, bytes - taken};
    const size_t text = std::min(bytes - taken, most_text_);
    const size_t whole = outgoing_[size_t(peer)].seal({&rest, 1}, 0, text, record_.data());
    slots_->try_send(peer, reinterpret_cast<const std::byte*>(record_.data()), whole);
    taken += text;
  }
  return taken;
}

// Adds the next record of the present call to what has not been consumed.
bool CheckedLink::read_record(int peer) {
  if (corrupt_ >= 0) return false;
  const std::span<const std::byte> record = slots_->try_peek(peer, slot_bytes_, 1);
  if (record.empty()) return false;
  Incoming& from = incoming_[size_t(peer)];
  std::copy(from.text.begin() + ptrdiff_t(from.begin), from.text.begin() + ptrdiff_t(from.end),
            from.text.begin());
  from.end -= from.begin;
  from.begin = 0;
  if (from.text.size() < from.end + slot_bytes_) from.text.resize(from.end + slot_bytes_);
  const size_t text = record.size() - std::min(record.size(), frame_bytes);
  if (!from.seal.open(reinterpret_cast<const uint8_t*>(record.data()), text,
                      from.text.data() + from.end)) {
    corrupt_ = peer;
    return false;
  }
  from.end += text;
  from.digest = mark_.digest;
  slots_->consume(peer, record.size());
  return true;
}

std::span<const std::byte> CheckedLink::try_peek(int peer, size_t most, size_t granule) {
  if (!has_some(peer)) return {};
  Incoming& from = incoming_[size_t(peer)];
  while (from.end - from.begin < granule && most >= granule) {
    if (!read_record(peer)) return {};
  }
  const size_t bytes = whole_granules(std::min(from.end - from.begin, most), granule);
  return {reinterpret_cast<const std::byte*>(from.text.data()) + from.begin, bytes};
}

size_t CheckedLink::try_recv(int peer, std::byte* to, size_t most) {
  size_t got = 0;
  while (got < most && has_some(peer)) {
    Incoming& from = incoming_[size_t(peer)];
    const size_t some = std::min(from.end - from.begin, most - got);
    std::memcpy(to + got, from.text.data() + from.begin, some);
    from.begin += some;
    got += some;
  }
  return got;
}

Status CheckedLink::inspect(uint64_t now_ns) {
  if (corrupt_ < 0) return slots_->inspect(now_ns);
  return {TUTTI_CORRUPT,
          rank_calls(rank_, mark_) +
              (mark_.epoch != 0 ? " (call " + std::to_string(mark_.epoch) + ")" : std::string()) +
              ", but what rank " + std::to_string(corrupt_) +
              " has written into the memory that they share was changed there: its checksum is "
              "wrong",
          corrupt_, mark_.epoch};
}

std::unique_ptr<Link> make_link(SlotLinkParts parts, Integrity integrity) {
  if (integrity == Integrity::checksum) return std::make_unique<CheckedLink>(std::move(parts));
  return std::make_unique<SlotLink>(std::move(parts));
}

}  // namespace tutti::slots
