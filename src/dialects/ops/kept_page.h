// KeptPage: a page that is made once and sent to many. Its answers share its memory, so it is charged once, and not
// with each of them; each coding of it is made once, too. The shard's thread.
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
  // Makes it in that coding, on any thread, so that respond() need not: a megabyte takes 20 ms. Nothing for a page that
  // is sent as it is, or was made so.
  void prepare(wire::Coding coding);
  // Answers with the page in the coding that the request prefers. `vary`: the request's fields on which the answer
  // depends beside accept-encoding, as in "accept".
  void respond(wire::Exchange& exchange, wire::Response head, std::string_view vary = {});

 private:
  bool coded(wire::Coding coding) const;

  std::array<base::Bytes, 3> by_coding_;  // wire::Coding; empty: not made yet
};

}  // namespace weir::ops
