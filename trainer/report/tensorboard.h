// --tensorboard: an event file, as TensorBoard reads it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace tutti::train {

class EventFile {
 public:
  // Makes the folder, and in it a file with a name that no other run has; throws BadInput if it
  // cannot.
  explicit EventFile(const std::string& folder);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  // Values of a step, by tag. Throws Failure if they cannot be written.
  void add(int64_t step, const std::vector<std::pair<std::string, double>>& values);

 private:
  void write(const std::string& event);
  std::string path_;
  std::FILE* file_;
};

}  // namespace tutti::train
