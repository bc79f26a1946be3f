#include "trainer/checkpoint/about.h"

#include <fmt/format.h>

#include <limits>
#include <set>

#include "trainer/checkpoint/safetensors.h"
#include "trainer/common/files.h"
#include "trainer/data/vocabulary.h"

namespace tutti::train {
namespace {

using nlohmann::json;

constexpr uint64_t any = std::numeric_limits<uint64_t>::max();

void only(bool makes_sense, const std::string& otherwise) {
  if (!makes_sense) throw Damaged("checkpoint.json is damaged: " + otherwise);
}

// A number from 0 to `most`.
uint64_t number_in(const json& object, const char* name, uint64_t most) {
  const json& number = object.at(name);
  only(number.is_number_unsigned() && number.get<uint64_t>() <= most,
       fmt::format("its {} is no number, or one that cannot be", name));
  return number;
}

About about_of(const json& contents) {
  About about;
  about.step = int64_t(number_in(contents, "step", std::numeric_limits<int64_t>::max()));
  about.copies = int(number_in(contents, "copies", std::numeric_limits<int>::max()));
  about.identity = contents.at("identity");
  about.settings = contents.at("settings");
  about.data_digest = number_in(contents, "data", any);
  about.tensors = contents.at("tensors");
  only(about.step > 0, "no step has that number");
  only(about.copies > 0, "it has no copy of the model");
  only(about.identity.is_object(), "its identity is no object");
  if (!about.identity.contains("tokens")) about.identity["tokens"] = Vocabulary::bytes;
  only(about.settings.is_object(), "its settings are no object");
  only(about.tensors.is_object(), "its tensors are no object");
  const json& files = contents.at("files");
  only(files.is_array() && !files.empty(), "it has no files");
  std::set<std::string> names;
  for (const json& file : files) {
    const auto name = file.at("name").get<std::string>();
    only(!name.empty() && name.find('/') == std::string::npos && names.insert(name).second,
         "its files' names are no names");
    about.files.push_back({name, number_in(file, "bytes", any), file.at("sha256")});
    if (file.contains("loss-scale")) about.scales.push_back(file.at("loss-scale"));
  }
  // Older ones have one for all ranks.
  if (about.scales.empty() && about.settings.contains("loss-scale"))
    about.scales.push_back(about.settings.at("loss-scale"));
  for (const auto& [tensor, boxes] : about.tensors.items()) {
    only(boxes.is_array(), "a tensor has no boxes");
    for (const json& box : boxes)
      only(box.at("file").is_number_unsigned() && box.at("file").get<size_t>() < files.size() &&
               box.at("box").is_string(),
           "a tensor is in no file");
  }
  if (contents.contains("vocabulary")) about.vocabulary = contents.at("vocabulary");
  return about;
}

}  // namespace

About parse_about(const std::string& text) {
  const json about = json::parse(text, nullptr, false);
  if (!about.is_object()) throw Damaged("checkpoint.json is missing or damaged");
  try {
    if (about.at("format") != format_version)
      throw Damaged(
          fmt::format("it has format {}, not {}", about.at("format").dump(), format_version));
    if (sha256_of_text(about.at("contents").dump()) != about.at("sha256"))
      throw Damaged("checkpoint.json does not have its checksum");
    return about_of(about["contents"]);
  } catch (const json::exception&) {
    throw Damaged("checkpoint.json is damaged");
  }
}

}  // namespace tutti::train
