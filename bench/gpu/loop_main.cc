// The loop that a gateway in front of a small model is measured against (H8): `gpu_loop FOLDER ROWS TOKENS SECONDS
// DEVICE` loads the encoder in FOLDER/config.json as weir does and steps it with batches of ROWS texts of TOKENS ids,
// one right after the other, with nothing around it. One JSON object on standard output.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "device/devices.h"
#include "engines/llm/llm.h"
#include "sched/engine.h"

namespace {

using namespace weir;
using Clock = std::chrono::steady_clock;

constexpr int kWarm = 20;
constexpr uint32_t kFirstId = 3, kIds = 200;  // as gpu_load's in a small vocabulary

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "gpu_loop: %s\n", what.c_str());
  std::exit(1);
}

std::unique_ptr<msg::Call> text_of(uint32_t tokens, std::mt19937& random) {
  base::Block block(base::heap_slab(tokens * sizeof(int32_t)));
  block.resize(tokens * sizeof(int32_t));
  auto* ids = reinterpret_cast<int32_t*>(block.data());
  for (uint32_t i = 0; i < tokens; ++i) ids[i] = int32_t(kFirstId + random() % kIds);
  auto call = std::make_unique<msg::Call>();
  call->inputs.push_back({"input_ids", msg::DType::kInt32, {1, int64_t(tokens)}, block.freeze()});
  return call;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) fail("FOLDER ROWS TOKENS SECONDS DEVICE");
  const auto rows = uint32_t(std::atoi(argv[2])), tokens = uint32_t(std::atoi(argv[3]));
  const double seconds = std::atof(argv[4]);
  device::Devices devices({});
  msg::ModelSpec wanted;
  wanted.name = "encoder";
  wanted.parameters = {{"device", argv[5]}, {"tokenizer", "off"}};
  auto loaded = llm::load(wanted, std::string(argv[1]) + "/config.json", {&devices});
  if (!loaded) fail(loaded.error().text);
  auto* engine = std::get_if<std::unique_ptr<sched::Engine>>(&*loaded);
  if (!engine) fail("the model is no encoder");
  std::mt19937 random(1);
  std::vector<std::unique_ptr<msg::Call>> calls;
  sched::Batch batch;
  batch.rows = rows;
  for (uint32_t i = 0; i < rows; ++i) batch.calls.push_back(calls.emplace_back(text_of(tokens, random)).get());
  std::vector<double> times;
  auto end = Clock::now();
  for (int n = -kWarm; n <= 0 || Clock::now() < end; ++n) {
    auto began = Clock::now();
    if (n == 0) end = began + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    if (auto s = (*engine)->step(batch); !s.ok()) fail(s.text);
    if (!batch.failures.empty()) fail("a row has failed");
    batch.outputs.clear();
    if (n >= 0) times.push_back(std::chrono::duration<double>(Clock::now() - began).count());
  }
  double sum = 0;
  for (double t : times) sum += t;
  std::sort(times.begin(), times.end());
  std::printf("{\"place\":\"%s\",\"steps\":%zu,\"rows_per_s\":%.6g,\"step_ms\":{\"p50\":%.6g,\"p99\":%.6g}}\n", argv[5],
              times.size(), rows * double(times.size()) / sum, 1e3 * times[times.size() / 2],
              1e3 * times[times.size() * 99 / 100]);
}
