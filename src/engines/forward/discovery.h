// Discovery: asks the origins for the signature of a model, one after the other until one of them knows it. On one
// shard's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engines/forward/kind.h"
#include "engines/forward/origin_conn.h"
#include "msg/spec.h"

namespace weir::forward {

class Discovery {
 public:
  // The signature laid over `wanted`, whose tensors and batch are the origin's then. UNAVAILABLE, worth another try:
  // no origin has answered, or none has the model ready; the text says why of the first ones. INTERNAL: what it said is
  // nonsense.
  using Then = std::function<void(base::Result<msg::ModelSpec>)>;

  Discovery(net::Shard& shard, std::shared_ptr<Target> target, msg::ModelSpec wanted, Then then);
  void start() { ask_next(); }  // `then` may be called from inside, and may destroy this

 private:
  void ask_next();
  void failed(const base::Status& why);

  net::Shard& shard_;
  const std::shared_ptr<Target> target_;
  const msg::ModelSpec wanted_;
  const Then then_;
  size_t next_ = 0;  // of the origins
  std::unique_ptr<OriginConn> conn_;
  std::unique_ptr<Questions> questions_;
  size_t failed_ = 0;  // origins
  std::string reasons_;
  base::Code code_ = base::Code::kUnavailable;
};

}  // namespace weir::forward
