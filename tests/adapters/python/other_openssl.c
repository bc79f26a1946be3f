// A library with functions of OpenSSL's names that are not OpenSSL's, as BoringSSL is in
// TensorFlow.
static int calls;

int other_openssl_calls(void) { return calls; }

#define HAS(name)   \
  long name(void) { \
    ++calls;        \
    return 0;       \
  }
HAS(CRYPTO_memcmp)
HAS(EVP_CIPHER_CTX_ctrl)
HAS(EVP_CIPHER_CTX_free)
HAS(EVP_CIPHER_CTX_new)
HAS(EVP_CipherFinal_ex)
HAS(EVP_CipherInit_ex)
HAS(EVP_CipherUpdate)
HAS(EVP_PKEY_CTX_free)
HAS(EVP_PKEY_CTX_new)
HAS(EVP_PKEY_derive)
HAS(EVP_PKEY_derive_init)
HAS(EVP_PKEY_derive_set_peer)
HAS(EVP_PKEY_free)
HAS(EVP_PKEY_get_raw_public_key)
HAS(EVP_PKEY_new_raw_private_key)
HAS(EVP_PKEY_new_raw_public_key)
HAS(EVP_aes_256_gcm)
HAS(EVP_sha256)
HAS(HMAC)
