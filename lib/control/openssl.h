// OpenSSL's functions, of the system's libcrypto itself, whoever else has functions of these names.
#pragma once

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#define TUTTI_OPENSSL_FUNCTIONS(X) \
  X(CRYPTO_memcmp)                 \
  X(EVP_CIPHER_CTX_ctrl)           \
  X(EVP_CIPHER_CTX_free)           \
  X(EVP_CIPHER_CTX_new)            \
  X(EVP_CipherFinal_ex)            \
  X(EVP_CipherInit_ex)             \
  X(EVP_CipherUpdate)              \
  X(EVP_PKEY_CTX_free)             \
  X(EVP_PKEY_CTX_new)              \
  X(EVP_PKEY_derive)               \
  X(EVP_PKEY_derive_init)          \
  X(EVP_PKEY_derive_set_peer)      \
  X(EVP_PKEY_free)                 \
  X(EVP_PKEY_get_raw_public_key)   \
  X(EVP_PKEY_new_raw_private_key)  \
  X(EVP_PKEY_new_raw_public_key)   \
  X(EVP_aes_256_gcm)               \
  X(EVP_sha256)                    \
  X(HMAC)

namespace tutti {

template <auto* function>
using OpenSslPointer = decltype(function);

struct OpenSsl {
#define TUTTI_DECLARE(name) OpenSslPointer<::name> name = (::name);
  TUTTI_OPENSSL_FUNCTIONS(TUTTI_DECLARE)
#undef TUTTI_DECLARE
};

// All of one library. Loaded with the first call; any thread.
const OpenSsl& openssl();

}  // namespace tutti
