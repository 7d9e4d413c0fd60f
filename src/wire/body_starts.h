// BodyStarts: keeps the first bytes of request and response bodies, for people who may see them (console.bodies).
//
// Codecs hand over the pieces of streamed requests and of responses; the Observer that is told of an Exchange's end
// takes them. A request body that was read whole need not be handed over: Exchange::content() has it. If the setting is
// off, there is no BodyStarts (CodecEnv::starts is null), and a codec pays for comparing a pointer.
//
// One per shard, on its thread. The bytes are charged to the ledger, at most kMostOpen of them for Exchanges that have
// not ended; if there is no room, nothing of an Exchange is kept.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>

#include "base/bytes.h"
#include "base/memory_ledger.h"
#include "wire/exchange.h"

namespace weir::wire {

// Both bodies of one Exchange, as they were on the wire: an answer that was compressed is compressed.
struct BodyStart {
  std::string request, answer;
  base::MemoryCharge charge;
};

class BodyStarts {
 public:
  static constexpr size_t kMostOpen = 16 << 20;

  // `each`: bytes of one body, at least 1. Without a ledger nothing is charged.
  BodyStarts(size_t each, base::MemoryLedger* ledger) : each_(each), ledger_(ledger) {}

  // Only of Exchanges that the Intake knows of: its closed() comes for each of them, and somebody calls take() there.
  void received(const Exchange& exchange, std::span<const std::byte> piece);
  void sent(const Exchange& exchange, const base::Bytes& piece);
  // The Exchange has ended. Null: nothing of it was kept.
  std::unique_ptr<BodyStart> take(const Exchange& exchange);

  size_t open() const { return open_.size(); }

 private:
  BodyStart* of(const Exchange& exchange);
  void keep(std::string& start, std::span<const std::byte> piece) const;

  const size_t each_;
  base::MemoryLedger* const ledger_;
  std::unordered_map<const Exchange*, std::unique_ptr<BodyStart>> open_;
};

}  // namespace weir::wire
