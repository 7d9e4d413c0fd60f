// Strong ids: two ids of different kinds never mix.
#pragma once

#include <compare>
#include <cstdint>

namespace weir::base {

enum class ShardId : uint16_t {};
enum class ExchangeId : uint64_t {};

// 128 random bits; zero means none.
struct SessionId {
  uint64_t high = 0;
  uint64_t low = 0;
  explicit operator bool() const { return high != 0 || low != 0; }
  friend auto operator<=>(const SessionId&, const SessionId&) = default;
};

}  // namespace weir::base
