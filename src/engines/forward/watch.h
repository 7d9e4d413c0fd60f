// Watch: asks each origin of a model again and again whether the model is ready there. An origin that fails two checks
// in a row gets no more calls, and gets them again after a good one; when none is left, as when all nodes that had the
// model have gone, it is reported broken, once. Of a model that runs here, too, an origin is first asked whether its
// model has the same signature. On one shard's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/forward/kind.h"
#include "engines/forward/load_poll.h"
#include "engines/forward/origin_conn.h"

namespace weir::forward {

class Watch {
 public:
  // `broken` may be called from a timer or an answer, and may not destroy this. `local`: the model that runs here, too,
  // or null.
  Watch(net::Shard& shard, std::shared_ptr<Target> target, std::function<void(base::Status)> broken,
        std::shared_ptr<const msg::ModelSpec> local = nullptr);
  ~Watch();

 private:
  static constexpr uint32_t kFailures = 2;  // in a row

  struct Checked {
    std::unique_ptr<OriginConn> conn;
    std::unique_ptr<Questions> questions;
    std::unique_ptr<LoadPoll> load;  // null: its /metrics are not asked for
    uint32_t failures = 0;
    bool asking = false;
    uint32_t generation = 0;       // Origin::generation that is asked
    std::optional<uint32_t> same;  // Origin::generation whose signature is that of the model here
    std::string reason;
  };
  void arm();
  void check(Checked& one);
  void heard(Checked& one, base::Result<bool> ready);
  void ask_signature(Checked& one);
  void heard_signature(Checked& one, uint32_t generation, base::Result<msg::ModelSpec> there);
  void admit(Checked& one);
  void failed(Checked& one, std::string reason);
  void look_at_all();

  net::Shard& shard_;
  const std::shared_ptr<Target> target_;
  std::function<void(base::Status)> broken_;  // null once it was called
  const std::shared_ptr<const msg::ModelSpec> local_;
  std::vector<Checked> checked_;
  uint32_t absent_ = 0;  // checks in a row for which no origin was present
  base::TimerId timer_ = base::TimerId::kNone;
};

}  // namespace weir::forward
