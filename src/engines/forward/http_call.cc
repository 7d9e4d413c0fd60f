#include "engines/forward/http_call.h"

#include <utility>

namespace weir::forward {

using base::Code;
using base::Status;

Status HttpCall::send(OriginConn& conn, wire::ClientRequest&& request) {
  owed_ = 0, answered_ = false;
  conn_ = &conn;  // the last word may come from inside
  Status status = conn.send(*this, std::move(request));
  if (!status.ok()) conn_ = nullptr;
  return status;
}

// Its place at the origin is free.
void HttpCall::leave() {
  if (auto* conn = std::exchange(conn_, nullptr)) conn->leave(*this);
}

void HttpCall::cancel() {
  if (auto* conn = std::exchange(conn_, nullptr)) conn->cancel(*this);
}

HttpCall::Next HttpCall::give_up(Status status, From from) {
  cancel();
  on_over(std::move(status), from);
  return Next::kOver;
}

void HttpCall::give_up_late(Status status) {
  if (auto* conn = std::exchange(conn_, nullptr)) conn->suspect(*this);
  on_over(std::move(status), From::kOrigin);
}

void HttpCall::let_go() {
  if (conn_ && owed_ > 0) conn_->consume(*this, std::exchange(owed_, 0));
}

void HttpCall::on_head(int status, const wire::Fields& fields) {
  answered_ = true;
  if (conn_) conn_->note_head(fields);
  (void)on_answer(status, fields);
}

size_t HttpCall::on_body(std::span<const std::byte> piece) {
  const size_t size = piece.size();
  if (on_piece(piece) == Next::kOver || !holds()) return size;
  owed_ += size;
  return 0;
}

void HttpCall::on_end(const wire::Fields& trailers) {
  Status status = on_whole(trailers);
  leave();
  on_over(std::move(status), From::kOrigin);
}

void HttpCall::on_failed(const Status& why) {
  const From from = !sent() ? From::kUnsent : reused() && !answered_ ? From::kStale : From::kTransport;
  Status status = why;
  // Behind fields that were too large more of them may come, which no other answer can pass.
  if (conn_ && status.code == Code::kResourceExhausted) std::exchange(conn_, nullptr)->suspect(*this);
  leave();
  on_over(std::move(status), from);
}

}  // namespace weir::forward
