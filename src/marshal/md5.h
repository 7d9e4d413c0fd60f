// Md5: RFC 1321, for clients that check by it what has arrived. It protects from accidents and from nobody else.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::marshal {

// A value: a copy goes on from where the first one is.
class Md5 {
 public:
  void add(std::string_view bytes);
  // The sum of all that was added, in hex.
  std::string hex() const;

 private:
  static constexpr size_t kBlock = 64;
  void take(const char* block);

  std::array<uint32_t, 4> state_{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  uint64_t bytes_ = 0;
  std::array<char, kBlock> rest_{};  // the first bytes_ % kBlock of it
};

}  // namespace weir::marshal
