#include "dialects/openai/embedding_forms.h"

#include <cstring>

#include "base/encoding.h"
#include "marshal/json_tensor.h"

namespace weir::openai {
namespace {

std::string_view name_of(EmbeddingType type) {
  switch (type) {
    case EmbeddingType::kFloat: return "float";
    case EmbeddingType::kBase64: return "base64";
    case EmbeddingType::kBinary: return "binary";
    case EmbeddingType::kUbinary: break;
  }
  return "ubinary";
}

// Bits as whole numbers of a byte: from 0, or from -128.
std::string bits_json(std::string_view floats, int from) {
  std::string out = "[";
  const size_t count = floats.size() / sizeof(float);
  for (size_t i = 0; i < count; i += 8) {
    int bits = 0;
    for (size_t k = i; k < i + 8; ++k) {
      float value = 0;
      if (k < count) std::memcpy(&value, floats.data() + k * sizeof value, sizeof value);
      bits = bits << 1 | int(value > 0);
    }
    if (i > 0) out += ',';
    out += std::to_string(bits + from);
  }
  return out += ']';
}

void write_cohere_head(std::string& out, const EmbeddingsFrame& frame) {
  const bool lists = frame.form == EmbeddingForm::kCohereFloats;
  out += R"({"id":")" + frame.id + R"(","response_type":"embeddings_)" + (lists ? "floats" : "by_type");
  out += R"(","embeddings":)";
  if (!lists) out += "{\"" + std::string(name_of(frame.types[0])) + "\":";
  out += '[';
}

}  // namespace

std::string embedding_json(EmbeddingType type, std::string_view floats) {
  switch (type) {
    case EmbeddingType::kFloat: break;
    case EmbeddingType::kBase64: return '"' + base::base64_encode(floats) + '"';
    case EmbeddingType::kBinary: return bits_json(floats, -128);
    case EmbeddingType::kUbinary: return bits_json(floats, 0);
  }
  std::string out = "[";
  marshal::write_elements(out, msg::DType::kFp32, floats, {});
  return out += ']';
}

void write_head(std::string& out, const EmbeddingsFrame& frame) {
  switch (frame.form) {
    case EmbeddingForm::kOpenAi:
    case EmbeddingForm::kPooling:
      out += frame.form == EmbeddingForm::kPooling ? "{\"id\":\"pool-" : "{\"id\":\"embd-";
      out += frame.id + "\",\"object\":\"list\",\"created\":" + std::to_string(frame.created);
      out += ",\"data\":[";
      return;
    case EmbeddingForm::kOllama:
      out += "{\"model\":";
      marshal::write_string(out, frame.model);
      out += ",\"embeddings\":[";
      return;
    case EmbeddingForm::kOllamaOne: out += "{\"embedding\":"; return;
    case EmbeddingForm::kLists:
    case EmbeddingForm::kLlamaCpp: out += '['; return;
    case EmbeddingForm::kCohere:
    case EmbeddingForm::kCohereTyped:
    case EmbeddingForm::kCohereFloats: return write_cohere_head(out, frame);
  }
}

void write_next_type(std::string& out, EmbeddingType type) { out += "],\"" + std::string(name_of(type)) + "\":["; }

void write_texts_head(std::string& out, const EmbeddingsFrame& frame) {
  out += frame.form == EmbeddingForm::kCohereFloats ? "],\"texts\":[" : "]},\"texts\":[";
}

void write_tail(std::string& out, const EmbeddingsFrame& frame) {
  const std::string tokens = std::to_string(frame.tokens);
  switch (frame.form) {
    case EmbeddingForm::kOpenAi:
    case EmbeddingForm::kPooling:
      out += "],\"model\":";
      marshal::write_string(out, frame.model);
      out += ",\"usage\":{\"prompt_tokens\":" + tokens + ",\"total_tokens\":" + tokens + "}}";
      return;
    case EmbeddingForm::kOllama:
      out += "],\"total_duration\":" + std::to_string(frame.took.count()) + ",\"load_duration\":0";
      out += ",\"prompt_eval_count\":" + tokens + '}';
      return;
    case EmbeddingForm::kOllamaOne: out += '}'; return;
    case EmbeddingForm::kLists:
    case EmbeddingForm::kLlamaCpp: out += ']'; return;
    case EmbeddingForm::kCohere:
    case EmbeddingForm::kCohereTyped:
    case EmbeddingForm::kCohereFloats:
      out += R"(],"meta":{"api_version":{"version":")";
      out += frame.form == EmbeddingForm::kCohere ? '2' : '1';
      out += R"("},"billed_units":{"input_tokens":)" + tokens + "}}}";
      return;
  }
}

}  // namespace weir::openai
