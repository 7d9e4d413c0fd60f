// ModelQuestion: whether an origin of kind openai is healthy and has the model, by its /health and its list of models.
// On one shard's thread.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/status.h"
#include "engines/forward/get.h"
#include "engines/forward/openai/message.h"
#include "engines/forward/options.h"

namespace weir::forward {

class ModelQuestion {
 public:
  // Called once, later or from inside ask(); errors name the origin. It may destroy the ModelQuestion.
  using Then = std::function<void(base::Result<ListedModel>)>;

  ModelQuestion(net::Shard& shard, OriginConn& conn, const Options& options)
      : conn_(conn), options_(options), get_(shard, conn) {}

  // `health`, `list`: how long each of the two may take.
  void ask(base::Duration health, base::Duration list, Then then);

 private:
  void heard_health(base::Result<Get::Answer> answer);
  void ask_models();
  void heard_models(base::Result<Get::Answer> answer);
  void tell(base::Result<ListedModel> listed) { std::exchange(then_, nullptr)(std::move(listed)); }
  void tell_error(base::Status status);
  void tell_unavailable(std::string text);

  OriginConn& conn_;
  const Options& options_;
  Get get_;
  base::Duration list_{0};
  Then then_;
};

// HTTP statuses by which a server says that it has no such path.
inline bool is_no_path(int status) { return status == 404 || status == 405; }

}  // namespace weir::forward
