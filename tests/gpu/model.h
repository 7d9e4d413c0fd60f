// Checks and benches of the whole transformer on the GPU.
#pragma once

#include <vector>

#include "engines/llm/load/shape.h"
#include "lab.h"

namespace weir::device {
class Devices;
}

namespace weir::gpu {

void check_model(Lab& lab);
// On two GPUs, where there are two.
void check_parallel(Lab& lab, device::Devices& devices);
void bench_parallel(Lab& lab, device::Devices& devices);
void check_encoder_models(Lab& lab);  // a part of it
enum class Benched : uint8_t { k1B, k8B, kMixture };
void bench_model(Lab& lab, Benched which);

// A Llama of these widths.
llm::Shape random_shape(uint32_t vocabulary, uint32_t hidden, uint32_t layers, uint32_t heads, uint32_t kv_heads,
                        uint32_t dim, uint32_t intermediate);
// The largest difference, as a share of the largest magnitude; infinite when lengths differ or one is not a number.
double worst_of(const std::vector<float>& ours, const std::vector<float>& theirs);

}  // namespace weir::gpu
