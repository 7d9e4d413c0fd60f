// FNV-1a with 64 bits, by bytes or by whole words (Fowler, Noll, Vo). For keys that nobody gains by making collide;
// where a client could, sip_hash.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace weir::base {

class Fnv {
 public:
  void add(uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001b3; }
  void add_bytes(std::string_view bytes) {
    for (char byte : bytes) add(static_cast<unsigned char>(byte));
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace weir::base
