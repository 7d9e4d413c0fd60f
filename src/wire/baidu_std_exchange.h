// BaiduExchange: the Exchange of one request of baidu_std. To the layers above it is a gRPC call over HTTP/2 with one
// message: they see its frame, and what they answer, status and all, becomes one packet, when it is whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/recycled.h"
#include "wire/answer_flow.h"
#include "wire/baidu_std_packet.h"
#include "wire/byte_charge.h"
#include "wire/exchange.h"

namespace weir::wire {

class BodyStarts;

class BaiduExchange final : public Exchange, public base::Recycled<BaiduExchange> {
 public:
  // Its connection; it outlives this.
  class Owner {
   public:
    // The answer is whole: these bytes, and the message behind them. They are the owner's now, and so is its end.
    virtual void answer(BaiduExchange& x, std::string head, std::vector<base::Bytes> message) = 0;
    // The answer cannot be told in one packet: abandon() is wanted, not from inside this.
    virtual void abandon_soon() = 0;
    // `n` bytes of its request have been dealt with.
    virtual void consumed(BaiduExchange& x, size_t n) = 0;
    // How many bytes of the connection's output, up to `to`, the socket has not taken yet.
    virtual size_t unsent(uint64_t to) const = 0;
    virtual base::Time now() const = 0;
    virtual base::MemoryLedger* memory() const = 0;
    virtual BodyStarts* starts() const = 0;

   protected:
    ~Owner() = default;
  };

  // About what one takes beside its request's meta.
  static constexpr size_t kOwnCost = 2048;

  BaiduExchange(Owner& owner, const BaiduRequest& request, const PeerInfo& peer, std::string_view credential);
  using Exchange::name_client;

  // Exchange
  void head(Response response) override;
  void body(base::Bytes piece) override;
  void end(Fields trailers) override;
  void reset(Reset why) override;
  bool responding() const override { return headed_; }
  // Nothing can leave before it is whole.
  size_t backlog() const override { return ended_ ? owner_.unsent(to) : 0; }
  void consume(size_t n) override { owner_.consumed(*this, n); }
  base::Time now() const override { return owner_.now(); }
  base::MemoryLedger* memory() override { return owner_.memory(); }

  // Hands it to the services. False: it has been answered already.
  bool begin(Intake& intake);
  // A piece of the request, framed as gRPC frames it.
  void received(std::span<const std::byte> piece);
  // Where to read the next bytes of the message, or empty (Codec::receive_buffer()).
  std::span<std::byte> receive_buffer() {
    return listener_ && !ended_ ? listener_->receive_buffer() : std::span<std::byte>();
  }
  // Answers with an error in place of what there is of an answer.
  void fail(base::Code code, std::string_view text);
  // Its answer has more messages than one, and its method may go on: ends it.
  void abandon();
  bool wants_abandon() const { return several_ && !ended_; }
  // Tells the ExchangeListener and the Intake that it is over. Last call.
  void close(Intake& intake, bool complete);

  uint64_t to = 0;          // where its answer ends in the connection's output, once it has ended
  uint64_t unconsumed = 0;  // bytes of the request that the service has not dealt with
  uint64_t charged = 0;     // of its meta

 private:
  void add_field(std::string_view name, std::string_view value);
  void collect(base::Bytes piece);
  void add_fields(BaiduAnswer& to, const Fields& fields) const;
  void finish(const BaiduAnswer& answer, std::vector<base::Bytes> message);

  Owner& owner_;
  const int64_t correlation_id_;
  Response response_;
  std::vector<base::Bytes> message_;
  std::string prefix_;  // of the message's frame, as much as there is
  uint64_t left_ = 0;   // of the message, once its prefix is whole
  SmallPieces small_;
  ByteCharge usage_;
  bool begun_ = false;  // the Intake knows of it
  bool headed_ = false, ended_ = false, several_ = false;
};

}  // namespace weir::wire
