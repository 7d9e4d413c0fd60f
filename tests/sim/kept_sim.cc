// kept_sim: runs KeptWorlds from seeds (seed_runs.h).
#include "kept_world.h"
#include "seed_runs.h"

int main(int argc, char** argv) { return weir::sim::SeedRuns<weir::sim::KeptWorld>("kept_sim").main(argc, argv); }
