// A model of text for tests of dialects: its tokens are bytes (the id of a byte is its value), 256 is <|end|>, its end;
// 257, 258 and 259 stand around and for images. The test says what it says. Links text and marshal.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/scripted_models.h"
#include "text/processor.h"
#include "tiny_tokenizers.h"

namespace weir::support {

constexpr uint32_t kEnd = 256;

// `more`: added to the chat template; its words tell how the model writes calls and whether it thinks
// (text/tool_format.h). `specials`: special tokens from 260 on.
inline std::shared_ptr<const text::Processor> byte_processor(std::string_view more = {},
                                                             const std::vector<std::string>& specials = {}) {
  tokenizers::Json file = tokenizers::byte_level_file({});
  for (const char* mark : {"<|image|>", "<|pad|>", "<|/image|>"})
    file["added_tokens"].push_back(
        {{"id", 256 + file["added_tokens"].size()}, {"content", mark}, {"special", true}, {"normalized", false}});
  for (const std::string& mark : specials)
    file["added_tokens"].push_back(
        {{"id", 256 + file["added_tokens"].size()}, {"content", mark}, {"special", true}, {"normalized", false}});
  tokenizers::Json config = {
      {"chat_template", std::string(more) +
                            "{% if tools %}tools={{ tools | length }}\n{% endif %}{% for m in messages %}{{ m.role }}:"
                            "{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"}};
  auto processor = text::make_processor(file.dump(), config.dump(), "");
  EXPECT_TRUE(processor) << processor.error().text;
  return *processor;
}

inline msg::ModelSpec text_spec(std::string name, uint32_t max_length = 200) {
  auto text = std::make_shared<msg::TextSpec>();
  text->max_length = max_length;
  text->vocabulary = 260;
  text->hidden_size = 2;
  text->eos_ids = {kEnd};
  text->codec = byte_processor();
  text->concepts = {"joy", "fear"};
  text->readout_layers = {1, 3};
  text->readout_dtype = "float32";
  text->vision = msg::TextSpec::Vision{257, 258, 259, [](std::string_view data, std::string_view mime) {
                                         base::Result<uint32_t> count = base::invalid("not an image");
                                         if (mime == "image/png" && !data.empty()) count = uint32_t(data.size());
                                         return count;
                                       }};
  msg::ModelSpec spec;
  spec.name = std::move(name);
  spec.version = "1";
  spec.engine = "llm";
  spec.inputs = {{"text_input", msg::DType::kBytes, {1}, false, {}}};
  spec.outputs = {{"text_output", msg::DType::kBytes, {-1}, false, {}}};
  spec.text = std::move(text);
  return spec;
}

// The same with byte_processor()'s `more` and `specials`.
inline msg::ModelSpec tools_spec(std::string name, std::string_view more,
                                 const std::vector<std::string>& specials = {}) {
  msg::ModelSpec spec = text_spec(std::move(name), 2000);
  auto text = std::make_shared<msg::TextSpec>(*spec.text);
  text->codec = byte_processor(more, specials);
  text->vocabulary += uint32_t(specials.size());
  spec.text = std::move(text);
  return spec;
}

// An encoder of the same bytes: four numbers, of length 1.
inline msg::ModelSpec encoder_spec(std::string name, uint32_t max_length = 200) {
  auto encoder = std::make_shared<msg::TextSpec>();
  encoder->max_length = max_length;
  encoder->vocabulary = 260;
  encoder->hidden_size = 4;
  encoder->normalized = true;
  encoder->codec = byte_processor();
  msg::ModelSpec spec;
  spec.name = std::move(name);
  spec.version = "1";
  spec.engine = "llm";
  spec.max_batch = 8;
  spec.ragged = true;
  spec.inputs = {{"input_ids", msg::DType::kInt64, {-1}, false, {}},
                 {"attention_mask", msg::DType::kInt64, {-1}, true, {}}};
  spec.outputs = {{"sentence_embedding", msg::DType::kFp32, {4}, false, {}}};
  spec.encoder = std::move(encoder);
  return spec;
}

// A classifier or reranker of these labels.
inline msg::ModelSpec classifier_spec(std::string name, std::vector<std::string> labels) {
  msg::ModelSpec spec = encoder_spec(std::move(name), 20);
  auto encoder = std::make_shared<msg::TextSpec>(*spec.encoder);
  encoder->labels = uint32_t(labels.size()), encoder->normalized = false;
  spec.encoder = std::move(encoder);
  spec.inputs.push_back({"token_type_ids", msg::DType::kInt64, {-1}, true, {}});
  const auto count = int64_t(labels.size());
  spec.outputs = {{"scores", msg::DType::kFp32, {count}, false, labels},
                  {"logits", msg::DType::kFp32, {count}, false, labels}};
  return spec;
}

// The prompt of a Call as text; special tokens as they are spelled.
inline std::string prompt_of(const msg::Call& call) {
  const auto& g = *call.generation;
  std::string out;
  for (uint32_t id : g.append) out += id < 256 ? std::string(1, char(id)) : "<" + std::to_string(id) + ">";
  return out;
}

// The model's answer to a Call. `at` is the number of the next generated token.
template <class Inbox>
class ScriptedAnswer {
 public:
  ScriptedAnswer(Inbox& inbox, msg::Call* call) : inbox_(inbox), call_(call) {}

  void token(uint32_t id, std::shared_ptr<const msg::TokenDetails> details = nullptr) {
    auto position = uint32_t(call_->generation->length() + said_++);
    inbox_.post(call_, {msg::Token{id, position, false, std::move(details)}});
  }
  void emit(std::string_view text) {
    for (char c : text) token(uint8_t(c));
  }
  void prompt(uint32_t position, msg::TokenDetails details) {
    inbox_.post(call_, {msg::Token{call_->generation->append[position], position, true,
                                   std::make_shared<msg::TokenDetails>(std::move(details))}});
  }
  void done(msg::Finish finish = msg::Finish::kLength, uint32_t stop_id = 0) {
    auto prompt = uint32_t(call_->generation->length());
    inbox_.finish(call_, {msg::Done{prompt, call_->generation->cached_tokens, said_, finish, stop_id}});
  }
  void end() {
    token(kEnd);
    done(msg::Finish::kEos);
  }
  void fail(base::Code code, std::string text) { inbox_.finish(call_, {msg::Failed{base::failure(code, text)}}); }

 private:
  Inbox& inbox_;
  msg::Call* call_;
  uint32_t said_ = 0;
};

inline std::shared_ptr<const msg::TokenDetails> likely(float logprob, std::vector<msg::TokenLogprob> top = {}) {
  auto details = std::make_shared<msg::TokenDetails>();
  details->has_logprob = true;
  details->logprob = logprob;
  details->top = std::move(top);
  return details;
}

}  // namespace weir::support
