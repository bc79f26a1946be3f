// The safetensors file format: 8 bytes with the length of the JSON, the JSON, then the tensors'
// bytes. No number in a file is trusted.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::train {

// A file is damaged: says how, not which file.
struct Damaged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Tensor {
  std::string name;
  std::string dtype;  // "F32", ...
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes, from the end of the header
};

struct Header {
  std::vector<Tensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  uint64_t size = 0;  // where the tensors' bytes begin
};

// `head`: the file's first bytes, at least the header; `file_size`: of the whole file. Throws
// Damaged unless the tensors fill the rest of the file without overlap or holes.
Header parse_header(std::string_view head, uint64_t file_size);
// The length of a header that begins with these 8 bytes, including them. Throws Damaged beyond 100
// MB.
uint64_t header_size(std::string_view first, uint64_t file_size);

// The bytes before the tensors' own; their length is a multiple of 8.
std::string make_header(const std::vector<Tensor>& tensors,
                        const std::map<std::string, std::string>& metadata);

}  // namespace tutti::train
