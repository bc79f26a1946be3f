// Frames: what ranks send each other over sockets, as bytes. No I/O here.
//
// A frame is a header of 64 bytes, little endian, and `length` bytes of payload. Offsets:
//    0 magic (4)        4 version (1)    5 type (1)     6 bytes of a user-defined element (2)
//    8 communicator (8) 16 epoch (8)    24 stream (8)
//   32 count (8)  40 root (4)  44 algorithm (2)  46 collective (low 5 bits) and level  47 dtype
//   48 op  49 flags
//   50 sender's rank (2)  52 digest (4)  56 length (4)  60 CRC-32C of the 60 bytes before (4)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lib/base/status.h"
#include "lib/call/call.h"
#include "lib/call/note.h"

namespace tutti::wire {

constexpr size_t header_bytes = 64;
constexpr size_t comm_offset = 8, src_offset = 50;  // in it
constexpr uint32_t most_data_bytes = 1 << 20;       // payload of a data frame
constexpr uint32_t most_abort_bytes = 1024;         // payload of an abort frame
constexpr uint32_t most_exchange_bytes = 1 << 30;   // payload of an exchange frame
constexpr uint32_t most_mail_bytes = (64 << 10) + 64;
constexpr uint32_t most_note_bytes = 8 + 8 + sizeof(Note::why_refused);
static_assert(sizeof(Note::all_labels) <= sizeof(Note::why_refused));
// Of data frames over a control channel, headers included: so little that the socket takes it even
// if nobody reads.
constexpr uint32_t early_bytes = 32 << 10;
constexpr uint32_t most_connect_bytes = 24;  // payload of a connect frame
constexpr int most_ranks = 65535;

enum class Type : uint8_t {
  data = 1,      // payload of a message
  status = 2,    // which call the sender is in
  abort = 3,     // the communicator is over, and why
  bye = 4,       // the sender has freed the communicator; epoch 1: having gone on in another one
  exchange = 5,  // a step of an all-gather while a communicator is made
  note = 6,      // what the sender waits for; without payload: nothing
  beat = 7,      // nothing but that the receiver's host acknowledges it (heartbeat.h)
  mail = 8,      // a text beside the calls (transports/transport.h)
  // About the data connection, over the control channel (transports/stream/late_socket.h):
  early = 9,     // a piece of the data stream from before it is there
  moved = 10,    // the rest of the data stream comes over it
  connect = 11,  // to the higher rank: where to call; to the lower one: it should say where
};

struct Header {
  Type type = Type::data;
  uint64_t comm = 0;
  uint64_t epoch = 0;
  // Payload bytes that the sender had put into its data stream to the receiver before this frame.
  uint64_t stream = 0;
  CallSignature signature;  // its reserved bytes and `result` are not sent
  uint16_t src = 0;
  uint32_t digest = 0;
  uint32_t length = 0;

  CallMark mark() const {
    CallMark mark;
    mark.epoch = epoch;
    mark.signature = signature;
    mark.digest = digest;
    return mark;
  }
};

using HeaderBytes = std::array<uint8_t, header_bytes>;

HeaderBytes encode(const Header& header);
// CORRUPT, with a sentence, unless the bytes are a header that encode() could have made.
Status parse(std::span<const uint8_t, header_bytes> bytes, Header* out);

// The payload of an abort frame: a status cut to fit.
std::string encode_status(const Status& status);
Status parse_status(std::span<const uint8_t> payload, Status* out);

// A note travels in the header's epoch and signature, and the rest of it in the payload: labels, or
// why a call was refused.
std::string encode_note(const Note& note, Header* header);
Status parse_note(const Header& header, std::span<const uint8_t> payload, Note* out);

}  // namespace tutti::wire
