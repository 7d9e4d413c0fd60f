// Probe: a question to an origin that is no Call: a model's signature, whether it is ready. On one shard's thread.
#pragma once

#include <functional>
#include <string_view>

#include "engines/forward/oip/grpc_call.h"

namespace weir::forward {

class Probe final : public GrpcCall {
 public:
  // `then` is called once, later or from inside ask(), with the answer's one message; errors name the origin. It may
  // destroy the Probe.
  using Then = std::function<void(base::Result<base::Bytes>)>;

  Probe(net::Shard& shard, OriginConn& conn);
  ~Probe();  // ends it

  void ask(std::string_view path, base::Bytes request, base::Duration timeout, Then then);

 private:
  Next on_message(base::Bytes message) override;
  void on_over(base::Status status, From from) override;
  void tell(base::Result<base::Bytes> answer);

  net::Shard& shard_;
  OriginConn& conn_to_;
  Then then_;
  base::Bytes message_;
  base::TimerId timer_ = base::TimerId::kNone;
};

}  // namespace weir::forward
