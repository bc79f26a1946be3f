#include "lib/tuning/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

#include "lib/base/fd.h"

namespace tutti {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t most_file_bytes = 1 << 20;

// Counts the lines that the parser has read.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, size_t* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    if (*at_ == '\n') ++*line_;
    ++at_;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  size_t* line_;
};

// Fills a table with what the parser finds; false from any of its functions ends the parsing.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(const size_t* line) : line_(line) {}

  const std::string& wrong() const { return wrong_; }
  size_t wrong_line() const { return wrong_line_; }
  int version() const { return version_; }
  const TuningTable& table() const { return table_; }

  // After the parsing: what can be seen only of the whole.
  bool check_whole() {
    line_of_key_ = *line_;
    if (version_ == 0) return refuse("\"tutti_tuning\", the version of the format, is missing");
    std::array<Field, 2> about{};
    if (const std::string why = why_not(table_.values(), &about); !why.empty()) {
      const size_t first = lines_[size_t(about[0])];  // 0: it is not there, but the other is
      line_of_key_ = first != 0 ? first : lines_[size_t(about[1])];
      return refuse(why);
    }
    if (!id_.empty() && id_ != table_.id()) {
      line_of_key_ = line_of_id_;
      return refuse("its id is that of other values, of these it is " + table_.id() +
                    "; who has changed them removes the id");
    }
    return true;
  }

  bool null() override { return refuse_type(); }
  bool boolean(bool) override { return refuse_type(); }
  bool binary(binary_t&) override { return refuse_type(); }
  bool number_integer(int64_t value) override { return number(double(value)); }
  bool number_unsigned(uint64_t value) override { return number(double(value)); }
  bool number_float(double value, const std::string&) override { return number(value); }
  bool string(std::string& value) override {
    if (depth_ == 2) return word(value);
    if (depth_ == 1 && key_ == "id") {
      id_ = value;
      line_of_id_ = line_of_key_;
      return true;
    }
    if (depth_ == 1 && key_ == "machine") {
      table_.machine = value;
      return true;
    }
    return refuse_type();
  }
  bool start_object(size_t) override {
    const bool fields = depth_ == 1 && (key_ == "measured" || key_ == "set");
    if (depth_ != 0 && !fields) return refuse_type();
    origin_ = key_ == "measured" ? Origin::measured : Origin::file;
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(size_t) override { return refuse_type(); }
  bool end_array() override { return true; }
  bool key(std::string& name) override {
    line_of_key_ = *line_;
    key_ = name;
    if (depth_ == 2) {
      if (!find_field(name, &field_)) return refuse("there is no field " + quoted(name));
      if (lines_[size_t(field_)] != 0) return refuse(quoted(name) + " is there twice");
      lines_[size_t(field_)] = line_of_key_;
      return true;
    }
    for (size_t i = 0; i < std::size(keys); ++i) {
      if (name != keys[i]) continue;
      if (seen_[i]) return refuse(quoted(name) + " is there twice");
      seen_[i] = true;
      return true;
    }
    return refuse("there is no " + quoted(name) + " in a tuning table");
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    line_of_key_ = *line_;
    return refuse("this is no JSON");
  }

 private:
  static constexpr const char* keys[] = {"tutti_tuning", "id", "machine", "measured", "set"};

  // Printable, and not longer than a sentence bears.
  static std::string quoted(const std::string& name) {
    std::string text = "\"";
    for (const char c : name.substr(0, 40)) text += c >= ' ' && c <= '~' ? c : '?';
    return text + (name.size() > 40 ? "...\"" : "\"");
  }
  bool refuse(std::string why) {
    wrong_ = std::move(why);
    wrong_line_ = line_of_key_;
    return false;
  }
  bool refuse_type() {
    if (depth_ == 0) return refuse("a tuning table is a JSON object");
    if (depth_ == 1) {
      return refuse(quoted(key_) + (key_ == "tutti_tuning" ? " must be an integer"
                                    : key_ == "id" || key_ == "machine"
                                        ? " must be a text"
                                        : " must be an object with fields"));
    }
    return refuse(std::string(tuning_field(field_).name) +
                  (tuning_field(field_).type == FieldInfo::Type::word
                       ? " must be \"auto\", \"always\" or \"never\""
                       : " must be a number"));
  }
  bool number(double value) {
    if (depth_ == 1 && key_ == "tutti_tuning") {
      // Nothing else can be relied on in another version.
      if (value >= 1 && value <= 1'000'000) version_ = int(value);
      if (value == tuning_version) return true;
      return refuse("its version is another one than " + std::to_string(tuning_version));
    }
    if (depth_ != 2 || tuning_field(field_).type == FieldInfo::Type::word) return refuse_type();
    return take(value);
  }
  bool word(const std::string& value) {
    Use use{};
    if (tuning_field(field_).type != FieldInfo::Type::word || !use_from_name(value, &use)) {
      return refuse_type();
    }
    return take(double(use));
  }
  bool take(double value) {
    std::string why = why_not(field_, value);
    if (!why.empty()) return refuse(std::move(why));
    table_.set(field_, value, origin_);
    return true;
  }

  const size_t* line_;
  TuningTable table_;
  int version_ = 0;
  std::string id_;
  int depth_ = 0;
  std::string key_;
  Field field_{};
  Origin origin_ = Origin::file;
  bool seen_[std::size(keys)] = {};
  std::array<size_t, field_count> lines_{};  // where each field is
  size_t line_of_key_ = 1, line_of_id_ = 1;
  std::string wrong_;
  size_t wrong_line_ = 1;
};

Status cannot(const char* what, const std::string& path) {
  return {TUTTI_INVALID,
          std::string("cannot ") + what + " the tuning table " + path + ": " + strerror(errno)};
}

}  // namespace

Status parse_tuning(std::string_view text, const std::string& name, TuningTable* out,
                    int* version) {
  size_t line = 1;
  Reader reader(&line);
  const bool parsed = nlohmann::json::sax_parse(Cursor(text.data(), &line),
                                                Cursor(text.data() + text.size(), &line), &reader);
  if (version != nullptr) *version = reader.version();
  if (!parsed || !reader.check_whole()) {
    return {TUTTI_INVALID,
            name + ", line " + std::to_string(reader.wrong_line()) + ": " + reader.wrong()};
  }
  *out = reader.table();
  return {};
}

std::string print_tuning(const TuningTable& table) {
  Json all{{"tutti_tuning", tuning_version}, {"id", table.id()}, {"machine", table.machine}};
  if (all["id"] == TuningTable().id()) all.erase("id");  // there is nothing that it is the id of
  for (const auto& [origin, key] :
       {std::pair(Origin::measured, "measured"), std::pair(Origin::file, "set")}) {
    for (size_t i = 0; i < field_count; ++i) {
      if (table.origin(Field(i)) != origin) continue;
      const double value = get(table.values(), Field(i));
      Json& to = all[key][tuning_fields()[i].name];
      switch (tuning_fields()[i].type) {
        case FieldInfo::Type::word:
          to = use_name(Use(value));
          break;
        case FieldInfo::Type::integer:
          to = uint64_t(value);
          break;
        case FieldInfo::Type::number:
          to = value;
          break;
      }
    }
  }
  return all.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

Status read_tuning(const std::string& path, TuningTable* out, int* version) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file) return cannot("open", path);
  struct stat found {};
  if (fstat(file.get(), &found) != 0) return cannot("read", path);
  if (!S_ISREG(found.st_mode)) {
    return {TUTTI_INVALID, "the tuning table " + path + " is no regular file"};
  }
  std::string text;
  for (;;) {
    char part[4096];
    const ssize_t got = ::read(file.get(), part, sizeof(part));
    if (got < 0) return cannot("read", path);
    if (got == 0) break;
    text.append(part, size_t(got));
    if (text.size() > most_file_bytes) {
      return {TUTTI_INVALID, "the tuning table " + path + " is longer than " +
                                 std::to_string(most_file_bytes) + " bytes"};
    }
  }
  TuningTable table;
  TUTTI_TRY(parse_tuning(text, path, &table, version));
  table.path = path;
  *out = std::move(table);
  return {};
}

Status write_tuning(const TuningTable& table, const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash != path.npos && slash != 0) ::mkdir(path.substr(0, slash).c_str(), 0777);
  const std::string text = print_tuning(table), beside = path + "." + std::to_string(getpid());
  const Fd file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) return cannot("write", path);
  const bool written = ::write(file.get(), text.data(), text.size()) == ssize_t(text.size()) &&
                       ::rename(beside.c_str(), path.c_str()) == 0;
  if (written) return {};
  Status failed = cannot("write", path);
  ::unlink(beside.c_str());
  return failed;
}

}  // namespace tutti
