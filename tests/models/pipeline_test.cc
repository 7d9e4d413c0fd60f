// Pipelines in a repository: their metadata, and their nodes coming and going.
#include <gtest/gtest.h>

#include <thread>

#include "models/dag.h"
#include "models/model_yaml.h"
#include "pipeline_repo.h"

namespace weir::models {
namespace {

using msg::DType;

TEST(PipelineModel, ItsTensorsComeFromItsNodes) {
  test::Disk disk;
  PipelineRepo repo(two(disk));
  EXPECT_EQ(repo.rows(), "a/1 READY\nfirst/1 READY\nsecond/1 READY\n");
  EXPECT_EQ(repo.tensors("a"), "6: x[-1,4] -> z[-1,4]");
  EXPECT_EQ(repo.served("a")->spec.outputs.at(0).labels.size(), 2u);
  EXPECT_EQ(repo.served("a")->spec.platform, "ensemble");
}

TEST(PipelineModel, ItMayDeclareInputsAndOutputsOfItsOwn) {
  test::Disk disk;
  two(disk).write("a/model.yaml",
                  std::string(kTwo) + "inputs: [{name: x}]\noutputs: [{name: z}, {name: y}]\nmax_batch: 2\n");
  PipelineRepo repo(disk);
  EXPECT_EQ(repo.tensors("a"), "2: x[-1,4] -> z[-1,4] y[-1,4]");
}

TEST(PipelineModel, NodesThatTakeNoBatchesMakeItWhole) {
  test::Disk disk;
  two(disk).write("second/1/model.onnx", "x y -1 0");
  PipelineRepo repo(disk);
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
  PipelineRepo repo(disk);
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
  PipelineRepo repo(two(disk));
  auto* before = repo.served("a");
  disk.write("first/1/model.onnx", "x y 4 3");
  repo.rescan();
  EXPECT_NE(repo.served("a"), before);
  EXPECT_EQ(repo.tensors("a"), "3: x[-1,4] -> z[-1,4]");
}

TEST(PipelineModel, ANodeThatNoLongerFitsLeavesThePipelineWithTheOldOne) {
  test::Disk disk;
  PipelineRepo repo(two(disk));
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
  PipelineRepo repo(two(disk));
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
  PipelineRepo repo(two(disk));
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
  PipelineRepo repo(disk, Control::kExplicit);
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
  PipelineRepo repo(disk, Control::kExplicit);
  EXPECT_TRUE(repo.load("outer").ok());
  EXPECT_TRUE(repo.load("other").ok());
  EXPECT_TRUE(repo.unload("outer", Repository::Dependents::kUnload).ok());
  EXPECT_EQ(repo.served("outer"), nullptr);
  EXPECT_EQ(repo.served("a"), nullptr);
  EXPECT_EQ(repo.served("second"), nullptr);
  EXPECT_NE(repo.served("first"), nullptr);
  EXPECT_NE(repo.served("other"), nullptr);
}

TEST(PipelineModel, ANodeThatWasLoadedOnItsOwnStaysWhenItsPipelineLeaves) {
  test::Disk disk;
  two(disk);
  PipelineRepo repo(disk, Control::kExplicit);
  EXPECT_TRUE(repo.load("a").ok());
  EXPECT_TRUE(repo.load("second").ok());
  EXPECT_TRUE(repo.unload("a", Repository::Dependents::kUnload).ok());
  EXPECT_EQ(repo.served("first"), nullptr);
  EXPECT_NE(repo.served("second"), nullptr);
  EXPECT_TRUE(repo.unload("second").ok());
  EXPECT_TRUE(repo.load("a").ok());
  EXPECT_TRUE(repo.unload("a", Repository::Dependents::kUnload).ok());
  EXPECT_EQ(repo.served("second"), nullptr) << "it was loaded along this time";
}

TEST(PipelineModel, ANodeWhoseFolderWasGoneIsNotAskedForAnyMore) {
  test::Disk disk;
  two(disk);
  PipelineRepo repo(disk, Control::kExplicit);
  EXPECT_TRUE(repo.load("second").ok());
  disk.remove("second");
  repo.repository->refresh(disk.root(), {"second"});
  while (repo.served("second")) std::this_thread::yield();
  two(disk);
  EXPECT_TRUE(repo.load("a").ok());
  EXPECT_NE(repo.served("second"), nullptr);
  EXPECT_TRUE(repo.unload("a", Repository::Dependents::kUnload).ok());
  EXPECT_EQ(repo.served("second"), nullptr) << "it was loaded along this time";
}

TEST(PipelineModel, TwoPipelinesCannotBePartsOfEachOther) {
  test::Disk disk({{"a/model.yaml", "engine: pipeline\ndag: {nodes: [{model: b}]}"},
                   {"b/model.yaml", "engine: pipeline\ndag: {nodes: [{model: a}]}"}});
  PipelineRepo repo(disk);
  EXPECT_EQ(repo.served("a"), nullptr);
  EXPECT_EQ(repo.served("b"), nullptr);
}

// p0 runs the model `times` times, and each pN the one before it as often.
void towers(test::Disk& disk, int levels, int times) {
  disk.write("model/1/model.onnx", "x x 4 0");
  for (int level = 0; level < levels; ++level) {
    std::string text = "engine: pipeline\ndag:\n  nodes:\n";
    for (int n = 0; n < times; ++n)
      text += "    - {name: n" + std::to_string(n) +
              ", model: " + (level == 0 ? "model" : "p" + std::to_string(level - 1)) + "}\n";
    disk.write("p" + std::to_string(level) + "/model.yaml", text);
  }
}

TEST(PipelineModel, WhatOneRequestExecutesIsCountedOverAllNestedPipelines) {
  test::Disk disk;
  towers(disk, 30, 2);  // p9 is 2^10 - 1 pipelines and 2^10 models
  PipelineRepo repo(disk);
  EXPECT_NE(repo.served("p7"), nullptr) << "511";
  EXPECT_NE(repo.served("p8"), nullptr) << "1023";
  EXPECT_EQ(repo.tensors("p9"),
            "model 'p9' version 1 is not ready: one request would execute 2047 models and pipelines, those inside its "
            "nodes included: at most 1024 are possible");
  EXPECT_EQ(repo.served("p10"), nullptr);
  EXPECT_EQ(repo.served("p29"), nullptr);
}

TEST(PipelineModel, ExecutionsHaveALimitAndOneMoreIsTooMany) {
  test::Disk disk;
  towers(disk, 2, 31);  // 1 + 31 * 32 = 993
  std::string nodes;
  for (int n = 0; n < 29; ++n) nodes += "    - {name: m" + std::to_string(n) + ", model: model}\n";
  std::string head = "engine: pipeline\ndag:\n  nodes:\n    - {name: inner, model: p1}\n" + nodes;
  disk.write("fits/model.yaml", head + "    - {name: last, model: model}\n");  // 1 + 993 + 30 = 1024
  disk.write("not/model.yaml", head + "    - {name: last, model: model}\n    - {name: more, model: model}\n");
  PipelineRepo repo(disk);
  EXPECT_NE(repo.served("fits"), nullptr) << repo.tensors("fits");
  EXPECT_NE(repo.tensors("not").find("would execute 1025 models"), std::string::npos) << repo.tensors("not");
}

TEST(PipelineModel, ANodeThatGrowsTooMuchLeavesThePipelineWithTheOldOne) {
  test::Disk disk;
  towers(disk, 2, 31);
  disk.write("outer/model.yaml", "engine: pipeline\ndag: {nodes: [{name: a, model: p1}]}");
  PipelineRepo repo(disk);
  const bus::Served* before = repo.served("outer");
  ASSERT_NE(before, nullptr);
  std::string nodes = "engine: pipeline\ndag:\n  nodes:\n";
  for (int n = 0; n < 33; ++n) nodes += "    - {name: n" + std::to_string(n) + ", model: p0}\n";
  disk.write("p1/model.yaml", nodes);  // 1057 of its own
  repo.rescan();
  EXPECT_EQ(repo.served("outer"), before);
  EXPECT_NE(repo.rows().find("p1/1 READY (the reload failed"), std::string::npos) << repo.rows();
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
  PipelineRepo repo(disk);
  EXPECT_EQ(repo.tensors("a"), "4: IN[-1,4] -> OUT[-1,4]");
}

void write_ensemble(test::Disk& disk, const std::string& inputs, const std::string& steps, int max_batch = 4) {
  std::string text = "platform: \"ensemble\" max_batch_size: " + std::to_string(max_batch) + inputs;
  text += " output { name: \"OUT\" data_type: TYPE_FP32 dims: 4 } ensemble_scheduling { " + steps + " }";
  disk.write("a/config.pbtxt", text);
  disk.remove("a/model.yaml");
}

constexpr std::string_view kIn = " input { name: \"IN\" data_type: TYPE_FP32 dims: 4 }";

std::string step(const std::string& model, const std::string& in, const std::string& out) {
  return "step { model_name: \"" + model + "\" model_version: -1 " + in + " " + out + " }";
}

std::string map(std::string_view side, std::string_view key, std::string_view value) {
  return std::string(side) + "_map { key: \"" + std::string(key) + "\" value: \"" + std::string(value) + "\" } ";
}

// The pipeline of model.yaml has tensors under their models' names where it maps none.
TEST(PipelineModel, AnEnsemblesStepHasOnlyWhatItMaps) {
  test::Disk disk;
  two(disk);
  write_ensemble(disk, " input { name: \"x\" data_type: TYPE_FP32 dims: 4 }",
                 step("first", "", map("output", "y", "OUT")));
  PipelineRepo repo(disk);
  EXPECT_EQ(repo.tensors("a"),
            "model 'a' version 1 is not ready: node 'step 1 (first)': input 'x' is not in its input_map");
}

TEST(PipelineModel, AnOutputThatAnEnsembleDoesNotMapMakesNoTensor) {
  test::Disk disk;
  two(disk);
  std::string nothing = step("second", map("input", "x", "IN"), map("output", "z", "gone"));
  write_ensemble(disk, std::string(kIn), step("first", map("input", "x", "IN"), "") + " " + nothing);
  PipelineRepo repo(disk);
  EXPECT_EQ(repo.tensors("a"),
            "model 'a' version 1 is not ready: node 'step 2 (second)': model 'second' has no output 'z'");
  write_ensemble(
      disk, std::string(kIn) + " output { name: \"y\" data_type: TYPE_FP32 dims: 4 }",
      step("first", map("input", "x", "IN"), "") + step("second", map("input", "x", "IN"), map("output", "y", "OUT")));
  repo.rescan();
  EXPECT_EQ(repo.tensors("a"), "model 'a' version 1 is not ready: no node makes the pipeline's output 'y'");
}

TEST(PipelineModel, NoTwoStepsOfAnEnsembleMakeOneTensor) {
  test::Disk disk;
  two(disk);
  std::string in = map("input", "x", "IN"), out = map("output", "y", "OUT");
  write_ensemble(disk, std::string(kIn), step("first", in, out) + step("second", in, out));
  PipelineRepo repo(disk);
  EXPECT_EQ(repo.tensors("a"),
            "model 'a' version 1 is not ready: node 'step 2 (second)' makes 'OUT', which comes from "
            "node 'step 1 (first)' already");
}

// first takes batches, second does not.
TEST(PipelineModel, ModelsWithBatchesAreOneRowOfAPipelineWithoutThem) {
  test::Disk disk;
  two(disk).write("second/1/model.onnx", "x y 4 0");
  std::string first = step("first", map("input", "x", "IN"), map("output", "y", "mid"));
  write_ensemble(disk, std::string(kIn), first + step("second", map("input", "x", "mid"), map("output", "y", "OUT")),
                 0);
  PipelineRepo repo(disk);
  EXPECT_EQ(repo.tensors("a"), "0: IN[4] -> OUT[4]");
  write_ensemble(disk, std::string(kIn), step("first", map("input", "x", "IN"), map("output", "y", "OUT")), 0);
  repo.rescan();
  EXPECT_EQ(repo.tensors("a"), "0: IN[4] -> OUT[4]");
}

TEST(PipelineModel, AStepOfAModelWithOptionalInputsMayLeaveOutWhatItMakes) {
  test::Disk disk;
  two(disk).write("a/1/model.onnx", "x y 4 8");
  disk.write("b/1/model.onnx", "x? y 4 8");
  for (bool optional : {false, true}) {
    auto find = [&](const std::string& model, const std::string&) -> base::Result<std::shared_ptr<bus::Served>> {
      auto served = std::make_shared<bus::Served>();
      served->spec = NodeEngine(disk.root() + "/" + model + "/1/model.onnx").spec();
      return served;
    };
    ModelConfig config;
    config.inputs.push_back({{"IN", DType::kFp32, {4}, optional, {}}, true, {}});
    config.dag.order = DagConfig::Order::kByTensors;
    config.dag.nodes = {{"n", optional ? "b" : "a", "", {{"x", "IN"}}, {{"y", "OUT"}}}};
    config.outputs.push_back({{"OUT", DType::kFp32, {4}, false, {}}, true, {}});
    auto linked = link(config, find);
    ASSERT_TRUE(linked.has_value()) << linked.error().text;
    EXPECT_EQ(linked->plan.nodes.at(0).outputs.at(0).optional, optional);
  }
}

}  // namespace
}  // namespace weir::models
