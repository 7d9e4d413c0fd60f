// Linger: how long a connection that we have closed still takes what its peer sends, which is thrown away (RFC 9112
// §9.6). A peer that was sending a request finds its answer behind that; a flood is not waited for, nor a peer that
// sends more slowly than any request may.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "wire/unread_body.h"

namespace weir::net {

class Linger {
 public:
  static constexpr base::Duration kMoment = std::chrono::seconds(2);
  enum class For : uint8_t { kMoment, kRequest };

  Linger(base::Time now, For what) : since_(now), last_(now), for_(what) {}

  void took(size_t n, base::Time now) {
    bytes_ += n;
    last_ = now;
  }
  // There is no more time than a moment, in all.
  void cut_short() { for_ = For::kMoment; }
  // A peer that is silent from the beginning has sent all, or will not.
  bool goes_on(base::Time now, const wire::Limits& limits) const {
    if (now - since_ <= kMoment) return true;
    if (for_ == For::kMoment || bytes_ < least(now, limits) || bytes_ > wire::UnreadBody::most(limits)) return false;
    return wire::UnreadBody::in_time(now, since_, last_);
  }

 private:
  // So much has come by now of a body that keeps up Limits::min_body_rate. At least a byte.
  uint64_t least(base::Time now, const wire::Limits& limits) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - since_).count();
    return std::max<uint64_t>(uint64_t(seconds) * limits.min_body_rate, 1);
  }

  const base::Time since_;
  base::Time last_;
  uint64_t bytes_ = 0;
  For for_;
};

}  // namespace weir::net
