// The REST request of one inference (Open Inference Protocol), made from what a person writes on the command line.
#pragma once

#include <string>
#include <vector>

#include "app/remote.h"

namespace weir::app {

// "/v2/models/<model><rest>"
std::string model_path(const std::string& model, std::string_view rest);

struct InferRequest {
  net::Client::HeaderList fields;
  std::string bytes;
};

// Asks the server for the model's metadata and fits `inputs` to it (app/infer_input.h says how they are written).
// Errors: INVALID_ARGUMENT for an input that is wrong, or missing and not optional; the request's own otherwise.
base::Result<InferRequest> make_infer_request(const Remote& remote, const std::string& model,
                                              const std::vector<std::string>& inputs);

}  // namespace weir::app
