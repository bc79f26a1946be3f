#include "lib/adapters/mpi/packing.h"

#include <cstring>
#include <stdexcept>

namespace tutti::mpi {
namespace {

// The host packs at most 2 GiB at once.
constexpr size_t most_at_once = size_t{1} << 30;

int64_t elements_at_once(const Type& known) {
  if (known.size > most_at_once) throw std::runtime_error("an element of more than 1 GiB");
  return int64_t(most_at_once / known.size);
}

}  // namespace

// Between ranks of one kind of machine the host packs data as it is in memory (both do).
void pack(const void* from, int64_t count, MPI_Datatype type, const Type& known, char* to) {
  if (known.contiguous && count > 0) {
    std::memcpy(to, from, size_t(count) * known.size);
    return;
  }
  while (count > 0 && known.size > 0) {
    const int64_t now = std::min(count, elements_at_once(known));
    const int bytes = int(size_t(now) * known.size);
    int end = 0;
    if (PMPI_Pack(from, int(now), type, to, bytes, &end, MPI_COMM_SELF) != MPI_SUCCESS ||
        end != bytes)
      throw std::runtime_error("MPI_Pack failed");
    from = at(from, now * known.extent);
    to += bytes;
    count -= now;
  }
}

void unpack(const char* from, int64_t count, MPI_Datatype type, const Type& known, void* to) {
  if (known.contiguous && count > 0) {
    std::memcpy(to, from, size_t(count) * known.size);
    return;
  }
  while (count > 0 && known.size > 0) {
    const int64_t now = std::min(count, elements_at_once(known));
    const int bytes = int(size_t(now) * known.size);
    int end = 0;
    if (PMPI_Unpack(from, bytes, &end, to, int(now), type, MPI_COMM_SELF) != MPI_SUCCESS ||
        end != bytes)
      throw std::runtime_error("MPI_Unpack failed");
    from += bytes;
    to = at(to, now * known.extent);
    count -= now;
  }
}

const void* gapless(const void* buffer, const Elements& elements, bool copied,
                    std::vector<char>* scratch) {
  if (elements.known->contiguous && !copied) return buffer;
  scratch->resize(elements.bytes() + 1);
  pack(buffer, elements.count, elements.type, *elements.known, scratch->data());
  return scratch->data();
}

char* room_for(void* buffer, const Elements& elements, bool copied, std::vector<char>* scratch) {
  if (elements.known->contiguous && !copied) return static_cast<char*>(buffer);
  scratch->resize(elements.bytes() + 1);
  return scratch->data();
}

void bring_home(const char* data, void* buffer, const Elements& elements) {
  if (data != buffer) unpack(data, elements.count, elements.type, *elements.known, buffer);
}

}  // namespace tutti::mpi
