// HttpDate: the time of day as the `Date` field of responses says it (RFC 9110 §5.6.7 and §6.6.1), put together once a
// second. One per shard, on its thread.
#pragma once

#include <array>
#include <string_view>

#include "base/env.h"

namespace weir::wire {

class HttpDate {
 public:
  static constexpr size_t kLine = 37;  // bytes of line()

  explicit HttpDate(const base::Env& env) : env_(env) {}
  HttpDate(const HttpDate&) = delete;

  // "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", and the part of it behind the colon. The memory stays where it is; what
  // it says moves on with the next call in another second.
  std::string_view line() {
    if (env_.now() >= until_) renew();
    return {text_.data(), text_.size()};
  }
  std::string_view value() { return line().substr(6, 29); }

 private:
  void renew();

  const base::Env& env_;
  base::Time until_ = base::Time::min();  // the second in text_ ends then
  std::array<char, kLine> text_;
};

}  // namespace weir::wire
