// VisionEncoder: the vision encoder of a model: an image becomes one row of hidden_size floats per patch.
//
// A pre-norm vision transformer (arXiv 2010.11929) without a class token; see README.md for its weights' names. The
// picture is stretched to image_size x image_size (bilinear, half-pixel centres, edges repeated) and scaled to
// [-1, 1].
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "engines/llm/cpu/matrix.h"
#include "engines/llm/load/store.h"
#include "generation/engine.h"

namespace weir::llm {

class VisionEncoder {
 public:
  // Errors: INVALID_ARGUMENT (weights that are missing or of another shape), RESOURCE_EXHAUSTED.
  static base::Result<std::unique_ptr<VisionEncoder>> load(const Shape& shape, const Store& store, WeightFormat form,
                                                           ThreadTeam& team);
  ~VisionEncoder();
  uint64_t bytes() const;  // of its matrices

  // TextSpec::Vision::features: how many pads an image takes, from a look at its header.
  static std::function<base::Result<uint32_t>(std::string_view data, std::string_view mime)> counter(
      const VisionShape& shape);

  // Errors: INVALID_ARGUMENT. Used by one thread at a time.
  base::Result<generation::ImageFeatures> encode_image(const msg::Image& image, Multiplier& multiply,
                                                       const Kernels& kernels, ThreadTeam& team);

 private:
  struct Parts;
  explicit VisionEncoder(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::llm
