#include "lib/control/kept_key.h"

#include <sys/mman.h>

#include <new>

namespace tutti {

void KeptKey::Free::operator()(JobKey* key) const {
  if (!is_mapped) {
    delete key;
    return;
  }
  key->~JobKey();
  munmap(key, sizeof(*key));
}

KeptKey::KeptKey(const JobKey& key) {
  void* const page =
      mmap(nullptr, sizeof(key), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    key_ = {new JobKey(key), {false}};
    return;
  }
  madvise(page, sizeof(key), MADV_DONTDUMP);
  madvise(page, sizeof(key), MADV_WIPEONFORK);
  key_ = {new (page) JobKey(key), {true}};
}

}  // namespace tutti
