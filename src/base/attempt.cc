#include "base/attempt.h"

#include <exception>
#include <new>

#include "base/log.h"

namespace weir::base {
namespace {

Status described(std::string_view where) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return try_again(Code::kResourceExhausted, "out of memory; try again later");
  } catch (const std::exception& e) {
    log::error("an exception was thrown", {{"where", where}, {"what", e.what()}});
  } catch (...) {
    log::error("an exception was thrown", {{"where", where}});
  }
  return failure(Code::kInternal, "internal error");
}

}  // namespace

// Where there is no memory for the words the code has to do.
Status thrown(std::string_view where) noexcept {
  try {
    return described(where);
  } catch (...) {
    return {Code::kResourceExhausted, {}, {}};
  }
}

}  // namespace weir::base
