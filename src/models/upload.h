// Upload: a model that came with a load request, and is not in the repository. Its files are written to a private
// folder, which is removed with this object.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "models/model_config.h"
#include "models/repository.h"

namespace weir::models {

class Upload {
 public:
  // Reads the parameters "config" and "file:<version>/<path>", and writes the files. Errors: INVALID_ARGUMENT for an
  // unknown parameter, a bad path, or files without a config.
  static base::Result<std::unique_ptr<Upload>> make(std::string_view model, const LoadParameters& parameters,
                                                    const msg::BatchPolicy& defaults);
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  const ModelConfig& config() const { return config_; }
  // The folder to use as the model's root, or empty when only the configuration came.
  const std::string& root() const { return root_; }

 private:
  Upload() = default;
  base::Status write(std::string_view model, const LoadParameters& parameters);

  ModelConfig config_;
  std::string root_;
};

}  // namespace weir::models
