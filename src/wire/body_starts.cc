#include "wire/body_starts.h"

#include <algorithm>
#include <utility>

namespace weir::wire {

// Room for both bodies is taken at once, so that what has begun to be kept goes on.
BodyStart* BodyStarts::of(const Exchange& exchange) {
  if (auto found = open_.find(&exchange); found != open_.end()) return found->second.get();
  if ((open_.size() + 1) * 2 * each_ > kMostOpen) return nullptr;
  auto start = std::make_unique<BodyStart>();
  if (ledger_) start->charge = base::MemoryCharge(*ledger_, base::MemoryKind::kInput);
  if (!start->charge.grow(2 * each_)) return nullptr;
  return open_.emplace(&exchange, std::move(start)).first->second.get();
}

void BodyStarts::keep(std::string& start, std::span<const std::byte> piece) const {
  if (start.size() >= each_) return;
  start.append(reinterpret_cast<const char*>(piece.data()), std::min(piece.size(), each_ - start.size()));
}

void BodyStarts::received(const Exchange& exchange, std::span<const std::byte> piece) {
  if (BodyStart* start = of(exchange)) keep(start->request, piece);
}

void BodyStarts::sent(const Exchange& exchange, const base::Bytes& piece) {
  if (exchange.request().method == "HEAD") return;
  if (BodyStart* start = of(exchange)) keep(start->answer, piece.span());
}

std::unique_ptr<BodyStart> BodyStarts::take(const Exchange& exchange) {
  BodyStart* start = of(exchange);
  if (!start) return nullptr;
  if (start->request.empty()) keep(start->request, exchange.content().span());
  auto taken = std::move(open_.extract(&exchange).mapped());
  taken->request.shrink_to_fit(), taken->answer.shrink_to_fit();
  (void)taken->charge.resize(taken->request.size() + taken->answer.size());
  return taken;
}

}  // namespace weir::wire
