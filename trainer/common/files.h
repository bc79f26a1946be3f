// Files that are written as a whole or not at all.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::train {

// A file that is being written, with the SHA-256 of its contents so far. Throws std::system_error.
class DurableFile {
 public:
  explicit DurableFile(const std::string& path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  void write(const void* bytes, size_t size);
  // Syncs the file to the disk and closes it. Returns the digest in hexadecimal.
  std::string close();
  uint64_t size() const { return size_; }

 private:
  int fd_;
  uint64_t size_ = 0;
  void* digest_;
};

// Whole files. Throw std::system_error, which names them.
void write_file(const std::string& path, const std::string& text);
std::string read_file(const std::string& path);

void sync_folder(const std::string& path);
// In hexadecimal, of a whole file ("" if it cannot be read), and of a text.
std::string sha256_of(const std::string& path);
std::string sha256_of_text(const std::string& text);

}  // namespace tutti::train
