// Calls, specs and a home for tests of this room.
#pragma once

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "msg/call.h"
#include "msg/spec.h"

namespace weir::sched {

using namespace std::chrono_literals;

// A batched model: x FP32[width] → y FP32[width]; width -1 = any.
inline msg::ModelSpec spec_of(uint32_t max_batch, int64_t width = 2) {
  msg::ModelSpec spec;
  spec.name = "m";
  spec.max_batch = max_batch;
  spec.inputs = {{"x", msg::DType::kFp32, {width}, false, {}}};
  spec.outputs = {{"y", msg::DType::kFp32, {width}, false, {}}};
  spec.batching.dynamic = true;
  return spec;
}

inline msg::Tensor floats(std::string name, msg::Shape shape, std::vector<float> values) {
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return {std::move(name), msg::DType::kFp32, shape, base::Bytes::copy_of(bytes)};
}
inline std::vector<float> floats_of(const msg::Tensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(float));
  return values;
}
inline msg::Tensor strings(std::string name, msg::Shape shape, std::vector<std::string> values) {
  std::string bytes;
  for (const auto& v : values) msg::append_string(bytes, v);
  return {std::move(name), msg::DType::kBytes, shape, base::Bytes::copy_of(bytes)};
}

// Fills `call` with `rows` rows of x, every element `value`.
inline void fill(msg::Call& call, uint32_t rows, float value = 0, int64_t width = 2) {
  call.rows = rows;
  call.inputs.clear();
  call.inputs.push_back(floats("x", {int64_t(rows), width}, std::vector<float>(size_t(rows) * size_t(width), value)));
}

struct Answers final : msg::Home {
  void post(std::vector<msg::Mail>& burst) override {
    ++bursts;
    for (auto& m : burst) mail.push_back(std::move(m));
    burst.clear();
  }
  void post_here(msg::Mail&& m) override { mail.push_back(std::move(m)); }
  int bursts = 0;
  std::vector<msg::Mail> mail;
};

inline std::string text_of(const msg::Event& event) {
  auto* failed = std::get_if<msg::Failed>(&event.what);
  return failed ? std::string(base::name(failed->status.code)) : "ok";
}

}  // namespace weir::sched
