#include <gtest/gtest.h>

#include "engines/process/protocol.h"
#include "models/model_config.h"

namespace weir::models {
namespace {

TEST(SequenceConfig, SequenceBatchingIsReadWithItsControlsAndStates) {
  auto config = parse_pbtxt(R"(sequence_batching {
    max_sequence_idle_microseconds: 7
    oldest { max_candidate_sequences: 4 preferred_batch_size: [ 8, 2 ] max_queue_delay_microseconds: 9 }
    control_input { name: "S" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ -1, 1 ] } }
    control_input { name: "E" control { kind: CONTROL_SEQUENCE_END bool_false_true: [ true, false ] } }
    control_input { name: "C" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }
    state { input_name: "i" output_name: "o" data_type: TYPE_FP32 dims: [ -1, 3 ] use_growable_memory: true
            initial_state { name: "x" data_type: TYPE_FP32 dims: [ 2, 3 ] data_file: "x.bin" } } })",
                            "p", {});
  ASSERT_TRUE(config) << config.error().text;
  const auto& read = *config->sequence;
  EXPECT_EQ(read.strategy, msg::SequenceSpec::Strategy::kOldest);
  EXPECT_EQ(read.idle, std::chrono::microseconds(7));
  EXPECT_EQ(read.max_candidates, 4u);
  EXPECT_EQ(read.preferred, (std::vector<uint32_t>{2, 8}));
  ASSERT_EQ(read.controls.size(), 3u);
  EXPECT_EQ(read.controls[0].dtype, msg::DType::kFp32);
  EXPECT_EQ(read.controls[0].off, -1);
  EXPECT_EQ(read.controls[1].off, 1);
  EXPECT_EQ(read.controls[2].dtype, msg::DType::kBytes);
  ASSERT_EQ(read.states.size(), 1u);
  EXPECT_TRUE(read.states[0].growable);
  EXPECT_EQ(read.states[0].initial->file, "x.bin");
}

TEST(SequenceConfig, SequenceBatchingThatCannotWorkIsRefused) {
  for (const char* text : {
           "control_input { control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }",
           "control_input { name: 'S' control { kind: CONTROL_SEQUENCE_START } }",
           "control_input { name: 'S' control { int32_false_true: [ 0 ] fp32_false_true: [ 1 ] } }",
           "control_input { name: 'S' }",
           "control_input { name: 'C' control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32 } }",
           "control_input { name: 'S' control { int32_false_true: [ 0, 1 ] } } "
           "control_input { name: 'T' control { int32_false_true: [ 0, 1 ] } }",
           "oldest { max_candidate_sequences: -1 }",
           "oldest { max_candidate_sequences: 65537 }",
           "oldest { preferred_batch_size: [ 0 ] }",
           "max_sequence_idle_microseconds: 18446744073709551615",
           "direct { max_queue_delay_microseconds: 18446744073709551615 }",
           "state { input_name: 'i' data_type: TYPE_FP32 }",
           "state { input_name: 'i' output_name: 'o' }",
           "state { input_name: 'i' output_name: 'o' data_type: TYPE_FP32 dims: [ -2 ] }",
           "state { input_name: 'i' output_name: 'o' data_type: TYPE_FP32 initial_state { data_type: TYPE_INT8 } }",
       })
    EXPECT_EQ(parse_pbtxt("sequence_batching { " + std::string(text) + " }", "p", {}).error().code,
              base::Code::kInvalidArgument)
        << text;
}

TEST(SequenceConfig, IterativeSequencesAreForPythonModelsWithoutStates) {
  auto slots = [](const std::string& text) {
    auto config = parse_pbtxt(
        "backend: 'python' max_batch_size: 4 sequence_batching { iterative_sequence: true " + text + " }", "p", {});
    if (!config) return config.error().text;
    EXPECT_EQ(config->sequence, nullptr);
    EXPECT_TRUE(config->batching.dynamic);
    EXPECT_TRUE(config->parameters.empty());
    EXPECT_TRUE(config->iterative);
    return config->wanted("m", 1).parameters.at(process::kIterative);
  };
  EXPECT_EQ(slots(""), "0");
  EXPECT_EQ(slots("direct { }"), "0");
  EXPECT_EQ(slots("oldest { max_candidate_sequences: 9 }"), "9");
  EXPECT_EQ(slots("oldest { }"), "0");
  EXPECT_EQ(slots("oldest { max_candidate_sequences: -9 }"), slots("oldest { }"));
  ModelConfig own;
  own.parameters["iterative_sequence"] = "a model's own";
  EXPECT_TRUE(check(own, "m").ok());
  own.parameters[process::kIterative] = "7";
  EXPECT_EQ(check(own, "m").code, base::Code::kInvalidArgument);
  EXPECT_NE(slots("state { input_name: 'a' output_name: 'b' }").find("without state"), std::string::npos);
  EXPECT_EQ(slots("control_input { name: 'S' control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 0.5 ] } } "
                  "control_input { name: 'I' control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }"),
            "0\x1fS\x1fSTART\x1f"
            "11\x1f"
            "0\x1f"
            "0.5\x1fI\x1f"
            "CORRID\x1f"
            "5\x1f"
            "0\x1f"
            "1");
  EXPECT_EQ(slots("control_input { name: 'S' control { kind: CONTROL_SEQUENCE_START "
                  "int32_false_true: [ -2147483648, 2147483647 ] } }"),
            "0\x1fS\x1fSTART\x1f"
            "8\x1f"
            "-2147483648\x1f"
            "2147483647");
  EXPECT_NE(slots("control_input { name: 'S' control { kind: CONTROL_SEQUENCE_START } }").find("needs two values"),
            std::string::npos);
}

}  // namespace
}  // namespace weir::models
