// Helpers for tests of the ONNX engine: the library's place, the models' folder, tensors in and out.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "engines/onnx/runtime.h"
#include "msg/tensor.h"
#include "sched/engine.h"

namespace weir::onnx {

inline std::string data_file(const std::string& name) { return std::string(WEIR_ROOT) + "/tests/data/onnx/" + name; }
inline std::string demo_model(const std::string& name) { return std::string(WEIR_ROOT) + "/conf/models/" + name; }

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class T>
msg::Tensor tensor(std::string name, msg::DType dtype, msg::Shape shape, const std::vector<T>& values) {
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return {std::move(name), dtype, shape, base::Bytes::copy_of(bytes)};
}
inline msg::Tensor floats(std::string name, msg::Shape shape, const std::vector<float>& values) {
  return tensor(std::move(name), msg::DType::kFp32, shape, values);
}
inline msg::Tensor strings(std::string name, msg::Shape shape, const std::vector<std::string>& values) {
  std::string data;
  for (const auto& v : values) msg::append_string(data, v);
  return {std::move(name), msg::DType::kBytes, shape, base::Bytes::copy_of(data)};
}
template <class T = float>
std::vector<T> values(const msg::Tensor& t) {
  std::vector<T> out(t.data.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), t.data.data(), t.data.size());
  return out;
}
inline std::vector<std::string> texts(const msg::Tensor& t) {
  std::vector<std::string> out;
  EXPECT_TRUE(msg::for_each_string(t.data.view(), [&](std::string_view s) { out.emplace_back(s); }));
  return out;
}

// Tests that run models. They are skipped where there is no library; `./dev test` always brings one.
class WithRuntime : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::getenv("WEIR_ONNXRUNTIME")) GTEST_SKIP() << "set WEIR_ONNXRUNTIME to libonnxruntime.so.1 to run this";
  }

  base::Result<std::unique_ptr<sched::Engine>> load_file(const std::string& path, msg::ModelSpec wanted = {}) {
    return runtime_.load(wanted, path, base::heap());
  }
  // Loads tests/data/onnx/<name>.onnx; a failure fails the test.
  std::unique_ptr<sched::Engine> load(const std::string& name, msg::ModelSpec wanted = {}) {
    auto engine = load_file(data_file(name + ".onnx"), std::move(wanted));
    EXPECT_TRUE(engine.has_value()) << name << ": " << engine.error().text;
    return engine ? std::move(*engine) : nullptr;
  }
  std::string refusal(const std::string& name, msg::ModelSpec wanted = {}) {
    auto engine = load_file(data_file(name + ".onnx"), std::move(wanted));
    return engine ? "it loads" : engine.error().text;
  }
  static sched::Batch batch(uint32_t rows, std::vector<msg::Tensor> inputs) {
    sched::Batch out;
    out.rows = rows;
    out.inputs = std::move(inputs);
    return out;
  }

  Runtime runtime_{Options{}};
};

}  // namespace weir::onnx
