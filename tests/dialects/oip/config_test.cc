// ModelConfig says what was configured, in Triton's words.

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "dialects/oip/views.h"

namespace weir::oip {
namespace {

msg::ModelSpec spec_of(std::string engine) {
  msg::ModelSpec spec;
  spec.name = "m", spec.version = "1", spec.engine = std::move(engine), spec.max_batch = 8;
  return spec;
}

std::string text(const inference::ModelConfig& config, std::string_view field) {
  inference::ModelConfig only;
  const auto* descriptor = config.GetDescriptor()->FindFieldByName(std::string(field));
  const auto* reflection = config.GetReflection();
  inference::ModelConfig copy = config;
  reflection->SwapFields(&copy, &only, {descriptor});
  std::string out;
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.PrintToString(only, &out);
  return out;
}

inference::ModelConfig config_of(msg::ModelSpec spec) {
  bus::Served served;
  served.spec = std::move(spec);
  return config(served);
}

TEST(OipModelConfig, NamesTheFilesAndTheVersionPolicyAsConfigured) {
  msg::ModelSpec spec = spec_of("onnx");
  msg::TensorSpec output{"y", msg::DType::kFp32, {}};
  output.label_file = "names.txt";
  spec.outputs.push_back(output);
  spec.configured.file = "net.onnx";
  EXPECT_EQ(config_of(spec).default_model_filename(), "net.onnx");
  EXPECT_EQ(config_of(spec).output(0).label_filename(), "names.txt");
  EXPECT_EQ(config_of(spec).backend(), "onnxruntime");

  using Kind = msg::VersionPolicy::Kind;
  spec.configured.versions = {Kind::kLatest, 3, {}};
  EXPECT_EQ(text(config_of(spec), "version_policy"), "version_policy { latest { num_versions: 3 } } ");
  spec.configured.versions = {Kind::kAll, 1, {}};
  EXPECT_EQ(text(config_of(spec), "version_policy"), "version_policy { all { } } ");
  spec.configured.versions = {Kind::kSpecific, 1, {2, 5}};
  EXPECT_EQ(text(config_of(spec), "version_policy"), "version_policy { specific { versions: 2 versions: 5 } } ");
}

TEST(OipModelConfig, HasAGroupForTheInstancesOfEachDevice) {
  msg::ModelSpec spec = spec_of("identity");
  spec.instances = 4;
  spec.configured.devices = {"cuda:1", "cuda:1", "cpu", ""};
  EXPECT_EQ(text(config_of(spec), "instance_group"),
            "instance_group { name: \"m_0\" count: 2 gpus: 1 kind: KIND_GPU } "
            "instance_group { name: \"m_1\" count: 1 kind: KIND_CPU } "
            "instance_group { name: \"m_2\" count: 1 kind: KIND_MODEL } ");
  spec.configured.devices.clear();  // an engine that was made by hand
  EXPECT_EQ(text(config_of(spec), "instance_group"), "instance_group { name: \"m_0\" count: 4 kind: KIND_MODEL } ");
}

TEST(OipModelConfig, ShowsWhatWasWrittenBesideWhatTookEffect) {
  msg::ModelSpec spec = spec_of("onnx");
  spec.instances = 3, spec.max_batch = 4;
  spec.inputs.push_back({"x", msg::DType::kFp32, {3}});
  spec.configured.devices = {"cpu", "cpu", "cpu"};
  inference::ModelConfig written;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
      name: "other" max_batch_size: 64 backend: "onnxruntime"
      input { name: "x" data_type: TYPE_FP64 dims: [ -1 ] reshape { shape: [ 3, 1 ] } is_shape_tensor: true }
      input { name: "left out" data_type: TYPE_FP32 dims: 1 }
      instance_group { name: "a" count: 2 kind: KIND_CPU host_policy: "p" }
      instance_group { count: 1 kind: KIND_CPU rate_limiter { priority: 3 } }
      instance_group { name: "idle" count: 7 passive: true }
      optimization { graph { level: 2 } } metric_tags { key: "k" value: "v" }
      dynamic_batching { } model_warmup { name: "w" batch_size: 1 })",
                                                            &written));
  spec.configured.as_triton = written.SerializeAsString();
  auto config = config_of(spec);
  EXPECT_EQ(config.name(), "m");
  EXPECT_EQ(config.max_batch_size(), 4);
  EXPECT_EQ(text(config, "input"),
            "input { name: \"x\" data_type: TYPE_FP32 dims: 3 reshape { shape: 3 shape: 1 } is_shape_tensor: true } ");
  EXPECT_EQ(text(config, "instance_group"),
            "instance_group { name: \"a\" count: 2 kind: KIND_CPU host_policy: \"p\" } "
            "instance_group { name: \"m_1\" count: 1 kind: KIND_CPU rate_limiter { priority: 3 } } "
            "instance_group { name: \"idle\" count: 7 passive: true } ");
  EXPECT_EQ(text(config, "optimization"), "optimization { graph { level: 2 } } ");
  EXPECT_EQ(text(config, "metric_tags"), "metric_tags { key: \"k\" value: \"v\" } ");
  EXPECT_EQ(text(config, "model_warmup"), "model_warmup { name: \"w\" batch_size: 1 } ");
  EXPECT_FALSE(config.has_dynamic_batching()) << "it is not in effect";
}

TEST(OipModelConfig, APipelineIsAnEnsemble) {
  msg::ModelSpec spec = spec_of("pipeline");
  spec.batching.dynamic = true;
  spec.configured.steps = {{"scale", "", {}, {}}, {"read", "2", {{"image", "scaled"}}, {{"digit", "out"}}}};
  auto config = config_of(spec);
  EXPECT_EQ(text(config, "ensemble_scheduling"),
            "ensemble_scheduling { step { model_name: \"scale\" model_version: -1 } step { model_name: \"read\" "
            "model_version: 2 input_map { key: \"image\" value: \"scaled\" } "
            "output_map { key: \"digit\" value: \"out\" } } } ");
  EXPECT_EQ(config.backend(), "");
  EXPECT_FALSE(config.has_dynamic_batching());
  EXPECT_EQ(config.instance_group_size(), 0);
}

TEST(OipModelConfig, AModelThatMakesTextMayAnswerManyTimes) {
  msg::ModelSpec spec = spec_of("llm");
  EXPECT_FALSE(config_of(spec).model_transaction_policy().decoupled());
  spec.text = std::make_shared<msg::TextSpec>();
  EXPECT_TRUE(config_of(spec).model_transaction_policy().decoupled());
}

TEST(OipModelConfig, KeepsFormatsAndDynamicBatchingAsWritten) {
  msg::ModelSpec spec = spec_of("onnx");
  spec.max_batch = 1;
  spec.inputs = {{"x", msg::DType::kFp32, {3, 2, 2}, false, {}}, {"y", msg::DType::kFp32, {1}, false, {}}};
  spec.inputs[0].format = "FORMAT_NHWC";
  EXPECT_FALSE(config_of(spec).has_dynamic_batching());
  msg::BatchPolicy written;
  written.dynamic = true, written.priority_levels = 5, written.default_priority = 2;
  written.preferred = {4, 8};
  using Action = msg::QueuePolicy::TimeoutAction;
  written.timeout_action = Action::kDelay, written.allow_timeout_override = false, written.max_queue = 7;
  written.levels[5] = {.max_queue = 3, .queue_timeout = std::chrono::microseconds(40)};
  written.preserve_ordering = true;
  spec.configured.batching = written;
  auto config = config_of(spec);
  const auto& batching = config.dynamic_batching();
  EXPECT_TRUE(batching.preserve_ordering());
  EXPECT_EQ(batching.default_queue_policy().timeout_action(), inference::ModelQueuePolicy::DELAY);
  EXPECT_FALSE(batching.default_queue_policy().allow_timeout_override());
  EXPECT_EQ(batching.default_queue_policy().max_queue_size(), 7u);
  ASSERT_EQ(batching.priority_queue_policy_size(), 1);
  const auto& fifth = batching.priority_queue_policy().at(5);
  EXPECT_EQ(fifth.timeout_action(), inference::ModelQueuePolicy::REJECT);
  EXPECT_TRUE(fifth.allow_timeout_override());
  EXPECT_EQ(fifth.max_queue_size(), 3u);
  EXPECT_EQ(fifth.default_timeout_microseconds(), 40u);
  EXPECT_EQ(config.input(0).format(), inference::ModelInput::FORMAT_NHWC);
  EXPECT_EQ(config.input(1).format(), inference::ModelInput::FORMAT_NONE);
  EXPECT_EQ(config.dynamic_batching().priority_levels(), 5u);
  EXPECT_EQ(config.dynamic_batching().default_priority_level(), 2u);
  EXPECT_EQ(config.dynamic_batching().preferred_batch_size_size(), 2);
  spec.configured.batching->dynamic = false, spec.batching.dynamic = true;
  EXPECT_FALSE(config_of(spec).has_dynamic_batching()) << "switched off in so many words";
}

TEST(OipMetadata, VersionsAreInTheOrderOfTheirNumbers) {
  bus::Catalog catalog;
  auto served = std::make_shared<bus::Served>();
  served->spec = spec_of("onnx");
  for (const char* version : {"1", "10", "3"}) catalog.models["m"].versions[version] = served;
  const auto said = metadata(catalog, *served).versions();
  EXPECT_EQ(std::vector<std::string>(said.begin(), said.end()), (std::vector<std::string>{"1", "3", "10"}));
}

}  // namespace
}  // namespace weir::oip
