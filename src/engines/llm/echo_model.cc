#include "engines/llm/echo_model.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/units.h"
#include "engines/llm/options.h"
#include "engines/llm/text_model.h"
#include "text/processor.h"

namespace weir::llm {
namespace {

constexpr uint32_t kBytes = 256;
constexpr const char* kSpecial[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
constexpr uint32_t kVocabulary = kBytes + std::size(kSpecial);
constexpr uint32_t kLongest = 32768;
constexpr uint32_t kStepMostUs = 60'000'000;

// GPT-2's way to write a byte as a visible character: those that are visible already stand for themselves, the others
// for the characters from U+0100 on.
std::string piece_of(uint32_t byte, uint32_t& next) {
  bool visible = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  uint32_t c = visible ? byte : next++;
  if (c < 0x80) return std::string(1, char(c));
  return {char(0xc0 | c >> 6), char(0x80 | (c & 0x3f))};
}

std::string tokenizer_json() {
  nlohmann::json vocabulary = nlohmann::json::object(), added = nlohmann::json::array();
  uint32_t next = 0x100;
  for (uint32_t b = 0; b < kBytes; ++b) vocabulary[piece_of(b, next)] = b;
  for (uint32_t i = 0; i < std::size(kSpecial); ++i)
    added.push_back({{"id", kBytes + i}, {"content", kSpecial[i]}, {"special", true}, {"normalized", false}});
  nlohmann::json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return nlohmann::json{{"version", "1.0"},
                        {"added_tokens", added},
                        {"pre_tokenizer", level},
                        {"decoder", level},
                        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}}
      .dump();
}

class EchoModel final : public generation::TokenEngine {
 public:
  EchoModel(std::shared_ptr<const msg::TextSpec> text, std::chrono::microseconds step)
      : text_(std::move(text)), step_(step) {}

  const msg::TextSpec& text() const override { return *text_; }
  size_t kv_bytes(size_t positions) const override { return positions; }
  base::Status reserve(uint32_t, uint32_t) override { return {}; }
  void copy_block(uint32_t, uint32_t, uint32_t) override {}
  base::Result<generation::ImageFeatures> encode_image(const msg::Image&) override {
    return base::failure(base::Code::kUnimplemented, "the echo model does not see images");
  }

  base::Status step(generation::TokenStep& step) override {
    if (step_.count() > 0) std::this_thread::sleep_for(step_);
    for (auto& request : step.logits_requests) {
      if (request.kind == generation::TokenStep::LogitsRequest::Kind::kSample) request.id = next(request);
      request.logprob = 0;
      request.best.clear();
      if (request.top > 0) request.best.push_back({request.id, 0});
    }
    for (auto& pool : step.pools) {
      const auto& row = step.rows[pool.row];
      pool.sum.resize(kBytes);
      for (uint32_t i = row.first; i < row.first + row.count; ++i)
        if (step.ids[i] < kBytes) ++pool.sum[step.ids[i]];
    }
    return {};
  }

 private:
  // Special tokens are not said back; a prompt of nothing else is answered with spaces.
  static uint32_t next(const generation::TokenStep::LogitsRequest& request) {
    auto prompt = request.sequence.first(request.prompt);
    uint32_t next = ' ';
    for (size_t i = 0; i < prompt.size(); ++i)
      if (uint32_t id = prompt[(request.draw + i) % prompt.size()]; id < kBytes) {
        next = id;
        break;
      }
    return request.params->constraint ? nearest(request.params->constraint->mask(), next) : next;
  }

  // The first from there on that a form allows.
  static uint32_t nearest(std::span<const uint32_t> mask, uint32_t from) {
    for (uint32_t i = 0; i < kVocabulary; ++i)
      if (uint32_t id = (from + i) % kVocabulary; msg::allows(mask, id)) return id;
    return UINT32_MAX;
  }

  const std::shared_ptr<const msg::TextSpec> text_;
  const std::chrono::microseconds step_;
};

}  // namespace

base::Result<generation::TokenModel> load_echo(const msg::ModelSpec& wanted) {
  auto options = read_options(wanted.parameters, wanted.batching);
  if (!options) return options.error();
  uint64_t step = 0;
  if (auto at = wanted.parameters.find("step_us"); at != wanted.parameters.end()) {
    auto parsed = base::parse_count(at->second, kStepMostUs);
    if (!parsed) return base::invalid("parameter 'step_us': " + parsed.error().text);
    step = *parsed;
  }
  auto text = std::make_shared<msg::TextSpec>();
  text->max_length = options->max_length > 0 ? options->max_length : kLongest;
  text->vocabulary = kVocabulary, text->hidden_size = kBytes;
  text->eos_ids = {kBytes, kBytes + 2};
  auto processor = text::make_processor(tokenizer_json(), R"({"eos_token":"<|im_end|>"})", "");
  if (!processor) return processor.error();
  text->codec = std::move(*processor);
  msg::ModelSpec spec = wanted;
  spec.engine = "echo";
  spec.text = text;
  auto echo = std::make_unique<EchoModel>(std::move(text), std::chrono::microseconds(step));
  return make_text_model(std::move(spec), std::move(echo), options->policy);
}

}  // namespace weir::llm
