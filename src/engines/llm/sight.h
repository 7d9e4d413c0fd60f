// Sight: a vision tower with all that it takes to run it on the CPU, for engines that run elsewhere.
#pragma once

#include <memory>

#include "engines/llm/matrix.h"
#include "engines/llm/team.h"
#include "engines/llm/tower.h"

namespace weir::llm {

class Sight {
 public:
  Sight(const Shape& shape, const Kernels& kernels, std::unique_ptr<Team> team, std::unique_ptr<Tower> tower)
      : kernels_(kernels),
        team_(std::move(team)),
        multiply_(kernels, *team_, shape.vision->patches()),
        tower_(std::move(tower)) {}

  base::Result<sched::ImageFeatures> see(const msg::Image& image) {
    return tower_->see(image, multiply_, kernels_, *team_);
  }

 private:
  const Kernels& kernels_;
  std::unique_ptr<Team> team_;
  Multiplier multiply_;
  std::unique_ptr<Tower> tower_;
};

}  // namespace weir::llm
