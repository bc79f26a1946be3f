#include "lib/control/seal.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "lib/control/bytes.h"
#include "lib/control/crc32c.h"
#include "lib/control/openssl.h"
#include "lib/control/secret.h"

namespace tutti {

namespace {

constexpr std::array<const char*, 4> integrity_names = {"auto", "none", "checksum", "encrypted"};
constexpr int tag_of_gcm = 16;

// Calls take(data, bytes) with each contiguous piece.
template <class Take>
void for_each_piece(std::span<const iovec> parts, size_t skip, size_t bytes, const Take& take) {
  for (const iovec& part : parts) {
    const size_t skipped = std::min(skip, part.iov_len);
    const size_t some = std::min(part.iov_len - skipped, bytes);
    if (some > 0) take(static_cast<const uint8_t*>(part.iov_base) + skipped, some);
    skip -= skipped;
    bytes -= some;
  }
}

void put_checksum(const uint8_t* text, size_t bytes, uint64_t number, uint8_t* tag) {
  uint8_t covered[16];
  put_le<uint64_t>(covered, number);
  put_le<uint32_t>(covered + 8, uint32_t(bytes));
  put_le<uint32_t>(covered + 12, crc32c(text, bytes));
  put_le<uint32_t>(tag, crc32c(covered, sizeof(covered)));
}

}  // namespace

const char* name_of(Integrity integrity) { return integrity_names[size_t(integrity)]; }

std::optional<Integrity> integrity_from_name(std::string_view name) {
  for (size_t i = 0; i < integrity_names.size(); ++i) {
    if (name == integrity_names[i]) return Integrity(i);
  }
  return std::nullopt;
}

void Seal::Free::operator()(evp_cipher_ctx_st* context) const {
  openssl().EVP_CIPHER_CTX_free(context);
}

Seal::Seal(Integrity kind, Use use, const JobKey& key) : kind_(kind), use_(use), key_(key) {
  if (kind_ != Integrity::encrypted) return;
  context_.reset(openssl().EVP_CIPHER_CTX_new());
  const int seals = use_ == Use::sealing ? 1 : 0;
  if (context_ == nullptr ||
      openssl().EVP_CipherInit_ex(context_.get(), openssl().EVP_aes_256_gcm(), nullptr, key_.data(),
                                  nullptr, seals) != 1) {
    throw std::bad_alloc();
  }
}

// Before each record: its key, its nonce, and its length among what the tag covers.
bool Seal::next_record(const uint8_t* head) {
  const uint8_t* new_key = nullptr;
  if (number_ > 0 && number_ % records_a_key == 0) {
    key_ = JobKey{keyed_hash(key_, "tutti next key", {})};
    new_key = key_.data();
  }
  uint8_t nonce[12] = {};
  put_le<uint64_t>(nonce + 4, number_++);
  int bytes = 0;
  return openssl().EVP_CipherInit_ex(context_.get(), nullptr, nullptr, new_key, nonce, -1) == 1 &&
         openssl().EVP_CipherUpdate(context_.get(), nullptr, &bytes, head, int(head_bytes)) == 1;
}

size_t Seal::seal(std::span<const iovec> parts, size_t skip, size_t bytes, uint8_t* record) {
  put_le<uint32_t>(record, uint32_t(bytes));
  uint8_t* to = record + head_bytes;
  if (kind_ == Integrity::checksum) {
    for_each_piece(parts, skip, bytes, [&](const uint8_t* from, size_t some) {
      std::memcpy(to, from, some);
      to += some;
    });
    put_checksum(record + head_bytes, bytes, number_++, to);
    return head_bytes + bytes + tag_bytes();
  }
  if (over_ || !next_record(record)) over_ = true;
  for_each_piece(parts, skip, bytes, [&](const uint8_t* from, size_t some) {
    int made = 0;
    over_ = over_ || openssl().EVP_CipherUpdate(context_.get(), to, &made, from, int(some)) != 1;
    to += some;
  });
  int rest = 0;
  if (over_ || openssl().EVP_CipherFinal_ex(context_.get(), to, &rest) != 1 ||
      openssl().EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, tag_of_gcm, to) != 1) {
    over_ = true;
    return 0;
  }
  return head_bytes + bytes + tag_bytes();
}

size_t Seal::text_bytes(const uint8_t* record) {
  const auto bytes = get_le<uint32_t>(record);
  return bytes <= most_text_bytes ? bytes : 0;
}

bool Seal::open(const uint8_t* record, size_t bytes, uint8_t* text) {
  if (over_ || bytes == 0 || bytes > most_text_bytes || get_le<uint32_t>(record) != bytes) {
    over_ = true;
    return false;
  }
  const uint8_t* const sealed = record + head_bytes;
  if (kind_ == Integrity::checksum) {
    uint8_t tag[4];
    std::memcpy(text, sealed, bytes);
    put_checksum(text, bytes, number_++, tag);
    over_ = std::memcmp(tag, sealed + bytes, sizeof(tag)) != 0;
    return !over_;
  }
  std::array<uint8_t, tag_of_gcm> tag;
  std::copy_n(sealed + bytes, tag.size(), tag.begin());
  int made = 0;
  over_ = !next_record(record) ||
          openssl().EVP_CipherUpdate(context_.get(), text, &made, sealed, int(bytes)) != 1 ||
          openssl().EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, tag_of_gcm,
                                        tag.data()) != 1 ||
          openssl().EVP_CipherFinal_ex(context_.get(), text + bytes, &made) != 1;
  return !over_;
}

}  // namespace tutti
