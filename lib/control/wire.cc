#include "lib/control/wire.h"

#include <algorithm>
#include <cstring>

#include "lib/base/printable.h"
#include "lib/control/bytes.h"
#include "lib/control/crc32c.h"

namespace tutti::wire {

namespace {

constexpr uint32_t frame_magic = 0x69747574;  // "tuti"
constexpr uint8_t frame_version = 3;
constexpr size_t checked_bytes = header_bytes - 4;
constexpr int level_shift = 5;  // bits of a collective's number
static_assert(collective_count <= 1 << level_shift && TUTTI_LEVEL_COUNT <= 256 >> level_shift);
constexpr size_t status_fixed_bytes = 20;               // code, rank, call, length of the text
constexpr size_t note_fixed_bytes = 16;                 // the call entered, the rank waited for
constexpr uint64_t refused = uint64_t{most_ranks} + 1;  // in place of that rank: a sentence follows

uint32_t most_length(Type type) {
  switch (type) {
    case Type::data:
      return most_data_bytes;
    case Type::abort:
      return most_abort_bytes;
    case Type::exchange:
      return most_exchange_bytes;
    case Type::note:
      return most_note_bytes;
    case Type::mail:
      return most_mail_bytes;
    case Type::early:
      return early_bytes;
    case Type::connect:
      return most_connect_bytes;
    case Type::status:
    case Type::bye:
    case Type::beat:
    case Type::moved:
      break;
  }
  return 0;
}

}  // namespace

HeaderBytes encode(const Header& header) {
  HeaderBytes out{};
  uint8_t* at = out.data();
  put_le<uint32_t>(at, frame_magic);
  at[4] = frame_version;
  at[5] = uint8_t(header.type);
  put_le<uint16_t>(at + 6, header.signature.element_size);
  put_le<uint64_t>(at + comm_offset, header.comm);
  put_le<uint64_t>(at + 16, header.epoch);
  put_le<uint64_t>(at + 24, header.stream);
  put_le<uint64_t>(at + 32, header.signature.count);
  put_le<int32_t>(at + 40, header.signature.root);
  put_le<uint16_t>(at + 44, header.signature.algorithm);
  at[46] = uint8_t(uint8_t(header.signature.collective) | header.signature.level << level_shift);
  at[47] = header.signature.dtype;
  at[48] = header.signature.op;
  at[49] = header.signature.flags;
  put_le<uint16_t>(at + src_offset, header.src);
  put_le<uint32_t>(at + 52, header.digest);
  put_le<uint32_t>(at + 56, header.length);
  put_le<uint32_t>(at + checked_bytes, crc32c(at, checked_bytes));
  return out;
}

Status parse(std::span<const uint8_t, header_bytes> bytes, Header* out) {
  const uint8_t* at = bytes.data();
  if (get_le<uint32_t>(at) != frame_magic) return {TUTTI_CORRUPT, "not a frame of tutti"};
  if (crc32c(at, checked_bytes) != get_le<uint32_t>(at + checked_bytes)) {
    return {TUTTI_CORRUPT, "the checksum of a frame's header is wrong"};
  }
  if (at[4] != frame_version) {
    return {TUTTI_CORRUPT, "a frame of version " + std::to_string(at[4]) + ", this is version " +
                               std::to_string(frame_version)};
  }
  if (at[5] < uint8_t(Type::data) || at[5] > uint8_t(Type::connect)) {
    return {TUTTI_CORRUPT, "a frame of unknown type"};
  }
  out->type = Type(at[5]);
  out->comm = get_le<uint64_t>(at + comm_offset);
  out->epoch = get_le<uint64_t>(at + 16);
  out->stream = get_le<uint64_t>(at + 24);
  out->signature = {};
  out->signature.element_size = get_le<uint16_t>(at + 6);
  out->signature.count = get_le<uint64_t>(at + 32);
  out->signature.root = get_le<int32_t>(at + 40);
  out->signature.algorithm = get_le<uint16_t>(at + 44);
  out->signature.collective = Collective(at[46] & ((1 << level_shift) - 1));
  out->signature.level = at[46] >> level_shift;
  out->signature.dtype = at[47];
  out->signature.op = at[48];
  out->signature.flags = at[49];
  out->src = get_le<uint16_t>(at + src_offset);
  out->digest = get_le<uint32_t>(at + 52);
  out->length = get_le<uint32_t>(at + 56);
  if (out->length > most_length(out->type)) {
    return {TUTTI_CORRUPT, "a frame says that it is " + std::to_string(out->length) +
                               " bytes long, which is too much for its type"};
  }
  return {};
}

std::string encode_status(const Status& status) {
  const size_t length = std::min(status.text().size(), most_abort_bytes - status_fixed_bytes);
  std::string out(status_fixed_bytes + length, '\0');
  auto* at = reinterpret_cast<uint8_t*>(out.data());
  put_le<uint32_t>(at, uint32_t(status.code()));
  put_le<int32_t>(at + 4, status.rank());
  put_le<uint64_t>(at + 8, status.call());
  put_le<uint32_t>(at + 16, uint32_t(length));
  std::memcpy(at + status_fixed_bytes, status.text().data(), length);
  return out;
}

Status parse_status(std::span<const uint8_t> payload, Status* out) {
  if (payload.size() < status_fixed_bytes || payload.size() > most_abort_bytes) {
    return {TUTTI_CORRUPT, "a message about an error has an impossible length"};
  }
  const uint8_t* at = payload.data();
  const auto code = get_le<uint32_t>(at);
  const auto rank = get_le<int32_t>(at + 4);
  const auto length = get_le<uint32_t>(at + 16);
  if (code <= TUTTI_IN_PROGRESS || code > TUTTI_INTERNAL || rank < -1 || rank >= most_ranks ||
      length != payload.size() - status_fixed_bytes) {
    return {TUTTI_CORRUPT, "a message about an error makes no sense"};
  }
  std::string text(reinterpret_cast<const char*>(at) + status_fixed_bytes, length);
  *out = Status(tutti_status(code), printable(std::move(text)), rank, get_le<uint64_t>(at + 8));
  return {};
}

std::string encode_note(const Note& note, Header* header) {
  header->type = Type::note;
  header->epoch = note.epoch;
  header->signature = note.signature;
  if (note.empty()) return {};
  const std::string_view why = note.refusal();
  const std::span<const uint64_t> labels = note.labels();
  const size_t words = why.empty() ? labels.size() : (why.size() + 7) / 8;
  std::string out(note_fixed_bytes + 8 * words, '\0');
  auto* at = reinterpret_cast<uint8_t*>(out.data());
  put_le<uint64_t>(at, note.entered);
  put_le<uint64_t>(at + 8, why.empty() ? note.awaited : refused);
  if (!why.empty()) {
    why.copy(out.data() + note_fixed_bytes, why.size());
    return out;
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    put_le<uint64_t>(at + note_fixed_bytes + 8 * i, labels[i]);
  }
  return out;
}

Status parse_note(const Header& header, std::span<const uint8_t> payload, Note* out) {
  *out = {};
  if (payload.empty()) return {};
  if (payload.size() % 8 != 0 || payload.size() < note_fixed_bytes ||
      payload.size() > most_note_bytes) {
    return {TUTTI_CORRUPT, "a note has an impossible length"};
  }
  const auto awaited = get_le<uint64_t>(payload.data() + 8);
  const size_t count = (payload.size() - note_fixed_bytes) / 8;
  const auto read_call = [&] {
    out->epoch = header.epoch;
    out->signature = header.signature;
    out->entered = get_le<uint64_t>(payload.data());
  };
  if (awaited == refused) {
    const std::string_view text(reinterpret_cast<const char*>(payload.data()) + note_fixed_bytes,
                                8 * count);
    const std::string_view why = text.substr(0, text.find('\0'));
    // As it is encoded, and nothing that a terminal would obey.
    if (why.empty() || (why.size() + 7) / 8 != count ||
        text.find_first_not_of('\0', why.size()) != text.npos ||
        std::any_of(why.begin(), why.end(), is_control)) {
      return {TUTTI_CORRUPT, "a note makes no sense"};
    }
    read_call();
    out->set_refusal(why);
    return {};
  }
  if (awaited > uint64_t(most_ranks) || (awaited == 0 && count == 0) || count > Note::most_labels) {
    return {TUTTI_CORRUPT, "a note makes no sense"};
  }
  read_call();
  out->awaited = uint32_t(awaited);
  out->count = uint32_t(count);
  for (size_t i = 0; i < count; ++i) {
    out->all_labels[i] = get_le<uint64_t>(payload.data() + note_fixed_bytes + 8 * i);
  }
  return {};
}

}  // namespace tutti::wire
