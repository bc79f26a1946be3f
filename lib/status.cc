#include "status.h"

#include <cerrno>
#include <system_error>

namespace tutti {

Status system_error(const std::string& what, int error_number) {
  const tutti_status code = error_number == ENOMEM ? TUTTI_NO_MEMORY : TUTTI_SYSTEM;
  return {code, what + ": " + std::generic_category().message(error_number)};
}

}  // namespace tutti
