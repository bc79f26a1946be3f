#include "trainer/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace tutti::train {
namespace {

using nlohmann::json;

constexpr uint64_t most_header = 100'000'000;

uint64_t width_of(const std::string& dtype) {
  static const std::map<std::string, uint64_t> widths = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
      {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
  const auto found = widths.find(dtype);
  if (found == widths.end()) throw Damaged(fmt::format("the type '{:.20}' is unknown", dtype));
  return found->second;
}

uint64_t number(const json& value) {
  if (!value.is_number_unsigned()) throw Damaged("a size is no number");
  return value.get<uint64_t>();
}

Tensor tensor_of(const std::string& name, const json& value, uint64_t room) {
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets") || !value["dtype"].is_string() ||
      !value["shape"].is_array() || !value["data_offsets"].is_array() ||
      value["data_offsets"].size() != 2)
    throw Damaged("a tensor has no type, shape or place");
  Tensor tensor{name,
                value["dtype"].get<std::string>(),
                {},
                number(value["data_offsets"][0]),
                number(value["data_offsets"][1])};
  if (tensor.begin > tensor.end || tensor.end > room)
    throw Damaged("a tensor lies outside the file");
  uint64_t bytes = width_of(tensor.dtype);
  for (const json& size : value["shape"]) {
    tensor.shape.push_back(number(size));
    if (__builtin_mul_overflow(bytes, tensor.shape.back(), &bytes))
      throw Damaged("a shape is too large");
  }
  if (bytes != tensor.end - tensor.begin) throw Damaged("a tensor's shape does not fit its bytes");
  return tensor;
}

}  // namespace

uint64_t header_size(std::string_view first, uint64_t file_size) {
  if (first.size() < 8 || file_size < 8) throw Damaged("it is too short");
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | uint8_t(first[i]);
  if (length > most_header || length > file_size - 8)
    throw Damaged("its header is longer than it may be");
  return length + 8;
}

Header parse_header(std::string_view head, uint64_t file_size) {
  Header header;
  header.size = header_size(head, file_size);
  if (head.size() < header.size) throw Damaged("it is too short");
  const std::string_view text = head.substr(8, header.size - 8);
  if (text.empty() || text.front() != '{') throw Damaged("its header does not begin with {");
  std::set<std::string> names;
  bool twice = false;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1)
      twice |= !names.insert(parsed.get<std::string>()).second;
    return true;
  };
  const json object = json::parse(text, watch, false);
  if (object.is_discarded() || !object.is_object()) throw Damaged("its header is no JSON");
  if (twice) throw Damaged("a name appears twice");
  for (const auto& [name, value] : object.items()) {
    if (name != "__metadata__") {
      header.tensors.push_back(tensor_of(name, value, file_size - header.size));
      continue;
    }
    if (!value.is_object()) throw Damaged("its metadata is no object");
    for (const auto& [key, word] : value.items()) {
      if (!word.is_string()) throw Damaged("its metadata is no text");
      header.metadata[key] = word.get<std::string>();
    }
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t next = 0;
  for (const Tensor& tensor : header.tensors) {
    if (tensor.begin != next) throw Damaged("tensors overlap, or leave holes");
    next = tensor.end;
  }
  if (next != file_size - header.size) throw Damaged("there are bytes that belong to no tensor");
  return header;
}

std::string make_header(const std::vector<Tensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  json object = json::object();
  if (!metadata.empty()) object["__metadata__"] = metadata;
  for (const Tensor& t : tensors)
    object[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {t.begin, t.end}}};
  std::string text = object.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string out;
  for (size_t i = 0; i < 8; ++i) out += char(text.size() >> (8 * i) & 0xff);
  return out + text;
}

}  // namespace tutti::train
