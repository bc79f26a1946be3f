#include "lib/control/secret.h"

#include <sys/random.h>

#include <cerrno>
#include <vector>

#include "lib/control/openssl.h"

namespace tutti {

Mac keyed_hash(const JobKey& key, std::string_view label,
               std::initializer_list<std::span<const uint8_t>> parts) {
  std::vector<uint8_t> text(label.begin(), label.end());
  text.push_back(0);
  for (const auto part : parts) text.insert(text.end(), part.begin(), part.end());
  Mac out{};
  unsigned length = 0;
  if (openssl().HMAC(openssl().EVP_sha256(), key.data(), int(key.size()), text.data(), text.size(),
                     out.data(), &length) == nullptr) {
    // Without a hash nobody may be admitted: return a value that nobody can guess.
    static_cast<void>(random_bytes(out).ok());
  }
  return out;
}

bool equal_secret(std::span<const uint8_t, 32> a, std::span<const uint8_t, 32> b) {
  return openssl().CRYPTO_memcmp(a.data(), b.data(), 32) == 0;
}

Status random_bytes(std::span<uint8_t> out) {
  for (size_t done = 0; done < out.size();) {
    const ssize_t got = getrandom(out.data() + done, out.size() - done, 0);
    if (got < 0 && errno != EINTR) return system_error("cannot read random bytes", errno);
    if (got > 0) done += size_t(got);
  }
  return {};
}

}  // namespace tutti
