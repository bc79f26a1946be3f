// Any bytes as a checkpoint file: what is accepted fills the file exactly, and means the same when
// it is written and read again.
#include "trainer/checkpoint/safetensors.h"

#include <cstdlib>

using namespace tutti::train;

namespace {

void check(std::string_view file) {
  Header header;
  try {
    header = parse_header(file, file.size());
  } catch (const Damaged&) {
    return;
  }
  uint64_t end = 0;
  for (const Tensor& tensor : header.tensors) {
    if (tensor.begin != end) abort();
    end = tensor.end;
  }
  if (header.size + end != file.size()) abort();
  const std::string again = make_header(header.tensors, header.metadata);
  const Header read = parse_header(again, again.size() + end);
  if (read.tensors.size() != header.tensors.size() || read.metadata != header.metadata) abort();
  for (size_t i = 0; i < read.tensors.size(); ++i)
    if (read.tensors[i].end != header.tensors[i].end) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  check(text);
  // Once more with a length that fits.
  std::string fitting;
  for (size_t i = 0; i < 8; ++i) fitting += char(text.size() >> (8 * i) & 0xff);
  check(fitting + text);
  return 0;
}
