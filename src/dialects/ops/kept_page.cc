#include "dialects/ops/kept_page.h"

#include <utility>

#include "base/memory_ledger.h"
#include "wire/coding.h"

namespace weir::ops {

wire::Coding KeptPage::coding_for(const wire::Exchange& exchange) {
  return wire::choose_coding(exchange.request().fields.find("accept-encoding"));
}

bool KeptPage::coded(wire::Coding coding) const {
  return coding != wire::Coding::kIdentity && wire::worth_coding(plain().size());
}

// Where there is no room for the charge, the answer asks for it, and is refused.
void KeptPage::prepare(wire::Coding coding, base::MemoryLedger* memory) {
  base::Bytes& page = by_coding_[coded(coding) ? size_t(coding) : 0];
  if (coded(coding) && page.empty()) page = wire::deflate(coding, {&plain(), 1});
  (void)base::charge(memory, base::MemoryKind::kAnswers, page);
}

void KeptPage::respond(wire::Exchange& exchange, wire::Response head, std::string_view vary) {
  const auto coding = coding_for(exchange);
  prepare(coding, exchange.memory());
  head.fields.add("vary", vary.empty() ? "accept-encoding" : std::string(vary) + ", accept-encoding");
  if (coded(coding)) head.fields.add("content-encoding", wire::name(coding));
  exchange.respond(std::move(head), by_coding_[coded(coding) ? size_t(coding) : 0]);
}

}  // namespace weir::ops
