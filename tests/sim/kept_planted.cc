// kept_planted: how soon KeptWorlds find the bugs of plant_kept.py (planted_runs.h).
#include "kept_bugs.h"
#include "kept_world.h"
#include "planted_runs.h"

namespace weir::sim {
int planted = 0;
}

int main(int argc, char** argv) {
  return weir::sim::run_planted<weir::sim::KeptWorld>(weir::sim::kBugs, 100, argc, argv);
}
