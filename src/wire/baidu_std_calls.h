// BaiduCalls: the calls of one connection of baidu_std: those at work, and those whose answers are on their way.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "wire/baidu_std_exchange.h"
#include "wire/output_connection.h"

namespace weir::wire {

// BaiduConnection: what the parts of the connection share.
struct BaiduConnection : OutputConnection {
  using OutputConnection::OutputConnection;

  SmallPieces small;  // of the output: what is not charged by itself
  bool over = false;  // nothing more is read
};

class BaiduCalls final : BaiduExchange::Owner {
 public:
  explicit BaiduCalls(BaiduConnection& connection) : connection_(connection) {}

  // It becomes current(). `charged`: bytes that heads has taken for it.
  BaiduExchange& add(const BaiduRequest& request, std::string_view credential, size_t charged);
  // The one whose message is being read; null: the message is nobody's any more.
  BaiduExchange* current() const { return current_; }
  BaiduExchange* take_current() { return std::exchange(current_, nullptr); }

  // As many as may be at work or wait for the peer, or as much: no other begins.
  bool crowded() const {
    return open_.size() + answered_.size() >= connection_.env.limits.streams ||
           connection_.output.size() > Exchange::kHighWater;
  }
  bool idle() const { return open_.empty() && answered_.empty(); }
  bool all_answered() const { return open_.empty(); }
  uint64_t held_for_answers() const;
  // For the record of the one that the peer does not take.
  void reject_first(std::string_view reason);

  // The socket has taken a part of the output: calls whose answer is gone are over.
  void output_taken();
  // Ends those that BaiduExchange::wants_abandon().
  void abandon_marked();
  void close_unanswered() { close(open_, false); }
  void close_all();

 private:
  using Exchanges = std::vector<std::unique_ptr<BaiduExchange>>;

  // BaiduExchange::Owner
  void answer(BaiduExchange& x, std::string head, std::vector<base::Bytes> message) override;
  void abandon_soon() override { connection_.wire.tick_soon(); }
  void consumed(BaiduExchange& x, size_t n) override;
  size_t unsent(uint64_t to) const override { return size_t(to - std::min(to, connection_.output.sent())); }
  base::Time now() const override { return connection_.wire.now(); }
  base::MemoryLedger* memory() const override { return connection_.memory; }
  BodyStarts* starts() const override { return connection_.env.starts; }

  void close(Exchanges& list, bool complete);

  BaiduConnection& connection_;
  Exchanges open_;      // that have no whole answer yet
  Exchanges answered_;  // in the order of their answers in the output
  BaiduExchange* current_ = nullptr;
};

}  // namespace weir::wire
