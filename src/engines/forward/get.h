// Get: a GET of ours to an origin whose answer is small, or a POST of some JSON. On one shard's thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engines/forward/http_call.h"

namespace weir::forward {

class Get final : public HttpCall {
 public:
  struct Answer {
    int status = 0;
    std::string body;
  };
  // Called once, later or from inside ask(); errors do not name the origin. It may destroy the Get.
  using Then = std::function<void(base::Result<Answer>)>;

  Get(net::Shard& shard, OriginConn& conn) : shard_(shard), conn_to_(conn) {}
  ~Get() { shard_.env().cancel(timer_); }

  void ask(std::string_view target, base::Duration timeout, Then then);
  void post(std::string_view target, std::string json, base::Duration timeout, Then then);

 private:
  void begin(wire::ClientRequest request, base::Duration timeout, Then then);
  Next on_answer(int status, const wire::Fields& fields) override;
  Next on_piece(std::span<const std::byte> piece) override;
  base::Status on_whole(const wire::Fields&) override { return {}; }
  void on_over(base::Status status, From from) override;

  net::Shard& shard_;
  OriginConn& conn_to_;
  Then then_;
  Answer answer_;
  base::TimerId timer_ = base::TimerId::kNone;
};

}  // namespace weir::forward
