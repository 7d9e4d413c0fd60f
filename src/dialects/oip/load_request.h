// LoadRequest: what a request to load a model says. The model's files may come with it, so that it is as long as a body
// may be; a long one is read by a worker.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/offload_task.h"
#include "dialects/dialect.h"

namespace weir::oip {

struct LoadRequest {
  std::string model;  // of a protobuf message; the JSON form has it in its path
  dialects::ServerControl::LoadParameters parameters;
};

// They fill `out` as far as they come. Errors: INVALID_ARGUMENT.
base::Status read_load_json(std::string_view body, LoadRequest& out);
base::Status read_load_message(std::string_view message, LoadRequest& out);

class ReadLoad final : public base::OffloadTask {
 public:
  using Read = base::Status (*)(std::string_view, LoadRequest&);
  ReadLoad(base::Bytes body, Read read) : body_(std::move(body)), read_(read) {}
  void run() override;

  base::Status status;  // these after run()
  LoadRequest request;

 private:
  const base::Bytes body_;
  const Read read_;
};

}  // namespace weir::oip
