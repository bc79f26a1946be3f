// A stream directly from the memory of one caller to that of the other (zero-copy), for memory that
// only the network and GPUs may touch: the processor reads and writes none of it.
//
// Sending: what is offered goes in pieces, always by rendezvous, so that no payload is staged in
// memory of the host, and counts as taken when the peer has fetched it. Until then the caller
// offers the same bytes again. Receiving: each piece is fetched as a whole to where the caller
// wants it; one that is longer than what the caller asks for waits until it asks for more. So both
// ends of a message must cut it into the same pieces, as plans of such memory do
// (lib/plan/lower.h). Until bytes are reported, the caller asks for them with the same `to`.
//
// After a failed call UCX may still read what was offered and write to where a receive was tried,
// until the link is gone: such memory must outlive the link.
#pragma once

#include "transports/ucx/stream.h"

namespace tutti::ucx {

class DirectStream final : public UcxStream {
 public:
  DirectStream(Worker& worker, int peer, bool across_hosts, ucs_memory_type_t memory)
      : UcxStream(worker, peer, across_hosts, memory) {}

  size_t receive(const CallMark& mark, std::byte* to, size_t most) override;
  // Not possible on such memory: corrupt() becomes INTERNAL.
  std::span<const std::byte> peek(const CallMark& mark, size_t most, size_t granule) override;
  void consume(size_t) override {}
  void advance() override;

 private:
  bool begin_piece(const CallMark& mark, const std::byte* data, size_t bytes) override;
  void release(const Piece&) override {}
  const char* refuse(size_t length, bool by_rendezvous) const override;
  void keep(Frame*, const std::byte*) override {}  // refuse() admits no eager frame
  void fetch_all(const CallMark& mark, std::byte* to, size_t most);
};

}  // namespace tutti::ucx
