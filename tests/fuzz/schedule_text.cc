// Schedule text from anywhere: parsing never misbehaves, what parses prints and parses again to the
// same, and the prover comes to a verdict on whatever it is given.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/schedule/prove.h"
#include "lib/schedule/text.h"

namespace {

using tutti::schedule::Program;

// The prover's memory grows with these, which a line of text can make large.
bool small(const std::vector<Program>& programs) {
  for (const Program& program : programs) {
    if (program.chunks > 256 || program.scratch_rows > 256) return false;
  }
  return programs.size() <= 64;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<Program> programs, again;
  Program one;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool parsed = parse(text, &programs).ok();
  if (parse(text, &one).ok() != (parsed && programs.size() == 1)) std::abort();
  if (!parsed) return 0;
  if (programs.size() == 1 && !(one == programs[0])) std::abort();
  if (!parse(print(programs), &again).ok() || again != programs) std::abort();
  if (!small(programs)) return 0;
  for (uint32_t c = 0; c < tutti::collective_count; ++c) {
    const auto verdict = prove(programs, static_cast<tutti::Collective>(c));
    if (verdict.sound() != verdict.failure.empty()) std::abort();
  }
  return 0;
}
