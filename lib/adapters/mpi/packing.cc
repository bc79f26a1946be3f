#include "lib/adapters/mpi/packing.h"

#include <climits>
#include <cstring>
#include <stdexcept>
#include <string>

namespace tutti::mpi {
namespace {

// The host counts bytes in ints, but in the forms of MPI 4, which are for single elements of more.
constexpr size_t most_at_once = size_t{1} << 30;

int64_t elements_at_once(const Type& known) {
  return std::max(int64_t{1}, int64_t(most_at_once / known.size));
}

using PackLarge = int(const void*, MPI_Count, MPI_Datatype, void*, MPI_Count, MPI_Count*, MPI_Comm);
using UnpackLarge = int(const void*, MPI_Count, MPI_Count*, void*, MPI_Count, MPI_Datatype,
                        MPI_Comm);

template <class Function>
Function* large_form(const char* name) {
  void* const found = variable_of_host(name);
  if (found == nullptr)
    throw std::runtime_error("an element of more than 2 GiB, with gaps, and the host MPI has no " +
                             std::string(name + 1));
  return reinterpret_cast<Function*>(found);
}

int host_packs(const void* from, int64_t count, MPI_Datatype type, char* to, MPI_Count bytes,
               MPI_Count* end) {
  if (bytes > INT_MAX)
    return large_form<PackLarge>("PMPI_Pack_c")(from, count, type, to, bytes, end, MPI_COMM_SELF);
  int short_end = 0;
  const int code = PMPI_Pack(from, int(count), type, to, int(bytes), &short_end, MPI_COMM_SELF);
  *end = short_end;
  return code;
}

int host_unpacks(const char* from, MPI_Count bytes, MPI_Count* end, int64_t count,
                 MPI_Datatype type, void* to) {
  if (bytes > INT_MAX)
    return large_form<UnpackLarge>("PMPI_Unpack_c")(from, bytes, end, to, count, type,
                                                    MPI_COMM_SELF);
  int short_end = 0;
  const int code = PMPI_Unpack(from, int(bytes), &short_end, to, int(count), type, MPI_COMM_SELF);
  *end = short_end;
  return code;
}

// MPI_BOTTOM, which MPICH refuses to pack from and to unpack to: the same elements, one, as seen
// from another address.
class FromElsewhere {
 public:
  FromElsewhere(const void* elsewhere, int64_t count, MPI_Datatype type) {
    int n = int(count);
    MPI_Aint bottom = -MPI_Aint(reinterpret_cast<intptr_t>(elsewhere));
    if (PMPI_Type_create_hindexed(1, &n, &bottom, type, &type_) != MPI_SUCCESS ||
        PMPI_Type_commit(&type_) != MPI_SUCCESS)
      throw std::runtime_error("the host MPI made no type of others");
  }
  ~FromElsewhere() { PMPI_Type_free(&type_); }
  FromElsewhere(const FromElsewhere&) = delete;
  FromElsewhere& operator=(const FromElsewhere&) = delete;
  MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

void pack_some(const void* from, int64_t count, MPI_Datatype type, char* to, int64_t bytes) {
  if (from == MPI_BOTTOM) return pack_some(to, 1, FromElsewhere(to, count, type).type(), to, bytes);
  MPI_Count end = 0;
  if (host_packs(from, count, type, to, bytes, &end) != MPI_SUCCESS || end != bytes)
    throw std::runtime_error("MPI_Pack failed");
}

void unpack_some(const char* from, int64_t bytes, int64_t count, MPI_Datatype type, void* to) {
  if (to == MPI_BOTTOM)
    return unpack_some(from, bytes, 1, FromElsewhere(from, count, type).type(), at(from, 0));
  MPI_Count end = 0;
  if (host_unpacks(from, bytes, &end, count, type, to) != MPI_SUCCESS || end != bytes)
    throw std::runtime_error("MPI_Unpack failed");
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
    const int64_t bytes = now * int64_t(known.size);
    pack_some(from, now, type, to, bytes);
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
    const int64_t bytes = now * int64_t(known.size);
    unpack_some(from, bytes, now, type, to);
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
