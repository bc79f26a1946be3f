// Any text as checkpoint.json, as it stands and, where it is JSON, as contents with a checksum that
// fits: what is accepted makes sense and says what the text says; what is refused is so in one
// sentence.
#include <cstdlib>
#include <set>

#include "trainer/checkpoint/about.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/common/files.h"

using namespace tutti::train;
using nlohmann::json;

namespace {

bool accepts(const std::string& text, About* about) {
  try {
    *about = parse_about(text);
    return true;
  } catch (const Damaged& damaged) {
    const std::string why = damaged.what();
    if (why.empty() || why.find('\n') != why.npos) abort();
    return false;
  }
}

void check(const About& about, const json& contents) {
  if (about.step <= 0 || contents.at("step") != about.step) abort();
  if (about.copies <= 0 || contents.at("copies") != about.copies) abort();
  if (contents.at("data") != about.data_digest) abort();
  if (about.settings != contents.at("settings") || !about.settings.is_object()) abort();
  if (about.tensors != contents.at("tensors") || !about.identity.is_object()) abort();
  if (about.vocabulary && contents.at("vocabulary") != *about.vocabulary) abort();
  const json& files = contents.at("files");
  if (files.empty() || files.size() != about.files.size()) abort();
  std::set<std::string> names;
  for (size_t i = 0; i < files.size(); ++i) {
    const About::File& file = about.files[i];
    if (file.name.empty() || file.name.find('/') != file.name.npos) abort();
    if (!names.insert(file.name).second || files[i].at("bytes") != file.bytes) abort();
  }
  for (const auto& [name, boxes] : about.tensors.items())
    for (const json& box : boxes)
      if (box.at("file").get<size_t>() >= files.size()) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  About about;
  if (accepts(text, &about)) check(about, json::parse(text).at("contents"));
  const json contents = json::parse(text, nullptr, false);
  if (contents.is_discarded()) return 0;
  json whole = {{"format", format_version},
                {"sha256", sha256_of_text(contents.dump())},
                {"contents", contents}};
  if (accepts(whole.dump(2), &about)) check(about, contents);
  auto& digit = whole["sha256"].get_ref<std::string&>()[bytes % 64];
  digit = digit == '0' ? '1' : '0';
  if (accepts(whole.dump(), &about)) abort();
  return 0;
}
