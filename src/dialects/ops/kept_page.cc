#include "dialects/ops/kept_page.h"

#include <utility>

#include "base/memory_ledger.h"
#include "wire/coding.h"

namespace weir::ops {

// Where there is no room for the charge, the answer asks for it, and is refused.
void KeptPage::respond(wire::Exchange& exchange, wire::Response head, std::string_view vary) {
  const base::Bytes& plain = by_coding_[0];
  const auto coding = wire::choose_coding(exchange.request().fields.find("accept-encoding"));
  const bool coded = coding != wire::Coding::kIdentity && wire::worth_coding(plain.size());
  base::Bytes& page = by_coding_[coded ? size_t(coding) : 0];
  if (page.empty()) page = wire::deflate(coding, {&plain, 1});
  (void)base::charge(exchange.memory(), base::MemoryKind::kAnswers, page);
  head.fields.add("vary", vary.empty() ? "accept-encoding" : std::string(vary) + ", accept-encoding");
  if (coded) head.fields.add("content-encoding", wire::name(coding));
  exchange.respond(std::move(head), page);
}

}  // namespace weir::ops
