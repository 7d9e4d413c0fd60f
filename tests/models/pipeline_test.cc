// Pipelines in a repository: their metadata, and their nodes coming and going.
#include <gtest/gtest.h>

#include "any_repo.h"
#include "bus/bus.h"
#include "models/dag.h"
#include "models/model_yaml.h"

namespace weir::models {
namespace {

using msg::DType;

// Its file: "<input> <output> <width> <max_batch>"; FP32, takes what comes and answers nothing.
class FakeEngine final : public sched::Engine {
 public:
  explicit FakeEngine(const std::string& file) {
    std::ifstream in(file);
    std::string input, output;
    int64_t width;
    in >> input >> output >> width >> spec_.max_batch;
    spec_.platform = "fake";
    spec_.inputs = {{input, DType::kFp32, {width}, false, {}}};
    spec_.outputs = {{output, DType::kFp32, {width}, false, {"low", "high"}}};
  }
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(sched::Batch&) override { return base::invalid("nothing"); }

 private:
  msg::ModelSpec spec_;
};

class Repo : public AnyRepo {
 public:
  explicit Repo(test::Disk& disk, Control control = Control::kNone)
      : AnyRepo(disk, {{"onnx", make}}, options_of(control)) {
    EXPECT_TRUE(repository->start().ok());
  }
  // What clients see of it.
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
    return std::unique_ptr<sched::Engine>(new FakeEngine(args.file));
  }
};

// "a" sorts before its nodes: the order of loading is not the order of names.
constexpr std::string_view kTwo = R"(engine: pipeline
dag:
  type: sequential
  nodes:
    - {model: first}
    - {model: second, inputs: {x: y}, outputs: {y: z}}
)";

test::Disk& two(test::Disk& disk) {
  disk.write("a/model.yaml", std::string(kTwo));
  disk.write("first/1/model.onnx", "x y 4 8");
  disk.write("second/1/model.onnx", "x y 4 6");
  return disk;
}

TEST(PipelineModel, ItsTensorsComeFromItsNodes) {
  test::Disk disk;
  Repo repo(two(disk));
  EXPECT_EQ(repo.rows(), "a/1 READY\nfirst/1 READY\nsecond/1 READY\n");
  EXPECT_EQ(repo.tensors("a"), "6: x[-1,4] -> z[-1,4]");
  EXPECT_EQ(repo.served("a")->spec.outputs.at(0).labels.size(), 2u);
  EXPECT_EQ(repo.served("a")->spec.platform, "ensemble");
}

TEST(PipelineModel, ItMayDeclareInputsAndOutputsOfItsOwn) {
  test::Disk disk;
  two(disk).write("a/model.yaml",
                  std::string(kTwo) + "inputs: [{name: x}]\noutputs: [{name: z}, {name: y}]\nmax_batch: 2\n");
  Repo repo(disk);
  EXPECT_EQ(repo.tensors("a"), "2: x[-1,4] -> z[-1,4] y[-1,4]");
}

TEST(PipelineModel, NodesThatTakeNoBatchesMakeItWhole) {
  test::Disk disk;
  two(disk).write("second/1/model.onnx", "x y -1 0");
  Repo repo(disk);
  EXPECT_EQ(repo.tensors("a"),
            "model 'a' version 1 is not ready: node 'second': input 'x' is FP32 [-1], but 'y' from "
            "node 'first' is FP32 [-1,4]");
}

TEST(PipelineModel, WhatDoesNotFitIsToldWithTheNodesName) {
  test::Disk disk;
  two(disk).write("second/1/model.onnx", "x y 5 6");
  disk.write("b/model.yaml", "engine: pipeline\ndag: {nodes: [{model: first}, {model: second}]}\noutputs: [{name: q}]");
  disk.write("c/model.yaml", "engine: pipeline\ndag: {nodes: [{model: first, inputs: {xx: y}}]}");
  disk.write("d/model.yaml", "engine: pipeline\ndag: {nodes: [{model: gone}]}");
  disk.write("e/model.yaml", "engine: pipeline\ndag: {nodes: [{model: e}]}");
  disk.write("f/model.yaml", "engine: pipeline\ndag: {type: parallel, nodes: [{name: n}]}");
  disk.write("g/model.yaml", "engine: pipeline");
  disk.write(
      "h/model.yaml",
      "engine: pipeline\ndag: {nodes: [{model: first}, {name: again, model: first}]}\ninputs: [{name: pictures}]");
  Repo repo(disk);
  EXPECT_EQ(
      repo.rows(),
      "a/1 UNAVAILABLE (node 'second': input 'x' is FP32 [-1,5], but 'y' from node 'first' is FP32 [-1,4])\n"
      "b/1 UNAVAILABLE (node 'second': input 'x' is FP32 [-1,5], but 'x' from the pipeline's inputs is FP32 [-1,4])\n"
      "c/1 UNAVAILABLE (node 'first': model 'first' has no input 'xx')\n"
      "d/1 UNAVAILABLE (node 'gone': there is no model 'gone')\n"
      "e/1 UNAVAILABLE (node 'e': the pipeline would be a part of itself)\n"
      "f/ UNAVAILABLE (f/model.yaml:2:13: expected sequential, got 'parallel'\n"
      "f/model.yaml:2:31: a node needs a 'model')\n"
      "first/1 READY\n"
      "g/ UNAVAILABLE (a pipeline needs a dag with nodes)\n"
      "h/1 UNAVAILABLE (node 'first' takes 'x', which is no input of the pipeline and which no node before it "
      "makes)\n"
      "second/1 READY\n");
}

TEST(PipelineModel, AReloadedNodeMeansANewPipeline) {
  test::Disk disk;
  Repo repo(two(disk));
  auto* before = repo.served("a");
  disk.write("first/1/model.onnx", "x y 4 3");
  repo.rescan();
  EXPECT_NE(repo.served("a"), before);
  EXPECT_EQ(repo.tensors("a"), "3: x[-1,4] -> z[-1,4]");
}

TEST(PipelineModel, ANodeThatNoLongerFitsLeavesThePipelineWithTheOldOne) {
  test::Disk disk;
  Repo repo(two(disk));
  auto* before = repo.served("a");
  disk.write("first/1/model.onnx", "x y 9 8");
  repo.rescan();
  EXPECT_EQ(repo.served("a"), before);
  EXPECT_NE(repo.rows().find("a/1 READY (the reload failed"), std::string::npos) << repo.rows();
  disk.write("second/1/model.onnx", "x y 9 8");
  repo.rescan();
  EXPECT_EQ(repo.tensors("a"), "8: x[-1,9] -> z[-1,9]");
}

TEST(PipelineModel, APipelineWithoutItsNodeIsNotReadyUntilItComesBack) {
  test::Disk disk;
  Repo repo(two(disk));
  disk.remove("second");
  repo.rescan();
  EXPECT_EQ(repo.served("a"), nullptr);
  EXPECT_NE(repo.rows().find("a/1 UNAVAILABLE (node 'second': "), std::string::npos) << repo.rows();
  disk.write("second/1/model.onnx", "x y 4 6");
  repo.rescan();
  EXPECT_NE(repo.served("a"), nullptr);
}

TEST(PipelineModel, AFolderThatComesBackWhileItsOldVersionIsStillInUseStays) {
  test::Disk disk;
  Repo repo(two(disk));
  auto& calls = repo.served("second")->in_flight[0].calls;
  calls.store(1);  // as a request would that is still inside
  disk.remove("second");
  repo.rescan();
  disk.write("second/1/model.onnx", "x y 4 6");
  repo.rescan();
  EXPECT_NE(repo.served("second"), nullptr);
  calls.store(0);
  for (int i = 0; i < 3; ++i) repo.rescan();  // the old version goes meanwhile
  EXPECT_NE(repo.served("second"), nullptr);
  EXPECT_NE(repo.served("a"), nullptr);
}

TEST(PipelineModel, LoadingAPipelineLoadsItsNodesAndUnloadingANodeUnloadsIt) {
  test::Disk disk;
  two(disk).write("outer/model.yaml", "engine: pipeline\ndag: {nodes: [{model: a}]}");
  Repo repo(disk, Control::kExplicit);
  EXPECT_EQ(repo.served("first"), nullptr);
  EXPECT_TRUE(repo.load("outer").ok());
  EXPECT_NE(repo.served("first"), nullptr);
  EXPECT_EQ(repo.tensors("outer"), "6: x[-1,4] -> z[-1,4]");
  EXPECT_TRUE(repo.unload("second").ok());
  EXPECT_EQ(repo.served("a"), nullptr);
  EXPECT_EQ(repo.served("outer"), nullptr);
  EXPECT_TRUE(repo.load("second").ok());
  EXPECT_NE(repo.served("outer"), nullptr);
  EXPECT_TRUE(repo.unload("outer").ok());
  EXPECT_EQ(repo.served("outer"), nullptr);
  EXPECT_NE(repo.served("a"), nullptr);
}

TEST(PipelineModel, ItsNodesLeaveWithItWhenAskedToUnlessAnotherPipelineNeedsThem) {
  test::Disk disk;
  two(disk).write("outer/model.yaml", "engine: pipeline\ndag: {nodes: [{model: a}]}");
  disk.write("other/model.yaml", "engine: pipeline\ndag: {nodes: [{model: first}]}");
  Repo repo(disk, Control::kExplicit);
  EXPECT_TRUE(repo.load("outer").ok());
  EXPECT_TRUE(repo.load("other").ok());
  EXPECT_TRUE(repo.unload("outer", Repository::Dependents::kUnload).ok());
  EXPECT_EQ(repo.served("outer"), nullptr);
  EXPECT_EQ(repo.served("a"), nullptr);
  EXPECT_EQ(repo.served("second"), nullptr);
  EXPECT_NE(repo.served("first"), nullptr);
  EXPECT_NE(repo.served("other"), nullptr);
}

TEST(PipelineModel, TwoPipelinesCannotBePartsOfEachOther) {
  test::Disk disk;
  disk.write("a/model.yaml", "engine: pipeline\ndag: {nodes: [{model: b}]}");
  disk.write("b/model.yaml", "engine: pipeline\ndag: {nodes: [{model: a}]}");
  Repo repo(disk);
  EXPECT_EQ(repo.served("a"), nullptr);
  EXPECT_EQ(repo.served("b"), nullptr);
}

TEST(PipelineModel, TritonsEnsembleIsOneInAnyOrderOfSteps) {
  test::Disk disk;
  two(disk).write("a/config.pbtxt", R"(
    platform: "ensemble" max_batch_size: 4
    input { name: "IN" data_type: TYPE_FP32 dims: 4 }
    output { name: "OUT" data_type: TYPE_FP32 dims: 4 }
    ensemble_scheduling {
      step { model_name: "second" model_version: -1 input_map { key: "x" value: "mid" } output_map { key: "y" value: "OUT" } }
      step { model_name: "first" model_version: 1 input_map { key: "x" value: "IN" } output_map { key: "y" value: "mid" } }
    })");
  disk.remove("a/model.yaml");
  Repo repo(disk);
  EXPECT_EQ(repo.tensors("a"), "4: IN[-1,4] -> OUT[-1,4]");
}

}  // namespace
}  // namespace weir::models
