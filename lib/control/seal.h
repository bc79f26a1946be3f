// Records: what a connection's bytes are cut into where they may be read or changed on their way. A
// state machine over bytes, one for each direction; no I/O, time or randomness.
//
//   record = length of the text (4, little endian), text, tag
//
// encrypted: AES-256-GCM. The nonce is the record's number in its direction, the length is covered,
// too; so a record that was changed, repeated, left out, put elsewhere, or sealed for another
// connection or direction does not open. After 65,536 records the key is replaced by a hash of it.
// checksum: the text in clear and a CRC-32C over it, its length and the record's number: finds what
// went wrong by chance, and stops nobody.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "lib/control/job_key.h"

struct evp_cipher_ctx_st;

namespace tutti {

// How bytes between ranks are protected. `automatic`: in clear between ranks of one network
// namespace, where nothing can come between them, encrypted between all others.
enum class Integrity : uint8_t { automatic, none, checksum, encrypted };

// "auto", "none", "checksum", "encrypted": as in TUTTI_INTEGRITY.
const char* name_of(Integrity integrity);
std::optional<Integrity> integrity_from_name(std::string_view name);

// The length of a record's tag.
constexpr size_t tag_bytes_of(Integrity kind) { return kind == Integrity::encrypted ? 16 : 4; }

// The keys of one connection, as one of its ends has them.
struct SessionKeys {
  JobKey sending, receiving;
};

class Seal {
 public:
  enum class Use : uint8_t { sealing, opening };

  static constexpr size_t head_bytes = 4;
  // A record and its text together stay in a second-level cache.
  static constexpr size_t most_text_bytes = 32 << 10;
  static constexpr size_t most_record_bytes =
      head_bytes + most_text_bytes + tag_bytes_of(Integrity::encrypted);
  static constexpr uint64_t records_a_key = 1 << 16;

  // `kind`: checksum or encrypted. Throws std::bad_alloc.
  Seal(Integrity kind, Use use, const JobKey& key);

  size_t tag_bytes() const { return tag_bytes_of(kind_); }

  // Makes the next record of so many bytes, at least one and at most most_text_bytes, which begin
  // `skip` bytes into `parts`. Returns the length of the record, of which `record` must have room;
  // 0: OpenSSL has failed.
  size_t seal(std::span<const iovec> parts, size_t skip, size_t bytes, uint8_t* record);

  // The length of the text of the record that begins here; 0: no record can.
  static size_t text_bytes(const uint8_t* record);
  // Whether this is the next record, with a text of so many bytes. If so that is put at `text`;
  // else nothing there is to be used, and no later record opens. A checksum is compared with that
  // of the copy, so the record may lie in memory that changes meanwhile.
  bool open(const uint8_t* record, size_t bytes, uint8_t* text);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };

  bool next_record(const uint8_t* head);

  Integrity kind_;
  Use use_;
  JobKey key_;
  uint64_t number_ = 0;  // of the next record
  bool over_ = false;
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

}  // namespace tutti
