// KeptPage: a page that is made once and sent to many. Its answers share its memory, so it is charged once, and not
// with each of them; each coding of it is made once, too. Any one thread at a time; copies share what was made.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "wire/coding.h"
#include "wire/exchange.h"

namespace weir::ops {

class KeptPage {
 public:
  KeptPage() = default;
  explicit KeptPage(std::string text) : by_coding_{base::Bytes::adopt(std::move(text))} {}

  bool empty() const { return by_coding_[0].empty(); }
  const base::Bytes& plain() const { return by_coding_[0]; }
  // The coding in which respond() will send it to this request.
  static wire::Coding coding_for(const wire::Exchange& exchange);
  // Makes and charges what a request of that coding gets, so that respond() need not: a megabyte takes 20 ms to
  // compress. Nothing for what was prepared before.
  void prepare(wire::Coding coding, base::MemoryLedger* memory);
  // Answers with the page in the coding that the request prefers. `vary`: the request's fields on which the answer
  // depends beside accept-encoding, as in "accept".
  void respond(wire::Exchange& exchange, wire::Response head, std::string_view vary = {});

 private:
  bool coded(wire::Coding coding) const;

  std::array<base::Bytes, 3> by_coding_;  // wire::Coding; empty: not made yet
};

}  // namespace weir::ops
