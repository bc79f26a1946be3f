#include "lib/control/key_agreement.h"

#include <memory>

#include "lib/control/openssl.h"

namespace tutti {

namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { openssl().EVP_PKEY_free(key); }
  void operator()(EVP_PKEY_CTX* context) const { openssl().EVP_PKEY_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;

Key key_of(const JobKey& own) {
  return Key(
      openssl().EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, own.data(), own.size()));
}

}  // namespace

bool public_value(const JobKey& own, Nonce* out) {
  const Key key = key_of(own);
  size_t bytes = out->size();
  return key != nullptr &&
         openssl().EVP_PKEY_get_raw_public_key(key.get(), out->data(), &bytes) == 1;
}

bool agreed_secret(const JobKey& own, const Nonce& theirs, JobKey* out) {
  const Key key = key_of(own);
  const Key other(openssl().EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, theirs.data(),
                                                        theirs.size()));
  if (key == nullptr || other == nullptr) return false;
  const std::unique_ptr<EVP_PKEY_CTX, Free> context(openssl().EVP_PKEY_CTX_new(key.get(), nullptr));
  size_t bytes = out->size();
  return context != nullptr && openssl().EVP_PKEY_derive_init(context.get()) == 1 &&
         openssl().EVP_PKEY_derive_set_peer(context.get(), other.get()) == 1 &&
         openssl().EVP_PKEY_derive(context.get(), out->data(), &bytes) == 1 && bytes == out->size();
}

}  // namespace tutti
