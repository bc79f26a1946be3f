// The one status type inside the library. Success is a null pointer and costs nothing to return.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tutti/tutti.h"

namespace tutti {

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(tutti_status code, std::string text, int rank = -1, uint64_t call = 0)
      : error_(new Error{code, rank, call, std::move(text)}) {}
  Status(Status&&) = default;
  Status& operator=(Status&&) = default;
  Status(const Status& other) : error_(other.error_ ? new Error(*other.error_) : nullptr) {}
  Status& operator=(const Status& other) {
    error_.reset(other.error_ ? new Error(*other.error_) : nullptr);
    return *this;
  }

  bool ok() const { return error_ == nullptr; }
  tutti_status code() const { return error_ ? error_->code : TUTTI_OK; }
  // The rank that the error is about, -1 if none in particular.
  int rank() const { return error_ ? error_->rank : -1; }
  // The number of the call on the communicator, 0 if none.
  uint64_t call() const { return error_ ? error_->call : 0; }
  const std::string& text() const {
    static const std::string none;
    return error_ ? error_->text : none;
  }

 private:
  struct Error {
    tutti_status code;
    int rank;
    uint64_t call;
    std::string text;
  };
  std::unique_ptr<Error> error_;
};

// SYSTEM, or NO_MEMORY where errno says so, with `what` and the words for errno.
Status system_error(const std::string& what, int error_number);

}  // namespace tutti

// Returns the status of `expression` from the enclosing function unless it is OK.
#define TUTTI_TRY(expression)                                                  \
  do {                                                                         \
    if (::tutti::Status status_ = (expression); !status_.ok()) return status_; \
  } while (0)
