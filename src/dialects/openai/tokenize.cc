// POST /tokenize and /detokenize, GET /tokenizer_info, as vLLM has them. A body of /tokenize with `content` is one of
// llama.cpp's; the text of /detokenize has the names of both.
#include <array>
#include <atomic>
#include <utility>

#include "base/memory_ledger.h"
#include "dialects/openai/choice_delta.h"
#include "dialects/openai/endpoints.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/task.h"
#include "dialects/openai/translation.h"
#include "marshal/json_cursor.h"
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

  // How many bytes of JSON each token takes beside its text, and how often the text is in it.
  struct Room {
    size_t around = 0, times = 1;
  };
  ApiError take(const msg::TextCodec& codec, const std::vector<uint32_t>& ids, Room room, std::string& json,
                const std::atomic<bool>* cancelled) {
    uint64_t bytes = json.size() + 64;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i % kSlice == 0 && is_set(cancelled)) return left();
      const std::string_view text = codec.special(ids[i]) ? codec.piece(ids[i]) : codec.bytes(ids[i]);
      bytes += room.around + room.times * text.size();
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
    if (request_.native.answers) return write_llama(ids);
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
  // {"tokens":[id,…]}, or of each {"id","piece"}: bytes where they are no text.
  void write_llama(const std::vector<uint32_t>& ids) {
    json_ = "{\"tokens\":";
    if (!request_.token_strings) {
      write_ids(json_, ids);
      json_ += '}';
      return;
    }
    constexpr size_t kAround = 64;  // of a token's object, and of a byte as a number
    error = text_.take(*spec_->codec, ids, {kAround, 1}, json_, cancelled());
    json_ += '[';
    for (size_t i = 0; i < ids.size() && error.ok(); ++i) {
      json_ += i > 0 ? ",{\"id\":" : "{\"id\":";
      json_ += std::to_string(ids[i]) + ",\"piece\":";
      write_piece(spec_->codec->special(ids[i]) ? spec_->codec->piece(ids[i]) : spec_->codec->bytes(ids[i]));
      json_ += '}';
      if (i % TextOfIds::kSlice == 0 && TextOfIds::is_set(cancelled())) error = TextOfIds::left();
    }
    json_ += "]}";
  }
  void write_piece(std::string_view bytes) {
    if (marshal::valid_utf8(bytes)) return marshal::write_string(json_, bytes);
    json_ += '[';
    for (char byte : bytes) (json_ += json_.back() == '[' ? "" : ",") += std::to_string(uint8_t(byte));
    json_ += ']';
  }
  void add_strings(const std::vector<uint32_t>& ids) {
    constexpr size_t kAround = 3;  // quotes and a comma
    error = text_.take(*spec_->codec, ids, {kAround, 1}, json_, cancelled());
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
    if (error = check_ids(*spec_, request_.tokens, "tokens"); !error.ok()) return;
    error = text_.take(*spec_->codec, request_.tokens, {0, 2}, json_, cancelled());
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
    const size_t begin = json_.size();
    for (size_t i = 0; i < request_.tokens.size(); ++i) {
      decoder->step(request_.tokens[i], slice);
      if ((i + 1) % TextOfIds::kSlice > 0) continue;
      marshal::write_text_of_string(json_, slice);
      slice.clear();
      if (TextOfIds::is_set(cancelled())) return void(error = TextOfIds::left());
    }
    decoder->finish(slice);
    marshal::write_text_of_string(json_, slice);
    const size_t end = json_.size();
    json_ += "\",\"content\":\"";
    json_.append(json_, begin, end - begin);
    json_ += "\"}";
  }

  const Detokenize request_;
  const std::shared_ptr<const msg::TextSpec> spec_;
  TextOfIds text_;
  std::string json_;
};

// Whether the body has a member `content`. One that is no JSON is for the readers to refuse.
bool has_content(std::string_view body) {
  marshal::JsonCursor json(body);
  bool has = false;
  (void)json.object([&](std::string_view name) { return has = has || name == "content", json.skip(); });
  return has;
}

// llama.cpp's: {content, add_special, parse_special, with_pieces}.
ApiError read_llama_content(std::string_view body, Request& out) {
  return translate(body, [&](const OrderedJson& object) {
    static constexpr std::array<RenamedMember, 1> kNames{{{"content", "prompt"}}};
    static constexpr std::string_view kRead[] = {"model", "content", "add_special", "parse_special", "with_pieces"};
    const auto flag = [&](std::string_view name) {
      const OrderedJson* value = member(object, name);
      return value && value->get<bool>();
    };
    if (const OrderedJson* parse = member(object, "parse_special"); parse && !parse->get<bool>())
      return refuse("parse_special", "parse_special: special tokens are always read as such");
    ignore_unknown(object, {{}, kRead, {}}, out);
    OrderedJson translated{{"add_special_tokens", flag("add_special")}, {"return_token_strs", flag("with_pieces")}};
    carry(object, "model", translated, "model");
    translated["prompt"] = object.at("content").get<std::string>();
    out.names = kNames;
    out.native.answers = true;
    return read_translated(translated, Kind::kTokenize, out);
  });
}

ApiError read_tokenize(std::string_view body, Request& out) {
  return has_content(body) ? read_llama_content(body, out) : read_request(body, Kind::kTokenize, out);
}

void tokenize_text(OpenAiState& state, wire::Exchange& exchange, Request&& request) {
  tell_ignored(exchange, request);
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
  read_document<Request>(state, exchange, read_tokenize, tokenize_text);
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
