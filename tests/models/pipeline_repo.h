// A repository with the pipeline "a" of two models.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "any_repo.h"
#include "bus/bus.h"

namespace weir::models {

// Its file: "<input> <output> <width> <max_batch>"; FP32, takes what comes and answers nothing. "<input>?" is optional.
class NodeEngine final : public sched::Engine {
 public:
  explicit NodeEngine(const std::string& file) {
    std::ifstream in(file);
    std::string input, output;
    int64_t width;
    in >> input >> output >> width >> spec_.max_batch;
    bool optional = input.ends_with('?');
    if (optional) input.pop_back();
    spec_.platform = "fake";
    spec_.inputs = {{input, msg::DType::kFp32, {width}, optional, {}}};
    spec_.outputs = {{output, msg::DType::kFp32, {width}, false, {"low", "high"}}};
  }
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(sched::Batch&) override { return base::invalid("nothing"); }

 private:
  msg::ModelSpec spec_;
};

class PipelineRepo : public AnyRepo {
 public:
  explicit PipelineRepo(test::Disk& disk, Control control = Control::kNone)
      : AnyRepo(disk, {{"onnx", make}}, options_of(control)) {
    EXPECT_TRUE(repository->start().ok());
  }
  // The pipeline as clients see it.
  std::string tensors(const std::string& model) {
    auto now = this->now();
    auto served = now->find(model, "");
    if (!served) return served.error().text;
    const auto& spec = (*served)->spec;
    std::string out = std::to_string(spec.max_batch) + ":";
    for (const auto& t : spec.inputs) out += " " + t.name + spec.public_shape(t).text();
    out += " ->";
    for (const auto& t : spec.outputs) out += " " + t.name + spec.public_shape(t).text();
    return out;
  }
  const bus::Served* served(const std::string& model) {
    auto found = now()->find(model, "");
    return found ? *found : nullptr;
  }

 private:
  static RepositoryOptions options_of(Control control) {
    RepositoryOptions options;
    options.control = control;
    return options;
  }
  static base::Result<std::unique_ptr<sched::Engine>> make(const LoadArgs& args) {
    return std::unique_ptr<sched::Engine>(new NodeEngine(args.file));
  }
};

// "a" sorts before its nodes: the order of loading is not the order of names.
inline constexpr std::string_view kTwo = R"(engine: pipeline
dag:
  type: sequential
  nodes:
    - {model: first}
    - {model: second, inputs: {x: y}, outputs: {y: z}}
)";

inline test::Disk& two(test::Disk& disk) {
  disk.write("a/model.yaml", std::string(kTwo));
  disk.write("first/1/model.onnx", "x y 4 8");
  disk.write("second/1/model.onnx", "x y 4 6");
  return disk;
}

}  // namespace weir::models
