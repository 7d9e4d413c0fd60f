// cluster_planted: how soon ClusterWorlds find the bugs of plant_cluster.py (planted_runs.h).
#include "cluster_bugs.h"
#include "cluster_world.h"
#include "planted_runs.h"

namespace weir::sim {
int planted = 0;
}

int main(int argc, char** argv) {
  return weir::sim::run_planted<weir::sim::ClusterWorld>(weir::sim::kBugs, 500, argc, argv);
}
