#include "engines/llm/load/quantization.h"

#include <string>

#include "base/encoding.h"

namespace weir::llm {
namespace {

constexpr const char* kPlace = "quantization_config";
constexpr uint32_t kLeastGroup = 16, kMostGroup = 1 << 19;  // with fewer, scales would take more than codes

class QuantizationReader {
 public:
  QuantizationReader(ConfigFields& config, const nlohmann::json& object)
      : config_(config), f_(object, status_, "quantization_config.") {}

  Quantization read() {
    Quantization q;
    const std::string method = f_.text_or("quant_method", "");
    if (method == "gptq")
      read_gptq(q);
    else if (method == "awq")
      read_awq(q);
    else if (method == "fp8")
      read_fp8(q);
    else if (method == "mxfp4")
      q.method = QuantMethod::kMxfp4;
    else if (method == "compressed-tensors")
      read_compressed(q);
    else
      unknown("quant_method", method, "gptq, awq, fp8, mxfp4 and compressed-tensors");
    if (!status_.ok()) config_.fail(status_);
    return q;
  }

 private:
  void unknown(const char* field, const std::string& value, const std::string& known) {
    f_.fail(field, "is " + base::presentable('"' + value + '"', 100) + "; known here are " + known,
            base::Code::kUnimplemented);
  }
  void read_bits(ConfigFields& f, const char* name, Quantization& q) {
    q.bits = f.count(name, 1, 32);
    if (q.bits != 4 && q.bits != 8) f.fail(name, "is neither 4 nor 8", base::Code::kUnimplemented);
  }
  // -1 stands for all inputs.
  void read_group(ConfigFields& f, Quantization& q) {
    if (f.has("group_size") && f["group_size"] != -1) q.group = f.count("group_size", kLeastGroup, kMostGroup);
  }
  void read_gptq(Quantization& q) {
    q.method = QuantMethod::kGptq;
    read_bits(f_, "bits", q);
    read_group(f_, q);
    const std::string format = f_.text_or("checkpoint_format", "gptq");
    if (format != "gptq" && format != "gptq_v2") unknown("checkpoint_format", format, "gptq and gptq_v2");
    q.zeros_less_one = format == "gptq";
  }
  void read_awq(Quantization& q) {
    q.method = QuantMethod::kAwq;
    read_bits(f_, f_.has("w_bit") ? "w_bit" : "bits", q);
    if (q.bits != 4) f_.fail("bits", "is not 4", base::Code::kUnimplemented);
    if (f_.has("q_group_size") && f_["q_group_size"] != -1)
      q.group = f_.count("q_group_size", kLeastGroup, kMostGroup);
    else
      read_group(f_, q);
    if (std::string version = f_.text_or("version", "gemm"); version != "gemm" && version != "GEMM")
      unknown("version", version, "gemm");
  }
  void read_fp8(Quantization& q) {
    q.method = QuantMethod::kFp8;
    if (std::string format = f_.text_or("fmt", "e4m3"); format != "e4m3") unknown("fmt", format, "e4m3");
    q.block_outputs = 0;
    if (f_.has("weight_block_size")) read_block(f_, "weight_block_size", q);
  }
  void read_block(ConfigFields& f, const char* name, Quantization& q) {
    const auto sizes = f.ids_or_none(name, kMostGroup);
    if (sizes.size() != 2 || sizes[0] == 0 || sizes[1] == 0) return f.fail(name, "is not two sizes");
    if (sizes[1] < kLeastGroup) return f.fail(name, "has fewer than 16 inputs", base::Code::kUnimplemented);
    q.block_outputs = sizes[0], q.block_inputs = sizes[1];
  }
  void read_compressed(Quantization& q) {
    q.method = QuantMethod::kCompressed;
    if (f_.has("transform_config") && !f_["transform_config"].empty())
      return f_.fail("transform_config", "is not supported", base::Code::kUnimplemented);
    const std::string format = f_.text_or("format", "");
    if (format != "pack-quantized" && format != "int-quantized" && format != "float-quantized" &&
        format != "naive-quantized")
      return unknown("format", format, "pack-quantized, int-quantized, float-quantized and naive-quantized");
    if (!f_.has("config_groups") || !f_["config_groups"].is_object() || f_["config_groups"].size() != 1)
      return f_.fail("config_groups", "is not one group", base::Code::kUnimplemented);
    const auto& group = f_["config_groups"].front();
    if (!group.is_object() || !group.contains("weights") || !group["weights"].is_object())
      return f_.fail("config_groups", "says nothing of weights");
    ConfigFields weights(group["weights"], status_, "quantization_config.config_groups.weights.");
    read_bits(weights, "num_bits", q);
    read_group(weights, q);
    q.zeros = !weights.flag_or("symmetric", true);
    if (weights.has("block_structure") && weights.text_or("strategy", "") == "block")
      read_block(weights, "block_structure", q);
  }

  ConfigFields& config_;
  base::Status status_;
  ConfigFields f_;
};

}  // namespace

Quantization read_quantization(ConfigFields& config) {
  if (!config.has(kPlace)) return {};
  if (config[kPlace].is_object()) return QuantizationReader(config, config[kPlace]).read();
  config.fail(kPlace, "is not an object");
  return {};
}

}  // namespace weir::llm
