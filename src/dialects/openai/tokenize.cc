// POST /tokenize and /detokenize, GET /tokenizer_info, as vLLM has them.
#include <atomic>
#include <utility>

#include "base/memory_ledger.h"
#include "dialects/openai/choice_delta.h"
#include "dialects/openai/endpoints.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/task.h"
#include "marshal/json_pieces.h"
#include "marshal/json_tensor.h"
#include "msg/text_codec.h"
#include "text/processor.h"
#include "wire/answer_flow.h"

namespace weir::openai {
namespace {

// A few kilobytes of ids may be megabytes of text: the memory is asked for before the text is made. `cancelled`, or
// null: nobody waits any more.
class TextOfIds {
 public:
  explicit TextOfIds(base::MemoryLedger* memory)
      : charge_(memory ? base::MemoryCharge(*memory, base::MemoryKind::kAnswers) : base::MemoryCharge()) {}

  // For JSON in which each token takes so many bytes more than its text.
  ApiError take(const msg::TextCodec& codec, const std::vector<uint32_t>& ids, size_t around, std::string& json,
                const std::atomic<bool>* cancelled) {
    uint64_t bytes = json.size() + 64;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i % kSlice == 0 && is_set(cancelled)) return left();
      bytes += around + (codec.special(ids[i]) ? codec.piece(ids[i]) : codec.bytes(ids[i])).size();
    }
    if (!charge_.grow(bytes)) return {wire::no_room_for_answer(), {}, {}};
    json.reserve(bytes);
    return {};
  }
  void release() { (void)charge_.resize(0); }

  static constexpr size_t kSlice = 4096;  // ids
  static bool is_set(const std::atomic<bool>* cancelled) {
    return cancelled && cancelled->load(std::memory_order_relaxed);
  }
  static ApiError left() { return {base::failure(base::Code::kCancelled, "cancelled"), {}, {}}; }

 private:
  base::MemoryCharge charge_;
};

class TokenizeTask final : public PromptTask {
 public:
  TokenizeTask(Request request, wire::Exchange& exchange, const bus::Served& served)
      : PromptTask(Kind::kTokenize, std::move(request), exchange, served), text_(exchange.memory()) {}

  void made() override {
    const auto& ids = prompts_.front().ids;
    json_ = "{\"count\":" + std::to_string(ids.size());
    json_ += ",\"max_model_len\":" + std::to_string(spec_->max_length) + ",\"tokens\":";
    write_ids(json_, ids);
    json_ += ",\"token_strs\":";
    if (request_.token_strings)
      add_strings(ids);
    else
      json_ += "null";
    json_ += '}';
  }
  void then(OpenAiState&, wire::Exchange& exchange, bus::Served&) override {
    text_.release();
    respond_json(exchange, std::move(json_));
  }

 private:
  void add_strings(const std::vector<uint32_t>& ids) {
    constexpr size_t kAround = 3;  // quotes and a comma
    error = text_.take(*spec_->codec, ids, kAround, json_, cancelled());
    json_ += '[';
    for (size_t i = 0; i < ids.size() && error.ok(); ++i) {
      if (i > 0) json_ += ',';
      marshal::write_string(json_, spec_->codec->piece(ids[i]));
      if (i % TextOfIds::kSlice == 0 && TextOfIds::is_set(cancelled())) error = TextOfIds::left();
    }
    json_ += ']';
  }

  TextOfIds text_;
  std::string json_;
};

class DetokenizeTask final : public Task {
 public:
  DetokenizeTask(Detokenize request, wire::Exchange& exchange, const bus::Served& served)
      : request_(std::move(request)), spec_(held_tokens(served)), text_(exchange.memory()) {}

  void run() override {
    for (uint32_t id : request_.tokens)
      if (id >= spec_->vocabulary) {
        error = refuse("tokens", "tokens: token id " + std::to_string(id) + " is not below " +
                                     std::to_string(spec_->vocabulary) + ", the size of the vocabulary");
        return;
      }
    error = text_.take(*spec_->codec, request_.tokens, 0, json_, cancelled());
    if (error.ok()) decode();
  }
  void then(OpenAiState&, wire::Exchange& exchange, bus::Served&) override {
    text_.release();
    respond_json(exchange, std::move(json_));
  }

 private:
  void decode() {
    const auto decoder = spec_->codec->decoder(msg::SkipSpecial::kNo);
    std::string slice;
    json_ += "{\"prompt\":\"";
    for (size_t i = 0; i < request_.tokens.size(); ++i) {
      decoder->step(request_.tokens[i], slice);
      if ((i + 1) % TextOfIds::kSlice > 0) continue;
      marshal::write_text_of_string(json_, slice);
      slice.clear();
      if (TextOfIds::is_set(cancelled())) return void(error = TextOfIds::left());
    }
    decoder->finish(slice);
    marshal::write_text_of_string(json_, slice);
    json_ += "\"}";
  }

  const Detokenize request_;
  const std::shared_ptr<const msg::TextSpec> spec_;
  TextOfIds text_;
  std::string json_;
};

void tokenize_text(OpenAiState& state, wire::Exchange& exchange, Request&& request) {
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kText);
  if (!error.ok()) return respond(exchange, error);
  auto task = std::make_unique<TokenizeTask>(std::move(request), exchange, *served);
  perform(state, exchange, *served, std::move(task), exchange.content().size());
}

void join_tokens(OpenAiState& state, wire::Exchange& exchange, Detokenize&& request) {
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kText);
  if (!error.ok()) return respond(exchange, error);
  auto task = std::make_unique<DetokenizeTask>(std::move(request), exchange, *served);
  perform(state, exchange, *served, std::move(task), exchange.content().size());
}

}  // namespace

void tokenize(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  read_body<Request>(
      state, exchange,
      [](std::string_view body, Request& request) { return read_request(body, Kind::kTokenize, request); },
      tokenize_text);
}

void detokenize(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  read_body<Detokenize>(state, exchange, read_detokenize, join_tokens);
}

// lm-evaluation-harness asks for it before it asks for ids. The class is the one that reads any tokenizer.json.
void tokenizer_info(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  auto [served, error] = find_model(state, exchange, exchange.request().query_value("model"), bus::Needs::kText);
  if (!error.ok()) return respond(exchange, error);
  const text::Processor* codec = text::processor_of(tokens_of(served->spec)->codec.get());
  if (!codec) return respond(exchange, refuse("model", "the model has no tokenizer here"));
  std::string out = R"({"tokenizer_class":"PreTrainedTokenizerFast","model_max_length":)";
  out += std::to_string(tokens_of(served->spec)->max_length);
  const std::pair<std::string_view, std::string_view> rows[] = {{"bos_token", codec->bos},
                                                                {"eos_token", codec->eos},
                                                                {"unk_token", codec->unk},
                                                                {"pad_token", codec->pad},
                                                                {"chat_template", codec->chat_source}};
  for (const auto& [name, text] : rows) {
    ((out += ",\"") += name) += "\":";
    if (text.empty())
      out += "null";
    else
      marshal::write_string(out, text);
  }
  respond_json(exchange, out += '}');
}

}  // namespace weir::openai
