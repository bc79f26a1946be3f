// checkpoint.json: what it says of a checkpoint, and nothing about whether that is so.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tutti::train {

constexpr int format_version = 3;

struct About {
  struct File {
    std::string name;  // in the checkpoint's folder
    uint64_t bytes = 0;
    std::string sha256;
  };
  int64_t step = 0;
  int copies = 0;                     // of the model, that summed gradients
  nlohmann::json identity, settings;  // objects: what the run computes, and what may change
  uint64_t data_digest = 0;
  std::vector<File> files;                // at least one
  nlohmann::json tensors;                 // by name an array of boxes, each in one of the files
  std::optional<std::string> vocabulary;  // SHA-256
  std::vector<std::string> scales;        // of the ranks' losses; empty: they were not scaled
};

// Throws Damaged (safetensors.h) unless the text is one that has its checksum, and makes sense.
About parse_about(const std::string& text);

}  // namespace tutti::train
