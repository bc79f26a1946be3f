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

void check(const std::vector<std::byte>& file) {
  ReadProcess process;
  const Status read = record::read(file, "file", &process);
  if (!read.ok()) {
    if (!process.comms.empty() || read.text().find("file") != 0) std::abort();
    return;
  }
  for (const ReadComm& comm : process.comms) {
    if (comm.rank < 0 || comm.rank >= comm.nranks || comm.calls.size() > ring_entries) std::abort();
    if (comm.wait.peer >= comm.nranks || comm.failure.rank >= comm.nranks) std::abort();
  }
  for (const doctor::Life life : {doctor::Life::running, doctor::Life::ended}) {
    const doctor::Diagnosis found = doctor::diagnose({{process, life, {}}}, 0);
    if (found.sentence.empty() || found.sentence.find('\n') != std::string::npos) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  check({bytes, bytes + size});
  check(framed(data, size));
  return 0;
}
