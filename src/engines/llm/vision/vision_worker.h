// VisionWorker: a vision encoder with all that it takes to run it on the CPU, for engines that run elsewhere.
#pragma once

#include <memory>

#include "engines/llm/cpu/matrix.h"
#include "engines/llm/cpu/thread_team.h"
#include "engines/llm/vision/vision_encoder.h"

namespace weir::llm {

class VisionWorker {
 public:
  VisionWorker(const Shape& shape, const Kernels& kernels, std::unique_ptr<ThreadTeam> team,
               std::unique_ptr<VisionEncoder> vision_encoder)
      : kernels_(kernels),
        team_(std::move(team)),
        multiply_(kernels, *team_, shape.vision->patches()),
        vision_encoder_(std::move(vision_encoder)) {}

  base::Result<generation::ImageFeatures> encode_image(const msg::Image& image) {
    return vision_encoder_->encode_image(image, multiply_, kernels_, *team_);
  }

 private:
  const Kernels& kernels_;
  std::unique_ptr<ThreadTeam> team_;
  Multiplier multiply_;
  std::unique_ptr<VisionEncoder> vision_encoder_;
};

}  // namespace weir::llm
