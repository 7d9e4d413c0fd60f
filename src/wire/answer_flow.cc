#include "wire/answer_flow.h"

#include <algorithm>
#include <string>
#include <utility>

#include "wire/rate_floor.h"

namespace weir::wire {
namespace {

constexpr size_t kWhole = 1 << 20, kPiece = 128 << 10;
constexpr size_t kBacklog = Exchange::kLowWater;  // written ahead of the socket
constexpr size_t kLeastPiece = 16 << 10;          // where there is no room for more
constexpr size_t kSmallPiece = 64 << 10;
constexpr base::Duration kScarceGrace = std::chrono::seconds(2);

}  // namespace

bool charge_piece(base::MemoryLedger* memory, base::Bytes& piece, SmallPieces& small) {
  if (piece.size() < base::kLeastCharged) return small.add(memory, piece.size());
  return base::charge(memory, base::MemoryKind::kAnswers, piece) || piece.size() <= kSmallPiece;
}

// The ledger is needed for the first charge only.
bool SmallPieces::follow(base::MemoryLedger* memory) {
  if (charge_.bytes() == 0) {
    if (!memory) return true;
    charge_ = {*memory, base::MemoryKind::kAnswers};
  }
  return charge_.resize(bytes_ / kStep * kStep);
}

uint64_t held_for_answer(Exchange& exchange) {
  const ExchangeListener* listener = exchange.listener();
  return exchange.content().size() + exchange.backlog() + (listener ? listener->held_for_answer() : 0);
}

DrainFloor drain_floor(const Limits& limits, uint64_t held, const base::SlabSource& slabs) {
  uint32_t rate = floor_rate(limits.min_drain_rate, held, slabs);
  if (rate > limits.min_drain_rate) return {rate, std::min(limits.grace, kScarceGrace), {}};
  return {rate, limits.grace, kDrainCredit};
}

bool AnswerReservation::take(uint64_t most) {
  if (most <= kSmallPiece) return true;
  memory_ = exchange_.memory();
  if (memory_) charge_ = {*memory_, base::MemoryKind::kAnswers};
  return charge_.grow(most);
}

bool AnswerReservation::settle(base::Bytes& made) {
  charge_.clear();
  return !memory_ || base::charge(memory_, base::MemoryKind::kAnswers, made);
}

base::Status no_room_for_answer() { return base::overloaded("there is no memory for the answer; try again later"); }

base::Status PiecewiseAnswer::start(std::string_view content_type, Exchange::Compress compress,
                                    std::unique_ptr<TextSource> source) {
  source_ = std::move(source);
  if (exchange_.responding()) {
    pump();
    return {};
  }
  std::string text;
  const bool more = source_->write(text, kWhole);
  auto first = base::adopt(exchange_.memory(), base::MemoryKind::kAnswers, std::move(text));
  if (!first) {
    source_.reset();
    exchange_.record().reject = reason::kOverload;
    return no_room_for_answer();
  }
  if (!more) {
    source_.reset();
    exchange_.respond(200, content_type, *std::move(first), compress);
    return {};
  }
  Response response;
  response.fields.add("content-type", content_type);
  exchange_.head(std::move(response));
  exchange_.body(*std::move(first));
  pump();
  return {};
}

// A backlog always remains while there is more to come, so that on_drain() comes.
void PiecewiseAnswer::pump() {
  while (source_ && exchange_.backlog() < kBacklog) {
    base::MemoryLedger* memory = exchange_.memory();
    base::MemoryCharge room = memory ? base::MemoryCharge(*memory, base::MemoryKind::kAnswers) : base::MemoryCharge();
    const bool plenty = room.grow(kPiece);
    if (!plenty && exchange_.backlog() > 0) break;
    (void)room.resize(0);
    std::string text;
    const bool more = source_->write(text, plenty ? kPiece : kLeastPiece);
    const size_t before = exchange_.backlog();
    exchange_.body(base::Bytes::adopt(std::move(text)));
    const bool taken = exchange_.backlog() > before;  // not by an Exchange that has been broken off
    if (more && taken) continue;
    source_.reset();
    exchange_.end();
  }
  if (source_) exchange_.call_on_drain();
}

}  // namespace weir::wire
