// The commands that talk to a running server over REST: models, load, unload, ready, infer.
#pragma once

#include <string>
#include <vector>

#include "app/remote.h"
#include "app/serve.h"

namespace weir::app {

Exit list_models(const Remote& remote);
Exit load_model(const Remote& remote, const std::string& model);
Exit unload_model(const Remote& remote, const std::string& model);
// Asks whether `model` is ready, or the server when it is empty. Exits with 0 or 1, as container health checks want it.
Exit ask_ready(const Remote& remote, const std::string& model);
// `inputs` are NAME=VALUE or NAME:SHAPE=VALUE, as app/infer_input.h has them. Types and shapes come from the model's
// metadata; a missing batch dimension is added.
Exit infer(const Remote& remote, const std::string& model, const std::vector<std::string>& inputs);

}  // namespace weir::app
