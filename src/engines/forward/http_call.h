// HttpCall: one request of ours to an origin, from send() to its last word. The meaning of the answer is for those who
// derive from it. On one shard's thread.
#pragma once

#include <string_view>

#include "base/status.h"
#include "engines/forward/kind.h"
#include "engines/forward/origin_conn.h"

namespace weir::forward {

class HttpCall : public OriginCall {
 public:
  // Ends a call that is under way: nothing is called any more.
  void cancel();
  bool under_way() const { return conn_ != nullptr; }
  // Something of an answer has come.
  bool answered() const { return answered_; }
  // The origin may go on: there is room for what was held back.
  void let_go();
  // The answer has not come in time: ends it, by way of on_over(), and its connection gets no more calls.
  void give_up_late(base::Status status);

 protected:
  ~HttpCall() { cancel(); }

  enum class Next : uint8_t { kGoOn, kOver };  // kOver: the call has been ended meanwhile, and may be gone
  virtual Next on_answer(int status, const wire::Fields& fields) = 0;
  virtual Next on_piece(std::span<const std::byte> piece) = 0;
  // As wire::ClientAnswer::receive_buffer().
  std::span<std::byte> receive_buffer() override { return {}; }
  // The answer is whole: the status of its end.
  virtual base::Status on_whole(const wire::Fields& trailers) = 0;
  // The last call; texts do not name the origin yet. May destroy this.
  virtual void on_over(base::Status status, From from) = 0;
  // Messages wait for somebody; the origin is held back until let_go().
  virtual bool holds() const { return false; }

  // Errors: those of OriginConn::send(); then nothing is called.
  base::Status send(OriginConn& conn, wire::ClientRequest&& request);
  // Ends it with that status, by way of on_over().
  Next give_up(base::Status status, From from = From::kOrigin);

 private:
  void on_head(int status, const wire::Fields& fields) final;
  size_t on_body(std::span<const std::byte> piece) final;
  void on_end(const wire::Fields& trailers) final;
  void on_failed(const base::Status& why) final;
  void leave();

  OriginConn* conn_ = nullptr;  // while it is under way
  size_t owed_ = 0;             // bytes to be consumed once nothing is held
  bool answered_ = false;
};

}  // namespace weir::forward
