// cluster_sim: runs ClusterWorlds from seeds (seed_runs.h).
#include "cluster_world.h"
#include "seed_runs.h"

int main(int argc, char** argv) { return weir::sim::SeedRuns<weir::sim::ClusterWorld>("cluster_sim").main(argc, argv); }
