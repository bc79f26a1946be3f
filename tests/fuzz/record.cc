// Flight records from anywhere: reading never misbehaves, what is read is in its limits, and the
// doctor says one line about it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "lib/record/read.h"
#include "tools/doctor/diagnose.h"

namespace {

using namespace tutti;
using namespace tutti::record;

// What is wrong with the header of a file that `framed` makes: chosen by the first byte.
enum class Spoilt : uint8_t { empty = 250, byte_order, version, library, slots, nothing };

Spoilt spoilt_by(const uint8_t* data, size_t size) {
  return size > 0 && data[0] >= uint8_t(Spoilt::empty) ? Spoilt(data[0]) : Spoilt::nothing;
}

// Random bytes would not get past the header: those of the input become a file's slots, with as
// many entries in order as the input fills.
std::vector<std::byte> framed(const uint8_t* data, size_t size) {
  const size_t slots = 1 + size / (sizeof(CommHeader) + 8 * sizeof(Entry));
  std::vector<std::byte> file(header_bytes + slots * slot_bytes);
  FileHeader header{};
  header.magic = magic;
  header.version = version;
  header.library = library_version();
  header.slots = uint32_t(slots);
  const Spoilt spoilt = spoilt_by(data, size);
  if (spoilt == Spoilt::empty) header.magic = 0;
  if (spoilt == Spoilt::byte_order) header.magic = __builtin_bswap64(magic);
  if (spoilt == Spoilt::version) ++header.version;
  if (spoilt == Spoilt::library) ++header.library;
  if (spoilt == Spoilt::slots) ++header.slots;
  std::memcpy(file.data(), &header, sizeof(header));
  for (size_t i = 0; i < slots; ++i) {
    std::byte* const slot = file.data() + header_bytes + i * slot_bytes;
    const auto take = [&](std::byte* to, size_t bytes) {
      const size_t there = std::min(bytes, size);
      std::memcpy(to, data, there);
      data += there;
      size -= there;
    };
    take(slot, sizeof(CommHeader));
    for (uint32_t sequence = 1; sequence <= 8; ++sequence) {
      std::byte* const entry = slot + offsetof(Slot, ring) + sequence * sizeof(Entry);
      take(entry, sizeof(Entry));
      const uint32_t ends[] = {sequence, tail_of(sequence, State(1 + sequence % 3))};
      std::memcpy(entry + offsetof(Entry, sequence), ends, sizeof(ends));
    }
  }
  return file;
}

// Whether it can be read.
bool check(const std::vector<std::byte>& file) {
  ReadProcess process;
  const Status read = record::read(file, "file", &process);
  if (!read.ok()) {
    if (!process.comms.empty() || read.text().find("file") != 0) std::abort();
    return false;
  }
  for (const ReadComm& comm : process.comms) {
    if (comm.rank < 0 || comm.rank >= comm.nranks || comm.calls.size() > ring_entries) std::abort();
    if (comm.wait.peer >= comm.nranks || comm.failure.rank >= comm.nranks) std::abort();
  }
  for (const doctor::Life life : {doctor::Life::running, doctor::Life::ended}) {
    const doctor::Diagnosis found = doctor::diagnose({{process, life, {}}}, 0);
    if (found.sentence.empty() || found.sentence.find('\n') != std::string::npos) std::abort();
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  check({bytes, bytes + size});
  if (check(framed(data, size)) != (spoilt_by(data, size) == Spoilt::nothing)) std::abort();
  return 0;
}
