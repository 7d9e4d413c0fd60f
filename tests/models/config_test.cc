#include <gtest/gtest.h>

#include "models/merge.h"
#include "models/model_config.h"
#include "models/model_yaml.h"
#include "support/cpu_time.h"

namespace weir::models {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""us;

TEST(Pbtxt, TheFieldsThatMatterAreRead) {
  auto config = parse_pbtxt(R"(
    name: "m" platform: "onnxruntime_onnx" max_batch_size: 8
    input [ { name: "x" data_type: TYPE_FP32 dims: [ 3, -1 ] optional: true } ]
    output [ { name: "y" data_type: TYPE_STRING dims: [ 10 ] label_filename: "labels.txt" } ]
    instance_group [ { count: 2 kind: KIND_CPU }, { count: 1 } ]
    version_policy: { specific: { versions: [ 1, 3 ] } }
    dynamic_batching { preferred_batch_size: [ 8, 4 ] max_queue_delay_microseconds: 100 priority_levels: 3
                       default_priority_level: 2
                       default_queue_policy { max_queue_size: 7 default_timeout_microseconds: 5000 } }
    parameters { key: "delay_us" value { string_value: "20" } }
    model_transaction_policy { decoupled: true })",
                            "m/config.pbtxt", {});
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->engine, "onnx");
  EXPECT_EQ(config->max_batch, 8u);
  EXPECT_EQ(config->inputs.at(0).spec.shape, (msg::Shape{3, -1}));
  EXPECT_TRUE(config->inputs.at(0).spec.optional);
  EXPECT_EQ(config->outputs.at(0).spec.dtype, msg::DType::kBytes);
  EXPECT_EQ(config->outputs.at(0).spec.label_file, "labels.txt");
  EXPECT_EQ(config->instances, 3u);
  EXPECT_EQ(config->versions.choose({1, 2, 3, 4}), (std::vector<uint64_t>{1, 3}));
  EXPECT_TRUE(config->batching.dynamic);
  EXPECT_EQ(config->batching.preferred, (std::vector<uint32_t>{4, 8}));
  EXPECT_EQ(config->batching.max_delay, 100us);
  EXPECT_EQ(config->batching.priority_levels, 3u);
  EXPECT_EQ(config->batching.max_queue, 7u);
  EXPECT_EQ(config->batching.queue_timeout, 5ms);
  EXPECT_EQ(config->parameters.at("delay_us"), "20");
  EXPECT_TRUE(config->decoupled);
}

TEST(Pbtxt, QueuePoliciesAreReadForEachLevel) {
  using Action = msg::QueuePolicy::TimeoutAction;
  msg::BatchPolicy defaults;
  defaults.max_queue = 99, defaults.queue_timeout = 7ms;
  auto config = parse_pbtxt(R"(
    max_batch_size: 8
    dynamic_batching { priority_levels: 3 default_priority_level: 2
                       default_queue_policy { timeout_action: DELAY allow_timeout_override: true }
                       priority_queue_policy { key: 1 value { max_queue_size: 3 } }
                       priority_queue_policy { key: 3 value { timeout_action: DELAY default_timeout_microseconds: 50
                                                              allow_timeout_override: true } } })",
                            "p", defaults);
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_TRUE(check(*config, "m").ok());
  EXPECT_TRUE(config->notes.empty());
  const auto& batching = config->batching;
  EXPECT_EQ(batching.timeout_action, Action::kDelay);
  EXPECT_TRUE(batching.allow_timeout_override);
  EXPECT_EQ(batching.max_queue, 99u) << "what the file does not say is the server's";
  EXPECT_EQ(batching.queue_timeout, 7ms);
  ASSERT_EQ(batching.levels.size(), 2u);
  EXPECT_EQ(batching.levels.at(1).max_queue, 3u);
  EXPECT_EQ(batching.levels.at(1).timeout_action, Action::kReject) << "nothing of the default policy is in it";
  EXPECT_FALSE(batching.levels.at(1).allow_timeout_override);
  EXPECT_EQ(batching.levels.at(3).queue_timeout, 50us);
  EXPECT_EQ(batching.levels.at(3).timeout_action, Action::kDelay);
  EXPECT_EQ(batching.levels.at(3).max_queue, 99u);
}

TEST(Pbtxt, APolicyThatIsNotGivenLetsRequestsHaveTheirOwnTimeouts) {
  auto allowed = [](const char* text) { return parse_pbtxt(text, "p", {})->batching.allow_timeout_override; };
  EXPECT_TRUE(allowed("dynamic_batching { }"));
  EXPECT_FALSE(allowed("dynamic_batching { default_queue_policy { max_queue_size: 1 } }"));
}

TEST(Pbtxt, QueuePoliciesThatContradictEachOtherAreRefusedAsByTriton) {
  auto why = [](const std::string& batching) {
    auto config = parse_pbtxt("max_batch_size: 8 dynamic_batching { " + batching + " }", "p", {});
    return config ? check(*config, "m").text : config.error().text;
  };
  EXPECT_EQ(why("preserve_ordering: true"), "");
  EXPECT_EQ(why("preserve_ordering: true priority_levels: 1 default_priority_level: 1"), "");
  EXPECT_EQ(why("preserve_ordering: true priority_levels: 2 default_priority_level: 1"),
            "preserve_ordering goes with one level of priority, not with 2");
  auto delay = std::string("timeout_action: DELAY default_timeout_microseconds: 5");
  EXPECT_EQ(why("preserve_ordering: true default_queue_policy { " + delay + " }"),
            "preserve_ordering does not go with a queue policy whose timeout_action is DELAY");
  EXPECT_EQ(why("preserve_ordering: true priority_levels: 1 default_priority_level: 1 "
                "priority_queue_policy { key: 1 value { " +
                delay + " } }"),
            "preserve_ordering does not go with a queue policy whose timeout_action is DELAY");
  EXPECT_EQ(why("preserve_ordering: true default_queue_policy { timeout_action: DELAY }"), "") << "without a timeout";
  EXPECT_EQ(why("priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value { } }"),
            "a queue policy for priority 3 of 2 levels");
  EXPECT_EQ(why("priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 0 value { } }"),
            "a queue policy for priority 0 of 2 levels");
  EXPECT_EQ(why("priority_queue_policy { key: 3 value { } }"), "") << "without levels there is nothing that it is for";
  EXPECT_EQ(why("priority_levels: 18446744073709551615 default_priority_level: 4294967296"),
            "4294967295 priority levels: at most 1000 are possible");
  EXPECT_EQ(why("priority_levels: 1001 default_priority_level: 1"), "1001 priority levels: at most 1000 are possible");
  EXPECT_EQ(why("priority_levels: 1000 default_priority_level: 1000"), "");
  EXPECT_EQ(why("default_queue_policy { default_timeout_microseconds: 3600000001 }"),
            "p: dynamic_batching: default_timeout_microseconds of more than an hour");
}

TEST(Pbtxt, AnUnknownFieldIsNamedWithItsPlaceAndTheNearestOne) {
  auto config = parse_pbtxt("name: \"m\"\n  max_bach_size: 8\n", "m/config.pbtxt", {});
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().text.find("m/config.pbtxt:2:3: unknown field 'max_bach_size'"), 0u) << config.error().text;
  EXPECT_NE(config.error().text.find("did you mean 'max_batch_size'?"), std::string::npos) << config.error().text;
}

TEST(Pbtxt, WhatIsNotSaidIsLeftToTheEngineAndTheDefaults) {
  msg::BatchPolicy defaults;
  defaults.dynamic = true;
  defaults.max_delay = 2ms;
  auto config = parse_pbtxt("backend: \"identity\"", "p", defaults);
  ASSERT_TRUE(config);
  EXPECT_FALSE(config->max_batch);
  EXPECT_EQ(config->engine, "identity");
  EXPECT_EQ(config->batching.max_delay, 2ms);
}

// As Triton; model.yaml, and a folder without any configuration, leave it to the server's defaults.
TEST(Pbtxt, ModelsShareBatchesOnlyWhereTheConfigurationAsksForIt) {
  msg::BatchPolicy defaults;
  defaults.dynamic = true;
  EXPECT_FALSE(parse_pbtxt("max_batch_size: 8", "p", defaults)->batching.dynamic);
  EXPECT_TRUE(parse_pbtxt("max_batch_size: 8 dynamic_batching { }", "p", defaults)->batching.dynamic);
  EXPECT_TRUE(parse_pbtxt("max_batch_size: 8 dynamic_batching { }", "p", {})->batching.dynamic);
  EXPECT_FALSE(parse_config_json(R"({"max_batch_size":8})", defaults)->batching.dynamic);
  EXPECT_TRUE(parse_config_json(R"({"max_batch_size":8,"dynamic_batching":{}})", defaults)->batching.dynamic);
  EXPECT_TRUE(parse_model_yaml("max_batch: 8", "p", defaults)->batching.dynamic);
  EXPECT_FALSE(parse_model_yaml("batching: {dynamic: false}", "p", defaults)->batching.dynamic);
}

TEST(Pbtxt, WhatWouldChangeAnswersIsRefusedAndTheRestIsNoted) {
  EXPECT_EQ(parse_pbtxt("sequence_batching { iterative_sequence: true }", "p", {}).error().code,
            base::Code::kUnimplemented);
  auto config = parse_pbtxt("optimization { graph { level: 1 } } response_cache { enable: true }", "p", {});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->notes,
            std::vector<std::string>{"optimization.graph.level (engines.onnx.graph_optimization sets it)"});
}

TEST(Pbtxt, AReshapeIsWhatTheModelFileHas) {
  auto config = parse_pbtxt(R"(
    input { name: "x" data_type: TYPE_FP32 dims: 1 reshape { shape: [] } format: FORMAT_NCHW }
    output { name: "y" data_type: TYPE_FP32 dims: [ -1, 2 ] reshape { shape: [ 2, -1 ] } })",
                            "p", {});
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->inputs.at(0).spec.shape, (msg::Shape{1}));
  EXPECT_EQ(config->wanted("m", 1).inputs.at(0).shape, msg::Shape{});
  EXPECT_EQ(config->inputs.at(0).spec.format, "FORMAT_NCHW");
  EXPECT_EQ(check(*config, "m").text,
            "output 'y' has shape [-1,2] and reshape [2,-1]: both need the same number of "
            "elements");
  config->outputs.clear();
  EXPECT_TRUE(check(*config, "m").ok());
}

TEST(ModelYaml, HasReshapeAndFormat) {
  auto config = parse_model_yaml("inputs: [{name: x, shape: [4], reshape: [2, 2], format: NHWC}]", "p", {});
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_TRUE(check(*config, "m").ok());
  EXPECT_EQ(config->wanted("m", 1).inputs.at(0).shape, (msg::Shape{2, 2}));
  EXPECT_EQ(config->inputs.at(0).spec.format, "FORMAT_NHWC");
  EXPECT_FALSE(parse_model_yaml("inputs: [{name: x, format: HWC}]", "p", {}));
}

TEST(ConfigJson, IsTheSameConfiguration) {
  auto config = parse_config_json(R"({"backend":"onnxruntime","max_batch_size":4,
    "input":[{"name":"x","data_type":"TYPE_INT64","dims":[2]}],
    "parameters":{"k":{"string_value":"v"}}})",
                                  {});
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->max_batch, 4u);
  EXPECT_EQ(config->inputs.at(0).spec.dtype, msg::DType::kInt64);
  EXPECT_FALSE(parse_config_json("{\"nope\":1}", {}));
  EXPECT_FALSE(parse_config_json("{", {}));
}

TEST(ModelYaml, EveryKeyIsRead) {
  auto config = parse_model_yaml(R"(engine: onnx
file: net.onnx
max_batch: 16
instances: 2
versions: {latest: 3}
batching: {max_delay: 2ms, preferred: [8, 4], priority_levels: 3, default_priority: 2, max_queue: 9, queue_timeout: 1.5s}
inputs:
  - {name: x, type: FP32, shape: [28, -1], optional: true}
outputs:
  - {name: y, labels: [zero, one]}
  - {name: z, labels: names.txt}
parameters: {intra_op_threads: 2}
)",
                                 "m/model.yaml", {});
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->file, "net.onnx");
  EXPECT_EQ(config->max_batch, 16u);
  EXPECT_EQ(config->versions.latest, 3u);
  EXPECT_TRUE(config->batching.dynamic);
  EXPECT_EQ(config->batching.preferred, (std::vector<uint32_t>{4, 8}));
  EXPECT_EQ(config->batching.queue_timeout, 1500ms);
  EXPECT_TRUE(config->inputs.at(0).shape_given);
  EXPECT_FALSE(config->outputs.at(0).shape_given);
  EXPECT_EQ(config->outputs.at(0).spec.labels.size(), 2u);
  EXPECT_EQ(config->outputs.at(1).spec.label_file, "names.txt");
  EXPECT_EQ(config->parameters.at("intra_op_threads"), "2");
}

TEST(ModelYaml, QueuePoliciesAreReadForEachLevel) {
  using Action = msg::QueuePolicy::TimeoutAction;
  msg::BatchPolicy defaults;
  defaults.max_queue = 99;
  auto config = parse_model_yaml(R"(max_batch: 8
batching:
  priority_levels: 3
  timeout_action: delay
  queue_timeout: 5ms
  allow_timeout_override: false
  levels: {1: {max_queue: 3, queue_timeout: 50us}, 3: {timeout_action: delay, allow_timeout_override: off}}
)",
                                 "m/model.yaml", defaults);
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_TRUE(check(*config, "m").ok());
  const auto& batching = config->batching;
  EXPECT_EQ(batching.timeout_action, Action::kDelay);
  EXPECT_FALSE(batching.allow_timeout_override);
  EXPECT_FALSE(batching.preserve_ordering);
  ASSERT_EQ(batching.levels.size(), 2u);
  EXPECT_EQ(batching.levels.at(1).max_queue, 3u);
  EXPECT_EQ(batching.levels.at(1).queue_timeout, 50us);
  EXPECT_EQ(batching.levels.at(1).timeout_action, Action::kReject);
  EXPECT_TRUE(batching.levels.at(1).allow_timeout_override);
  EXPECT_EQ(batching.levels.at(3).max_queue, 99u);
  EXPECT_EQ(batching.levels.at(3).queue_timeout, 0ms);
  EXPECT_TRUE(parse_model_yaml("batching: {preserve_ordering: true}", "p", {})->batching.preserve_ordering);
}

TEST(ModelYaml, QueuePoliciesWithMistakesAreNamedWithTheirPlace) {
  auto why = [](const char* text) { return parse_model_yaml(text, "p", {}).error().text; };
  EXPECT_EQ(why("batching: {timeout_action: wait}"), "p:1:28: expected reject or delay");
  EXPECT_EQ(why("batching: {levels: [1]}"), "p:1:20: expected a map of priorities and queue policies");
  EXPECT_NE(why("batching: {levels: {one: {max_queue: 1}}}").find("expected a priority, got 'one'"), std::string::npos);
  EXPECT_NE(why("batching: {levels: {1: {max_que: 1}}}").find("did you mean 'max_queue'?"), std::string::npos);
  auto many = parse_model_yaml("batching: {priority_levels: 1500000}", "p", {});
  ASSERT_TRUE(many);
  EXPECT_EQ(check(*many, "m").text, "1500000 priority levels: at most 1000 are possible");
}

TEST(ModelYaml, VeryManyKeysTakeTimeInProportion) {
  auto with = [](size_t n, const char* section) {
    std::string text = section;
    for (size_t i = 0; i < n; ++i) text += "  k" + std::to_string(i) + ": 1\n";
    return text;
  };
  EXPECT_EQ(parse_model_yaml(with(49'000, "parameters:\n"), "m", {})->parameters.size(), 49'000u);
  for (const char* section : {"parameters:\n", "batching:\n", "dag:\n"})
    EXPECT_LE(support::growth(5000, [&](size_t n) { (void)parse_model_yaml(with(n, section), "m", {}); }), 2.5)
        << section;
}

TEST(Configuration, TritonsFormsAreBounded) {
  auto pbtxt = [](size_t bytes) { return "name: \"m\" #" + std::string(bytes - 11, 'x'); };
  EXPECT_TRUE(parse_pbtxt(pbtxt(kMaxConfigBytes), "p", {}));
  EXPECT_EQ(parse_pbtxt(pbtxt(kMaxConfigBytes + 1), "p", {}).error().text, "p: longer than 1 MiB");
  auto json = [](size_t bytes) { return "{\"name\": \"m\"" + std::string(bytes - 13, ' ') + "}"; };
  EXPECT_TRUE(parse_config_json(json(kMaxConfigBytes), {}));
  EXPECT_EQ(parse_config_json(json(kMaxConfigBytes + 1), {}).error().text,
            "load parameter 'config': longer than 1 MiB");
  std::string deep, deep_json;
  for (int i = 0; i < 100'000; ++i) deep += "parameters { ", deep_json += "{\"parameters\":";
  EXPECT_FALSE(parse_pbtxt(deep, "p", {}));
  EXPECT_FALSE(parse_config_json(deep_json, {}));
  EXPECT_FALSE(parse_config_json("{\"name\":" + std::string(100'000, '['), {}));
}

TEST(ModelYaml, EveryMistakeIsNamedWithItsPlace) {
  auto config = parse_model_yaml(
      "max_bach: 8\nbatching:\n  max_delay: 2\ninputs:\n  - {name: x, type: FLOAT}\n  - {shape: [-2]}\n",
      "m/model.yaml", {});
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().text,
            "m/model.yaml:1:1: unknown key 'max_bach', did you mean 'max_batch'?\n"
            "m/model.yaml:3:14: expected a duration like 2ms, 1.5s or 5m, got '2'\n"
            "m/model.yaml:5:21: expected a type like FP32, INT64, BOOL or BYTES, got 'FLOAT'\n"
            "m/model.yaml:6:14: expected a dimension, 0 or more, or -1 for any\n"
            "m/model.yaml:6:5: a tensor needs a 'name'");
}

TEST(ModelYaml, VersionPolicies) {
  auto policy = [](const char* text) { return parse_model_yaml(text, "f", {})->versions; };
  EXPECT_EQ(policy("versions: all").choose({1, 2}), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(policy("versions: latest").choose({1, 2, 10}), (std::vector<uint64_t>{10}));
  EXPECT_EQ(policy("versions: {latest: 2}").choose({1, 2, 10}), (std::vector<uint64_t>{2, 10}));
  EXPECT_EQ(policy("versions: [1, 7]").choose({1, 2, 10}), (std::vector<uint64_t>{1}));
  EXPECT_FALSE(parse_model_yaml("versions: newest", "f", {}));
}

TEST(Check, CatchesWhatNoFormCanMean) {
  ModelConfig config;
  EXPECT_TRUE(check(config, "m").ok());
  config.name = "other";
  EXPECT_FALSE(check(config, "m").ok());
  config = {};
  config.instances = 0;
  EXPECT_FALSE(check(config, "m").ok());
  config = {};
  config.inputs.resize(2);
  config.inputs[0].spec.name = config.inputs[1].spec.name = "x";
  EXPECT_EQ(check(config, "m").text, "input 'x' is given twice");
}

msg::ModelSpec model_file() {
  msg::ModelSpec file;
  file.platform = "onnxruntime_onnx";
  file.max_batch = 128;
  file.inputs = {{"x", msg::DType::kFp32, {-1, 4}, false, {}}};
  file.outputs = {{"a", msg::DType::kFp32, {4}, false, {}}, {"b", msg::DType::kInt64, {}, false, {}}};
  return file;
}

TEST(Merge, ABareModelIsWhatItsFileSays) {
  ModelConfig config;
  auto spec = merge(config.wanted("m", 3), config, model_file(), 32);
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->name, "m");
  EXPECT_EQ(spec->version, "3");
  EXPECT_EQ(spec->max_batch, 32u);
  EXPECT_EQ(spec->inputs.at(0).shape, (msg::Shape{-1, 4}));
  EXPECT_EQ(spec->platform, "onnxruntime_onnx");
}

TEST(Merge, TheConfigurationNarrowsAndLabels) {
  auto config = *parse_model_yaml(
      "max_batch: 8\ninputs: [{name: x, shape: [7, 4]}]\noutputs: [{name: b, type: INT64, labels: [p, q]}]", "f", {});
  auto spec = merge(config.wanted("m", 1), config, model_file(), 32);
  ASSERT_TRUE(spec) << spec.error().text;
  EXPECT_EQ(spec->max_batch, 8u);
  EXPECT_EQ(spec->inputs.at(0).shape, (msg::Shape{7, 4}));
  EXPECT_EQ(spec->outputs.at(0).name, "a");
  EXPECT_EQ(spec->outputs.at(1).labels.size(), 2u);
}

TEST(Merge, WithoutBatchingShapesAreWhole) {
  auto config = *parse_model_yaml("max_batch: 0", "f", {});
  auto spec = merge(config.wanted("m", 1), config, model_file(), 32);
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->inputs.at(0).shape, (msg::Shape{-1, -1, 4}));
  EXPECT_FALSE(spec->batching.dynamic);
}

TEST(Merge, ContradictionsNameTheTensorAndBothSides) {
  auto said = [](const char* yaml) {
    auto config = *parse_model_yaml(yaml, "f", {});
    return merge(config.wanted("m", 1), config, model_file(), 32).error().text;
  };
  EXPECT_EQ(said("inputs: [{name: x, type: INT8}]"), "input 'x' is INT8 in the configuration and FP32 in the model");
  EXPECT_EQ(said("inputs: [{name: x, shape: [3, 5]}]"),
            "input 'x' has shape [3,5] in the configuration and [-1,4] in the model");
  EXPECT_EQ(said("outputs: [{name: c}]"), "the configuration has an output 'c' that the model has not; it has a, b");
  auto config = *parse_model_yaml("max_batch: 4", "f", {});
  auto file = model_file();
  file.max_batch = 0;
  EXPECT_FALSE(merge(config.wanted("m", 1), config, file, 32));
}

TEST(Pbtxt, WhatNothingHereUsesIsKeptForThoseWhoAsk) {
  auto config = parse_pbtxt(
      "max_batch_size: 1 input [{name: \"x\" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [3, 2, 2]}]"
      "dynamic_batching { priority_levels: 5 default_priority_level: 2 max_queue_delay_microseconds: 7 }",
      "m", {});
  ASSERT_TRUE(config) << config.error().text;
  msg::ModelSpec file;
  file.max_batch = 64;
  file.inputs = {{"x", msg::DType::kFp32, {3, 2, 2}, false, {}}};
  auto spec = merge(config->wanted("m", 1), *config, file, 32);
  ASSERT_TRUE(spec) << spec.error().text;
  EXPECT_FALSE(spec->batching.dynamic) << "of one row each";
  ASSERT_TRUE(spec->configured.batching);
  EXPECT_TRUE(spec->configured.batching->dynamic);
  EXPECT_EQ(spec->configured.batching->priority_levels, 5u);
  EXPECT_EQ(spec->configured.batching->default_priority, 2u);
  EXPECT_EQ(spec->inputs.at(0).format, "FORMAT_NCHW");
  EXPECT_FALSE(parse_pbtxt("max_batch_size: 8", "m", {})->wanted("m", 1).configured.batching);
}

}  // namespace
}  // namespace weir::models
