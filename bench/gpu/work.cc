#include "work.h"

#include <algorithm>
#include <utility>

namespace weir::load {
namespace {

constexpr uint32_t kFirstId = 3;  // the first ones are special in many vocabularies
constexpr size_t kShown = 400;

std::string post(const std::string& path, const std::string& fields, size_t length) {
  return "POST " + path + " HTTP/1.1\r\nhost: localhost\r\n" + fields + "content-length: " + std::to_string(length) +
         "\r\n\r\n";
}

// --- protobuf, as much as ModelInferRequest needs
std::string varint(uint64_t v) {
  std::string out;
  for (; v >= 128; v >>= 7) out += char(v | 128);
  return out += char(v);
}
std::string field(uint32_t number, std::string_view bytes) {
  return varint(uint64_t(number) << 3 | 2).append(varint(bytes.size())).append(bytes);
}
std::string parameter(std::string_view name, const std::string& value) {
  return field(4, field(1, name) + field(2, value));
}
std::string u32_le(uint32_t v) { return {char(v), char(v >> 8), char(v >> 16), char(v >> 24)}; }

std::string binary_input(const char* name, const char* type, uint64_t rows, uint64_t columns, uint64_t bytes) {
  return std::string("{\"name\":\"") + name + "\",\"datatype\":\"" + type + "\",\"shape\":[" + std::to_string(rows) +
         "," + std::to_string(columns) + "],\"parameters\":{\"binary_data_size\":" + std::to_string(bytes) + "}}";
}
std::string binary_output(const char* name) {
  return std::string("],\"outputs\":[{\"name\":\"") + name + "\",\"parameters\":{\"binary_data\":true}}]}";
}

}  // namespace

Work::Work(RequestSpec spec, uint32_t seed) : spec_(std::move(spec)), random_(seed) {
  if (spec_.kind == RequestSpec::Kind::kPost)
    head_ = post(spec_.path, "content-type: application/json\r\n", spec_.body.size());
  if (spec_.kind != RequestSpec::Kind::kTensors) return;
  body_.resize(spec_.rows * spec_.row_bytes + spec_.rows * sizeof(float));
  for (size_t i = 0; i < body_.size(); ++i) body_[i] = char(i * 7 >> 3);
  head_ = tensors_head();
}

Request Work::next() {
  switch (spec_.kind) {
    case RequestSpec::Kind::kSse: return {sse(), {}};
    case RequestSpec::Kind::kGrpc: return {grpc(), {}};
    case RequestSpec::Kind::kEncode: return {encode(), {}};
    case RequestSpec::Kind::kPost:
    case RequestSpec::Kind::kUnary: return {head_, spec_.body};
    case RequestSpec::Kind::kTensors: break;
  }
  return {head_, {body_.data(), body_.size()}};
}

std::string Work::sse() {
  std::string json = "{\"model\":\"" + spec_.model + "\",\"prompt\":[";
  for (uint32_t i = 0; i < spec_.prompt; ++i) {
    if (i > 0) json += ',';
    json += std::to_string(kFirstId + random_() % (spec_.vocabulary - kFirstId));
  }
  json += "],\"max_tokens\":" + std::to_string(spec_.tokens) + ",\"stream\":true,\"ignore_eos\":true,\"temperature\":";
  json += spec_.top_p > 0 ? "1,\"top_p\":" + std::to_string(spec_.top_p) + '}' : "0}";
  return post("/v1/completions", "content-type: application/json\r\n", json.size()) + json;
}

std::string Work::grpc() {
  std::string text(spec_.prompt, 'a');
  for (char& c : text) c = char('a' + random_() % 26);
  std::string tensor = field(1, "text_input") + field(2, "BYTES") + field(3, varint(1));
  std::string out = field(1, spec_.model) + parameter("max_tokens", "\x10" + varint(spec_.tokens));
  out += parameter("stream", "\x08\x01") + parameter("ignore_eos", "\x08\x01");
  out += parameter("temperature", std::string("\x21\0\0\0\0\0\0\0\0", 9));  // a double
  return out + field(5, tensor) + field(7, u32_le(uint32_t(text.size())) + text);
}

std::string Work::tensors_head() {
  const uint64_t rows = spec_.rows, bytes = rows * spec_.row_bytes;
  std::string json = "{\"inputs\":[" + binary_input("image", "FP32", rows, spec_.row_bytes / 4, bytes) + "," +
                     binary_input("row", "FP32", rows, 1, rows * sizeof(float)) + binary_output("row");
  return post("/v2/models/" + spec_.model + "/infer",
              "inference-header-content-length: " + std::to_string(json.size()) + "\r\n", json.size() + body_.size()) +
         json;
}

std::string Work::encode() {
  std::string ids;
  for (uint32_t i = 0; i < spec_.prompt; ++i) ids += u32_le(kFirstId + random_() % (spec_.vocabulary - kFirstId));
  std::string json = "{\"inputs\":[" + binary_input("input_ids", "INT32", 1, spec_.prompt, ids.size()) +
                     binary_output("sentence_embedding");
  return post("/v2/models/" + spec_.model + "/infer",
              "inference-header-content-length: " + std::to_string(json.size()) + "\r\n", json.size() + ids.size()) +
         json + ids;
}

uint32_t Reply::take(const RequestSpec& spec, std::string_view piece) {
  bytes_ += piece.size();
  if (begin_.size() < kShown) begin_ += piece.substr(0, kShown - begin_.size());
  if (!spec.streams_tokens()) return 0;
  rest_ += piece;
  uint32_t fresh = std::min(spec.kind == RequestSpec::Kind::kSse ? events() : messages(), spec.tokens - tokens_);
  tokens_ += fresh;
  return fresh;
}

// `data: {"id":…,"choices":[{…}]}` per token, one more for the end, `data: [DONE]`; `data: {"error":…}`.
uint32_t Reply::events() {
  uint32_t found = 0;
  size_t at = 0;
  for (size_t end; (end = rest_.find("\n\n", at)) != rest_.npos; at = end + 2) {
    std::string_view frame(rest_.data() + at, end - at);
    if (frame.starts_with("data: {\"error\"")) refused_ = true;
    found += frame.find("\"choices\":[{") != frame.npos;
  }
  rest_.erase(0, at);
  return found;
}

// gRPC frames of ModelStreamInferResponse, one per token and one for the end: field 1 is an error, field 2 an answer.
uint32_t Reply::messages() {
  uint32_t found = 0;
  size_t at = 0;
  while (rest_.size() - at >= 5) {
    auto byte = [&](size_t i) { return uint32_t(uint8_t(rest_[at + i])); };
    size_t size = byte(1) << 24 | byte(2) << 16 | byte(3) << 8 | byte(4);
    if (rest_.size() - at - 5 < size) break;
    if (size > 0 && byte(5) == (1u << 3 | 2))
      refused_ = true;
    else
      ++found;
    at += 5 + size;
  }
  rest_.erase(0, at);
  return found;
}

}  // namespace weir::load
