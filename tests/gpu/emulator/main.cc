// Every kernel against its host version, on the emulator.
#include "emulated.h"

int main() {
  using namespace weir::gpu;
  return run_emulated([](Lab& lab) { lab.ran(lab.kernels->load(0), "load"); }, check_rows, check_attention,
                      check_kv_codes, check_draws, check_encoder, check_products, check_experts);
}
