// The table of Triton's fields against the descriptor of ModelConfig, and against the README of the room.

#include "models/config_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "model_config.pb.h"
#include "models/model_config.h"

namespace weir::models {
namespace {

namespace pb = google::protobuf;

// Every path of a field that holds values.
void collect(const pb::Descriptor& message, const std::string& above, std::set<std::string>& out) {
  for (int i = 0; i < message.field_count(); ++i) {
    const auto& field = *message.field(i);
    const std::string path = above + field.name();
    const pb::Descriptor* inside = field.message_type();
    if (field.is_map()) inside = inside->map_value()->message_type();
    if (inside && inside->field_count() > 0)
      collect(*inside, path + '.', out);
    else
      out.insert(path);
  }
}

inference::ModelConfig parsed(const std::string& text) {
  inference::ModelConfig out;
  EXPECT_TRUE(pb::TextFormat::ParseFromString(text, &out)) << text;
  return out;
}

TEST(ConfigFields, EachFieldOfTheProtoHasOneRowAndEachRowAField) {
  std::set<std::string> fields, rows;
  collect(*inference::ModelConfig::descriptor(), "", fields);
  for (const auto& row : config_fields()) {
    EXPECT_TRUE(rows.insert(std::string(row.path)).second) << row.path << " is there twice";
    EXPECT_EQ(row.why.empty(), row.use == FieldUse::kServed) << row.path;
  }
  for (const auto& field : fields) EXPECT_TRUE(rows.contains(field)) << "no row for " << field;
  for (const auto& row : rows) EXPECT_TRUE(fields.contains(row)) << "no field " << row;
}

TEST(ConfigFields, WhatIsSetIsFoundInMapsListsAndMessagesWithoutFields) {
  auto config = parsed(R"(
    input { name: "a" reshape { shape: 1 } } input { name: "b" optional: true }
    version_policy { all { } } parameters { key: "k" value { string_value: "v" } } metric_tags { key: "t" value: "u" }
    dynamic_batching { priority_queue_policy { key: 1 value { max_queue_size: 3 } } })");
  EXPECT_EQ(fields_of(config),
            (std::vector<std::string>{"version_policy.all", "input.name", "input.reshape.shape", "input.optional",
                                      "metric_tags", "dynamic_batching.priority_queue_policy.max_queue_size",
                                      "parameters.string_value"}));
}

TEST(ConfigFields, ARefusedFieldIsNamedByItsPathInBothForms) {
  auto pbtxt = parse_pbtxt("input { name: \"x\" data_type: TYPE_FP32 dims: 1 allow_ragged_batch: true }", "p", {});
  ASSERT_FALSE(pbtxt);
  EXPECT_EQ(pbtxt.error().code, base::Code::kUnimplemented);
  EXPECT_EQ(pbtxt.error().text,
            "p: field 'input.allow_ragged_batch' is not served: requests of different shapes are not put into one "
            "tensor");
  auto json = parse_config_json(R"({"model_repository_agents": {"agents": [{"name": "checksum"}]}})", {});
  ASSERT_FALSE(json);
  EXPECT_NE(json.error().text.find("field 'model_repository_agents.agents.name' is not served"), std::string::npos)
      << json.error().text;
}

// Sets one value, whatever its type is, in each field of the proto; then the reader takes the field, or names it.
TEST(ConfigFields, EachFieldAloneIsTakenNotedOrRefusedAsItsRowSays) {
  const std::map<std::string, std::string> written = {
      {"optimization.cuda.graph_spec.input.dim",
       "optimization { cuda { graph_spec { input { key: \"x\" value { dim: 1 } } } } }"},
      {"batch_output.kind", "batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: \"x\" }"},
      {"runtime", "runtime: \"x\""},
      {"model_metrics.metric_control.histogram_options.buckets",
       "model_metrics { metric_control { metric_identifier { family: \"nv_inference_first_response_histogram_ms\" } "
       "histogram_options { buckets: [ -1, 0.0, 1, 2.5 ] } } }"},
      {"cc_model_filenames", "cc_model_filenames { key: \"8.0\" value: \"x\" }"},
      {"response_cache.enable", "response_cache { enable: true }"},
  };
  for (const auto& [path, text] : written) {
    auto config = parse_pbtxt(text, "p", {});
    switch (config_field(path)->use) {
      case FieldUse::kServed:
        ASSERT_TRUE(config) << config.error().text;
        EXPECT_TRUE(config->notes.empty()) << path;
        break;
      case FieldUse::kShown:
        ASSERT_TRUE(config) << config.error().text;
        ASSERT_EQ(config->notes.size(), 1u) << path;
        EXPECT_TRUE(config->notes.front().starts_with(path + " (")) << config->notes.front();
        EXPECT_EQ(config->as_triton, parsed(text).SerializeAsString());
        break;
      case FieldUse::kRefused: EXPECT_FALSE(config) << path; break;
    }
  }
}

TEST(Pbtxt, TheBucketsOfFirstResponsesAreChecked) {
  auto read = [](const std::string& buckets, const std::string& family = "nv_inference_first_response_histogram_ms") {
    return parse_pbtxt("model_metrics { metric_control { metric_identifier { family: '" + family +
                           "' } histogram_options { buckets: [" + buckets + "] } } }",
                       "p", {});
  };
  EXPECT_EQ(read("-1, 0, 1, 2.5")->first_response_ms, (std::vector<double>{-1, 0, 1, 2.5}));
  EXPECT_TRUE(parse_pbtxt("", "p", {})->first_response_ms.empty());
  std::string many = "0";
  for (int i = 1; i < 33; ++i) many += "," + std::to_string(i);
  for (const std::string& wrong :
       {std::string("2, 1"), std::string("1, 1"), std::string("nan"), std::string("1, inf"), many}) {
    auto config = read(wrong);
    ASSERT_FALSE(config) << wrong;
    EXPECT_NE(config.error().text.find("'buckets'"), std::string::npos) << config.error().text;
  }
  auto other = read("1", "of_a_backend");
  ASSERT_EQ(other->notes.size(), 1u);
  EXPECT_NE(other->notes[0].find("of_a_backend"), std::string::npos);
}

// Triton's words for accelerators become parameters of engine onnx.
TEST(Pbtxt, AcceleratorsAreProvidersAndTheirOptions) {
  auto read = [](const std::string& accelerators, const std::string& more = "") {
    return parse_pbtxt("optimization { execution_accelerators { " + accelerators + " } } " + more, "p", {});
  };
  using Words = std::map<std::string, std::string>;
  auto parameters = [&](const std::string& accelerators, const std::string& more = "") {
    auto config = read(accelerators, more);
    EXPECT_TRUE(config) << (config ? "" : config.error().text);
    EXPECT_TRUE(config->notes.empty());
    return config->parameters;
  };
  auto with = [](const char* key, const char* value) {
    return std::string("parameters { key: \"") + key + "\" value: \"" + value + "\" }";
  };
  EXPECT_EQ(parameters("gpu_execution_accelerator { name: 'tensorrt' " + with("precision_mode", "FP16") +
                       with("max_workspace_size_bytes", "1024") + with("trt_builder_optimization_level", "3") + "}"),
            (Words{{"providers", "tensorrt,cuda"},
                   {"tensorrt.trt_builder_optimization_level", "3"},
                   {"tensorrt.trt_fp16_enable", "1"},
                   {"tensorrt.trt_max_workspace_size", "1024"}}));
  EXPECT_EQ(parameters("gpu_execution_accelerator { name: 'cuda' " + with("use_tf32", "0") +
                       "} cpu_execution_accelerator { name: 'openvino' }"),
            (Words{{"cuda.use_tf32", "0"}, {"providers", "cuda,openvino"}}));
  EXPECT_EQ(parameters("gpu_execution_accelerator { name: 'tensorrt' }",
                       "parameters { key: 'providers' value { string_value: 'cuda' } }"),
            (Words{{"providers", "cuda"}}));
  EXPECT_EQ(read("gpu_execution_accelerator { name: 'tensorrt' " + with("precision_mode", "FP4") + "}").error().text,
            "p: accelerator 'tensorrt': precision_mode is FP32, FP16 or INT8, not 'FP4'");
  EXPECT_EQ(read("gpu_execution_accelerator { name: 'tensorrt' " + with("max_cached_engines", "4") + "}").error().text,
            "p: accelerator 'tensorrt' has no parameter 'max_cached_engines' here");
}

TEST(Pbtxt, CudaGraphsOfOnnxModelsAreAParameter) {
  auto graphs_of = [](const std::string& text) {
    auto config = parse_pbtxt(text, "p", {});
    EXPECT_TRUE(config) << (config ? "" : config.error().text);
    EXPECT_TRUE(config->notes.empty());
    const auto found = config->parameters.find("cuda.enable_cuda_graph");
    return found == config->parameters.end() ? std::string("none") : found->second;
  };
  const std::string onnx = "backend: 'onnxruntime' ", on = "optimization { cuda { graphs: true } } ";
  const std::string input = "max_batch_size: 4 input { name: 'x' data_type: TYPE_FP32 dims: [ 3 ] } ";
  EXPECT_EQ(graphs_of(onnx + on + input), "1");
  EXPECT_EQ(graphs_of("platform: 'onnxruntime_onnx' " + on + input), "1");
  EXPECT_EQ(graphs_of(onnx + on + "input { name: 'x' data_type: TYPE_FP32 dims: [ -1 ] }"), "none");
  EXPECT_EQ(graphs_of(onnx + "optimization { cuda { graphs: false } }"), "none");
  EXPECT_EQ(graphs_of("backend: 'identity' " + on), "none");
  EXPECT_EQ(graphs_of(onnx + on + input + "parameters { key: 'cuda.enable_cuda_graph' value { string_value: '0' } }"),
            "0");
}

TEST(Pbtxt, InstancesNeedResources) {
  auto read = [](const std::string& resources) {
    return parse_pbtxt("instance_group { count: 2 kind: KIND_CPU rate_limiter { priority: 3 " + resources + " } }", "p",
                       {});
  };
  auto config = read("resources { name: 'R' count: 4 } resources { name: 'G' global: true count: 1 }");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_TRUE(config->notes.empty());
  const auto& rate = config->groups.at(0).rate;
  EXPECT_EQ(rate.priority, 3u);
  ASSERT_EQ(rate.resources.size(), 2u);
  EXPECT_EQ(rate.resources[0].name + std::to_string(rate.resources[0].count), "R4");
  EXPECT_FALSE(rate.resources[0].global);
  EXPECT_TRUE(rate.resources[1].global);
  EXPECT_EQ(read("resources { count: 4 }").error().text,
            "p: instance_group: the name of a resource is one word, not ''");
}

// The words in backquotes of the README's row for each use.
std::map<std::string, FieldUse> in_readme() {
  std::map<std::string, FieldUse> out;
  std::ifstream file(WEIR_MODELS_README);
  for (std::string line; std::getline(file, line);) {
    FieldUse use;
    if (line.starts_with("| served |"))
      use = FieldUse::kServed;
    else if (line.starts_with("| shown |"))
      use = FieldUse::kShown;
    else if (line.starts_with("| refused |"))
      use = FieldUse::kRefused;
    else
      continue;
    for (size_t at = line.find('`'); at != std::string::npos; at = line.find('`', at + 1)) {
      const size_t end = line.find('`', at + 1);
      out[line.substr(at + 1, end - at - 1)] = use;
      at = end;
    }
  }
  return out;
}

TEST(ConfigFields, TheReadmeSaysTheSameOfEachField) {
  const auto readme = in_readme();
  ASSERT_FALSE(readme.empty()) << WEIR_MODELS_README;
  std::set<std::string> needed;
  for (const auto& row : config_fields()) {
    std::string path(row.path);
    while (!path.empty() && !readme.contains(path)) path.resize(path.rfind('.') == path.npos ? 0 : path.rfind('.'));
    ASSERT_FALSE(path.empty()) << row.path << " is not in the README";
    EXPECT_EQ(readme.at(path), row.use) << row.path;
    needed.insert(path);
  }
  for (const auto& [path, use] : readme) EXPECT_TRUE(needed.contains(path)) << path << " is no field";
}

}  // namespace
}  // namespace weir::models
