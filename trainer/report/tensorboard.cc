// The file is of TFRecords: length, its checksum, an Event message of protobuf, its checksum. The
// messages are written here field by field (tensorflow/core/util/event.proto,
// framework/summary.proto).
#include "trainer/report/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "trainer/common/error.h"

namespace tutti::train {
namespace {

// CRC-32C, masked as in TFRecords.
uint32_t checksum(const std::string& bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < 256; ++i) {
      made[i] = i;
      for (int bit = 0; bit < 8; ++bit) made[i] = made[i] >> 1 ^ (made[i] & 1 ? 0x82f63b78u : 0);
    }
    return made;
  }();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ table[(crc ^ uint8_t(c)) & 255];
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

// Little-endian, whatever the host.
template <class Value>
std::string fixed(Value value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i) bytes += char(value >> 8 * i & 255);
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += char(value | 128);
  return bytes + char(value);
}

// Fields of protobuf, by their wire types.
std::string key(uint64_t number, uint64_t type) { return varint(number << 3 | type); }
std::string integer(uint64_t number, uint64_t value) { return key(number, 0) + varint(value); }
std::string text(uint64_t number, const std::string& value) {
  return key(number, 2) + varint(value.size()) + value;
}
std::string real(uint64_t number, double value) {
  return key(number, 1) + fixed(std::bit_cast<uint64_t>(value));
}
std::string single(uint64_t number, float value) {
  return key(number, 5) + fixed(std::bit_cast<uint32_t>(value));
}

std::string at_this_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return real(1, std::chrono::duration<double>(now).count());
}

std::string new_path(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw BadInput(fmt::format("--tensorboard {}: {}", folder, error.message()));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  return fmt::format("{}/events.out.tfevents.{}.{}.tutti", folder, seconds, getpid());
}

}  // namespace

EventFile::EventFile(const std::string& folder)
    : path_(new_path(folder)), file_(std::fopen(path_.c_str(), "wbx")) {
  if (!file_) throw BadInput(fmt::format("--tensorboard {}: {}", folder, std::strerror(errno)));
  write(at_this_time() + text(3, "brain.Event:2"));
}

EventFile::~EventFile() { std::fclose(file_); }

void EventFile::add(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;
  for (const auto& [tag, value] : values)
    summary += text(1, text(1, tag) + single(2, float(value)));
  write(at_this_time() + integer(2, uint64_t(step)) + text(5, summary));
}

void EventFile::write(const std::string& event) {
  const std::string length = fixed(uint64_t(event.size()));
  const std::string record = length + fixed(checksum(length)) + event + fixed(checksum(event));
  if (std::fwrite(record.data(), 1, record.size(), file_) != record.size() ||
      std::fflush(file_) != 0)
    throw Failure(fmt::format("--tensorboard: cannot write {}: {}", path_, std::strerror(errno)));
}

}  // namespace tutti::train
