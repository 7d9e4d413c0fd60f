// Helpers for tests of the llm engine: random models with a reference's numbers, and sequences that are stepped by
// hand through a Transformer.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "engines/llm/cpu/transformer.h"
#include "engines/llm/load/gguf_texts.h"

namespace weir::llm {

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder that a script of this one has filled; empty where there is no torch.
struct MadeFolder {
  explicit MadeFolder(const std::string& script)
      : path(std::filesystem::temp_directory_path() / ("weir_" + script + "_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
    std::string command =
        "/usr/bin/python3 " WEIR_ROOT "/tests/engines/llm/" + script + " " + path + " >/dev/null 2>&1";
    if (std::system(command.c_str()) != 0) path.clear();
  }
  ~MadeFolder() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

inline const std::string& models() {
  static const MadeFolder made("models.py");
  return made.path;
}

// Those whose checkpoints have codes.
inline const std::string& quantized() {
  static const MadeFolder made("quantized.py");
  return made.path;
}

// The reference's numbers for a model.
struct Expected {
  explicit Expected(const std::string& path) : file(slurp(path)) {
    auto status = parse_safetensors(std::as_bytes(std::span(file)), arrays);
    EXPECT_TRUE(status.ok()) << status.text;
  }
  std::vector<float> floats(const std::string& name) const {
    const Array& array = arrays.at(name);
    std::vector<float> out(array.elements());
    read_floats(array, 0, out.size(), out.data());
    return out;
  }
  std::vector<uint32_t> ids() const {
    const Array& array = arrays.at("ids");
    std::vector<uint32_t> out(array.elements());
    std::memcpy(out.data(), array.data.data(), out.size() * 4);
    return out;
  }
  std::string file;
  Arrays arrays;
};

// A model, but for what lies beside its weights.
inline Model model_of(const base::Result<Shape>& shape, const base::Result<Store>& store, WeightFormat form,
                      ThreadTeam& team, Keep keep) {
  EXPECT_TRUE(bool(shape)) << shape.error().text;
  EXPECT_TRUE(bool(store)) << store.error().text;
  Model model;
  model.shape = *shape, model.form = form;
  auto weights = load_weights(model.shape, *store, form, team, keep);
  EXPECT_TRUE(bool(weights)) << weights.error().text;
  model.weights = std::move(*weights);
  auto text = std::make_shared<msg::TextSpec>();
  text->vocabulary = shape->vocabulary, text->eos_ids = shape->eos_ids;
  model.text = text;
  return model;
}

inline Model load_model(const std::string& folder_path, WeightFormat form, ThreadTeam& team,
                        Keep keep = Keep::kAsStored) {
  auto folder = Folder::open(folder_path);
  auto store = Store::open(*folder);
  Model model = model_of(parse_shape(folder->read("config.json", 1 << 20).value()), store, form, team, keep);
  model.readouts = load_readouts(model.shape, *folder).value();
  if (model.shape.vision) model.vision_encoder = VisionEncoder::load(model.shape, *store, form, team).value();
  return model;
}

inline Model load_gguf(const std::string& folder_path, const std::string& file, WeightFormat form, ThreadTeam& team,
                       Keep keep = Keep::kAsStored) {
  auto folder = Folder::open(folder_path);
  auto gguf = open_gguf(*folder, file);
  EXPECT_TRUE(bool(gguf)) << gguf.error().text;
  auto config = config_of(gguf->gguf);
  EXPECT_TRUE(bool(config)) << config.error().text;
  return model_of(parse_shape(*config), Store::open(std::move(*gguf)), form, team, keep);
}

inline std::unique_ptr<Transformer> make_transformer(const std::string& folder, WeightFormat form, uint32_t threads = 2,
                                                     const Kernels& with = kernels(), uint32_t block_size = 16,
                                                     KvFormat kv_format = KvFormat::kAsComputed,
                                                     Keep keep = Keep::kAsStored) {
  auto team = std::make_unique<ThreadTeam>(threads);
  Model model = load_model(folder, form, *team, keep);
  model.kv_format = kv_format;
  auto out = std::make_unique<Transformer>(std::move(model), with, std::move(team), 512);
  EXPECT_TRUE(out->reserve(256 / (block_size / 16), block_size).ok());
  return out;
}

// A sequence whose blocks are `stride` apart, so that neighbours in the sequence are not neighbours in memory.
struct Sequence {
  std::vector<uint32_t> ids;
  std::vector<uint32_t> blocks;
  uint32_t stored = 0;
  const float* features = nullptr;  // for the tokens [features_at, features_at + features_count)
  uint32_t features_at = 0, features_count = 0, hidden = 0;
};

enum class LogitsOf { kNone, kLast, kAll };

template <class Engine>
class BasicStepper {
 public:
  explicit BasicStepper(Engine& engine, uint32_t block_size = 16) : engine_(engine), block_size_(block_size) {}

  // `count` more tokens of `s`; logits of all of them or of the last one are wanted.
  using Wanted = LogitsOf;
  void add(Sequence& s, uint32_t count, Wanted wanted) {
    using LogitsRequest = generation::TokenStep::LogitsRequest;
    generation::TokenStep::Row row;
    row.first = uint32_t(step.ids.size()), row.count = count, row.length = s.stored + count;
    while (s.blocks.size() * block_size_ < row.length)
      s.blocks.push_back(next_block_ = (next_block_ + 7) % (256 / (block_size_ / 16)));
    row.table = uint32_t(step.tables.size()), row.blocks = uint32_t(s.blocks.size());
    step.tables.insert(step.tables.end(), s.blocks.begin(), s.blocks.end());
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t p = s.stored + i;
      if (p >= s.features_at && p < s.features_at + s.features_count)
        step.patches.push_back({uint32_t(step.ids.size()), s.features + size_t(p - s.features_at) * s.hidden});
      step.ids.push_back(s.ids[p]), step.positions.push_back(p);
      step.slots.push_back(s.blocks[p / block_size_] * block_size_ + p % block_size_);
      if (wanted == Wanted::kAll || (wanted == Wanted::kLast && i + 1 == count)) {
        LogitsRequest request;
        request.kind = LogitsRequest::Kind::kScore, request.token = uint32_t(step.ids.size()) - 1;
        request.row = uint32_t(step.rows.size());
        step.logits_requests.push_back(request);
      }
    }
    s.stored += count;
    step.rows.push_back(row);
  }
  // The logits of all requests.
  std::vector<float> run() {
    std::vector<float> logits;
    engine_.logits_for_tests = &logits;
    auto status = engine_.step(step);
    EXPECT_TRUE(status.ok()) << status.text;
    engine_.logits_for_tests = nullptr;
    step.clear();
    return logits;
  }
  generation::TokenStep step;

 private:
  Engine& engine_;
  uint32_t block_size_, next_block_ = 0;
};
using Stepper = BasicStepper<Transformer>;

// The logits of `ids`, fed in chunks beside other sequences (the same tokens, from when `joins` are fed; and theirs
// backwards), are to the last bit those of all at once and alone.
template <class Engine>
void expect_whole(Engine& engine, const std::vector<uint32_t>& ids, uint32_t chunk, uint32_t joins,
                  const std::string& name) {
  const auto n = uint32_t(ids.size());
  BasicStepper<Engine> alone(engine), stepper(engine);
  Sequence whole{ids, {}}, s{ids, {}}, other{ids, {}}, third{{ids.rbegin(), ids.rend()}, {}};
  alone.add(whole, n, LogitsOf::kAll);
  const auto expected = alone.run();
  std::vector<float> logits;
  while (s.stored < n) {
    if (other.stored < n && s.stored >= joins) stepper.add(other, std::min(5u, n - other.stored), LogitsOf::kNone);
    stepper.add(s, std::min(chunk, n - s.stored), LogitsOf::kAll);
    if (third.stored < n) stepper.add(third, 1, LogitsOf::kNone);
    auto part = stepper.run();
    logits.insert(logits.end(), part.begin(), part.end());
  }
  ASSERT_EQ(logits.size(), expected.size());
  EXPECT_EQ(std::memcmp(logits.data(), expected.data(), expected.size() * sizeof(float)), 0)
      << name << " in chunks of " << chunk;
}

// The largest difference, as a share of the largest magnitude of the row that it is in.
inline double worst(const std::vector<float>& ours, const std::vector<float>& theirs, size_t row) {
  EXPECT_EQ(ours.size(), theirs.size());
  double worst = 0;
  for (size_t r = 0; r + row <= std::min(ours.size(), theirs.size()); r += row) {
    double most = 0, off = 0;
    for (size_t i = r; i < r + row; ++i) {
      most = std::max(most, double(std::abs(theirs[i])));
      double d = std::abs(double(ours[i]) - double(theirs[i]));
      off = d >= 0 ? std::max(off, d) : INFINITY;  // NaN
    }
    worst = std::max(worst, off / most);
  }
  return worst;
}

}  // namespace weir::llm
