#include "engines/forward/get.h"

#include <utility>

#include "base/units.h"

namespace weir::forward {
namespace {

constexpr size_t kLargestBody = 4 << 20;

}  // namespace

void Get::ask(std::string_view target, base::Duration timeout, Then then) {
  wire::ClientRequest request;
  request.target = target;
  begin(std::move(request), timeout, std::move(then));
}

void Get::post(std::string_view target, std::string json, base::Duration timeout, Then then) {
  wire::ClientRequest request;
  request.method = "POST";
  request.target = target;
  request.fields.add("content-type", "application/json");
  request.body = base::Bytes::adopt(std::move(json));
  begin(std::move(request), timeout, std::move(then));
}

void Get::begin(wire::ClientRequest request, base::Duration timeout, Then then) {
  then_ = std::move(then);
  answer_ = {};
  timer_ = shard_.env().at(shard_.env().now() + timeout, [this, timeout] {
    timer_ = base::TimerId::kNone;
    give_up_late(
        base::failure(base::Code::kDeadlineExceeded, "it has not answered within " + base::show_duration(timeout)));
  });
  request.fields.add("accept", "application/json");
  base::Status status = send(conn_to_, std::move(request));
  if (!status.ok()) on_over(std::move(status), From::kUnsent);
}

HttpCall::Next Get::on_answer(int status, const wire::Fields&) {
  answer_.status = status;
  return Next::kGoOn;
}

HttpCall::Next Get::on_piece(std::span<const std::byte> piece) {
  if (answer_.body.size() + piece.size() > kLargestBody)
    return give_up(base::failure(base::Code::kInternal, "its answer is too large"));
  answer_.body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return Next::kGoOn;
}

void Get::on_over(base::Status status, From) {
  shard_.env().cancel(std::exchange(timer_, base::TimerId::kNone));
  auto then = std::exchange(then_, nullptr);
  if (status.ok()) return then(std::move(answer_));
  then(std::move(status));
}

}  // namespace weir::forward
