// POST /v1/embeddings: of a model that makes tokens, the mean of the last hidden states over each input, not
// normalised; of an encoder, what it gives for a row of ids. Then `dimensions` keeps the first of them, which get
// length 1 again where the model's embeddings have it. `messages` in place of an input are one text, through the
// model's template, as vLLM has it.
//
// Each input is a Call of its own (row_calls.h).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "dialects/openai/choice_delta.h"
#include "dialects/openai/embedding_forms.h"
#include "dialects/openai/endpoints.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/row_calls.h"
#include "dialects/openai/task.h"
#include "marshal/check.h"
#include "marshal/encoder.h"
#include "marshal/json_tensor.h"
#include "msg/text_codec.h"
#include "text/completion.h"
#include "wire/answer_flow.h"

namespace weir::openai {
namespace {

using wire::Exchange;

constexpr size_t kWindow = 16, kEncoderWindow = 64;  // Calls of one request at once

struct Input {
  std::vector<uint32_t> ids;      // until they are sent
  uint64_t tokens = 0;            // as they count for the answer
  std::vector<std::string> json;  // the embedding, of each type
  uint64_t charged = 0;           // bytes of it
};

class Embeddings final : public RowCalls {
 public:
  // The answer, from those that are there.
  class Text final : public wire::TextSource {
   public:
    explicit Text(Embeddings& from) : from_(from) {}
    bool write(std::string& out, size_t target) override { return from_.write(out, target); }
    uint64_t held() const override { return from_.held_; }

   private:
    Embeddings& from_;
  };

  Embeddings(OpenAiState& state, Exchange& exchange, Request request)
      : RowCalls(state, exchange, bus::Needs::kEmbeddings, request.priority), request_(std::move(request)) {
    if (request_.embedding_types.empty()) request_.embedding_types = {EmbeddingType::kFloat};
  }
  void on_drain(Exchange&) override { answer_.drained(); }
  uint64_t held_for_answer() const override { return answer_.held(); }

  void start(bus::Served& served, std::vector<Sequence> inputs) {
    const msg::TextSpec& spec = *tokens_of(served.spec);
    width_ = spec.hidden_size, normalized_ = spec.normalized;
    if (!served.spec.text) ids_name_ = served.spec.inputs.at(0).name;
    uint64_t bytes = bytes_of_rows(inputs.size());
    for (Sequence& input : inputs) {
      const uint64_t tokens = input.ids.size();
      tokens_ += tokens;
      bytes += sizeof(Input) + input.ids.capacity() * sizeof(uint32_t);
      inputs_.push_back({std::move(input.ids), tokens, {}, 0});
    }
    if (!gathered_.grow(charged_, bytes)) return fail(wire::no_room_for_answer());
    begin(served, inputs_.size(), {encodes() ? kEncoderWindow : kWindow});
  }

 private:
  base::Result<uint64_t> fill(msg::Call& call, const msg::ModelSpec& spec, size_t row) override {
    Input& input = inputs_[row];
    encodes() ? ask_encoder(call, input) : ask_generator(call, input);
    if (encodes())
      if (base::Status bad = marshal::check_call(spec, call); !bad.ok()) return bad;
    return input.tokens;
  }

  base::Status take(size_t row, const msg::Event& event) override {
    static const msg::Outputs kNone;
    const msg::Outputs* outputs = final_outputs(event);
    if (!outputs) outputs = &kNone;
    if (auto bad = marshal::check_embedding(outputs->tensors, width_); !bad.ok()) return bad;
    Input& input = inputs_[row];
    if (encodes()) tokens_ += marshal::counted_tokens(*outputs).value_or(input.tokens) - input.tokens;
    std::string storage;
    std::string_view floats = shortened(outputs->tensors.front().data.view(), storage);
    if (request_.unit_length) floats = at_length_one(floats, storage);
    size_t bytes = 0;
    for (EmbeddingType type : request_.embedding_types)
      bytes += input.json.emplace_back(embedding_json(type, floats)).size();
    return gathered_.grow(input.charged, bytes) ? base::Status() : wire::no_room_for_answer();
  }

  bool encodes() const { return !ids_name_.empty(); }

  void ask_encoder(msg::Call& call, Input& input) const {
    call.inputs.push_back(marshal::ids_tensor(ids_name_, input.ids));
    input.ids = {};
  }
  void ask_generator(msg::Call& call, Input& input) const {
    call.generation = std::make_unique<msg::Generation>();
    call.generation->aim = msg::Aim::kEmbed;
    call.generation->append = std::move(input.ids);
    call.generation->max_tokens = 0;
    call.generation->cache_salt = cache_salt(state_, request_.cache_salt);
  }

  // The first `dimensions` of them.
  std::string_view shortened(std::string_view floats, std::string& storage) const {
    if (!request_.dimensions || *request_.dimensions == width_) return floats;
    std::string_view first = floats.substr(0, size_t(*request_.dimensions) * sizeof(float));
    return normalized_ ? at_length_one(first, storage) : first;
  }

  // `floats` may be a view into `storage`.
  static std::string_view at_length_one(std::string_view floats, std::string& storage) {
    std::vector<float> values(floats.size() / sizeof(float));
    std::memcpy(values.data(), floats.data(), floats.size());
    double squares = 0;
    for (float v : values) squares += double(v) * v;
    for (float& v : values) v = float(v / std::max(std::sqrt(squares), 1e-12));
    storage.assign(reinterpret_cast<const char*>(values.data()), floats.size());
    return storage;
  }

  void finish() override {
    gathered_.drop(charged_);  // the ids are sent
    for (const Input& input : inputs_) held_ += input.charged;
    add_timing(exchange_, exchange_.extra_fields());
    const auto compress = Exchange::Compress::kIfAccepted;
    if (auto bad = answer_.start("application/json", compress, std::make_unique<Text>(*this)); !bad.ok()) fail(bad);
  }

  // All vectors of one type after those of another; then the texts, where the form has them.
  bool write(std::string& out, size_t target) {
    if (written_ == 0) write_head(out, frame());
    const size_t types = request_.embedding_types.size();
    const size_t parts = types + (repeats_texts(request_.embedding_form) ? 1 : 0);
    for (; written_ < parts * inputs_.size() && out.size() < target; ++written_) {
      const size_t part = written_ / inputs_.size(), i = written_ % inputs_.size();
      if (i > 0)
        out += ',';
      else if (part == types)
        write_texts_head(out, frame());
      else if (part > 0)
        write_next_type(out, request_.embedding_types[part]);
      part < types ? write_vector(out, part, i) : marshal::write_string(out, request_.prompts[i].text);
    }
    if (written_ < parts * inputs_.size()) return true;
    write_tail(out, frame());
    gathered_.release();
    return false;
  }

  void write_vector(std::string& out, size_t type, size_t i) {
    const std::string json = std::exchange(inputs_[i].json[type], {});
    held_ -= json.size();
    const bool pooled = request_.embedding_form == EmbeddingForm::kPooling;
    const bool object = pooled || request_.embedding_form == EmbeddingForm::kOpenAi;
    const bool llama = request_.embedding_form == EmbeddingForm::kLlamaCpp;  // one vector for all of its tokens
    if (object) {
      out += (pooled ? R"({"object":"pooling","index":)" : R"({"object":"embedding","index":)") + std::to_string(i);
      out += pooled ? ",\"data\":" : ",\"embedding\":";
    }
    if (llama) out += R"({"index":)" + std::to_string(i) + ",\"embedding\":[";
    out += json;
    if (object) out += '}';
    if (llama) out += "]}";
  }

  EmbeddingsFrame frame() const {
    const auto now = std::chrono::duration_cast<std::chrono::seconds>(state_.bus.env().wall().time_since_epoch());
    return {request_.embedding_form,
            request_.embedding_types,
            request_.request_id.empty() ? random_id(state_.bus, 24) : request_.request_id,
            std::string(name_in_answer(request_.model, model_)),
            now.count(),
            tokens_,
            exchange_.record().took(exchange_.now())};
  }

  Request request_;
  std::string ids_name_;  // the input of an encoder; empty for models that make tokens
  uint32_t width_ = 0;
  bool normalized_ = false;
  uint64_t tokens_ = 0;
  std::vector<Input> inputs_;
  size_t written_ = 0;
  uint64_t charged_ = 0;  // bytes of ids and rows, until all are sent
  uint64_t held_ = 0;     // bytes of embeddings that are not written yet; charged until all are
  wire::PiecewiseAnswer answer_{exchange_};
};

// At most so many ids: of a text a part, with what the tokenizer puts around it; of ids the first, or the last.
void cut_text(uint32_t most, const msg::TextSpec& spec, msg::AddSpecial added, text::Part goes,
              std::vector<uint32_t>& ids) {
  if (ids.size() <= most) return;
  std::vector<uint32_t> marks;
  if (added == msg::AddSpecial::kYes) marks = spec.codec->encode("", msg::AddSpecial::kYes);
  auto front = size_t(std::mismatch(marks.begin(), marks.end(), ids.begin(), ids.end()).first - marks.begin());
  if (goes == text::Part::kBeginning) {
    const auto stays = ptrdiff_t(std::min<size_t>(front, most));
    ids.erase(ids.begin() + stays, ids.end() - (ptrdiff_t(most) - stays));
    return;
  }
  const size_t behind = std::min<size_t>(marks.size() - front, most);
  std::copy(ids.end() - ptrdiff_t(behind), ids.end(), ids.begin() + ptrdiff_t(most - behind));
  ids.resize(most);
}

// The same checks as for a generation. `name`: of the member that has the text.
ApiError check(const msg::TextSpec& spec, const std::vector<uint32_t>& ids, const char* name) {
  if (ids.empty()) return refuse(name, name + std::string(": a text without tokens"));
  if (ApiError bad = check_ids(spec, ids, name); !bad.ok()) return bad;
  if (ids.size() <= spec.max_length) return {};
  return exceeds_context(spec, name, std::to_string(ids.size()) + " tokens", ids.size());
}

// vLLM's own form has the same rules.
bool is_openais(EmbeddingForm form) { return form == EmbeddingForm::kOpenAi || form == EmbeddingForm::kPooling; }

// Ollama's clients ask for it to have the model loaded.
bool is_nothing(const Prompt& prompt) { return !prompt.tokens && prompt.text.empty(); }

class EmbeddingsTask final : public PromptTask {
 public:
  EmbeddingsTask(Request request, const Exchange& exchange, const bus::Served& served)
      : PromptTask(Kind::kEmbedding, std::move(request), exchange, served) {
    if (std::exchange(request_.cut_to_context, false))
      request_.truncate_prompt = std::min(request_.truncate_prompt.value_or(UINT32_MAX), spec_->max_length);
    if (!served.spec.text || !is_openais(request_.embedding_form))
      most_ = std::exchange(request_.truncate_prompt, std::nullopt);
    if (most_)
      for (auto& prompt : request_.prompts) text::cut_prompt(prompt.text, spec_->max_length, goes());
  }

  // Messages are one prompt, around which the template has put what belongs there.
  void made() override {
    const bool chat = !request_.messages.empty();
    if (chat && !prompts_.front().images.empty())
      error = refuse("messages", "messages: images have no embeddings here");
    for (size_t i = 0; i < prompts_.size() && error.ok(); ++i) {
      const bool marked = chat ? request_.add_special.value_or(false)
                               : !request_.prompts[i].tokens && request_.add_special.value_or(true);
      const auto added = marked ? msg::AddSpecial::kYes : msg::AddSpecial::kNo;
      if (most_) cut_text(*most_, *spec_, added, goes(), prompts_[i].ids);
      error = in_names(request_.names, check(*spec_, prompts_[i].ids, chat ? "messages" : "input"));
    }
  }
  void then(OpenAiState& state, Exchange& exchange, bus::Served& served) override {
    auto reader = std::make_unique<Embeddings>(state, exchange, std::move(request_));
    Embeddings& running = *reader;
    exchange.attach(std::move(reader));
    running.start(served, std::move(prompts_));
  }

 private:
  text::Part goes() const { return request_.beginning_goes ? text::Part::kBeginning : text::Part::kEnd; }

  // Ids of a text whose end goes, as Ollama has it for all models; of vLLM's form it is the beginning, but for
  // encoders, whose texts keep their marks.
  std::optional<uint32_t> most_;
};

}  // namespace

void embed_request(OpenAiState& state, Exchange& exchange, Request&& request) {
  tell_ignored(exchange, request);
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kEmbeddings);
  if (!error.ok()) return respond(exchange, error);
  if (request.embedding_form == EmbeddingForm::kOllamaOne && is_nothing(request.prompts.front()))
    return respond_json(exchange, R"({"embedding":[]})");
  const msg::TextSpec& spec = *tokens_of(served->spec);
  // OpenAI's API shortens those of models that are made for it alone; Ollama's those of all.
  const bool shortens = !served->spec.text || !is_openais(request.embedding_form);
  const auto refused = [&](const char* param, const std::string& why) {
    respond(exchange, in_names(request.names, refuse(param, param + (": " + why))));
  };
  if (request.dimensions &&
      (shortens ? *request.dimensions > spec.hidden_size : *request.dimensions != spec.hidden_size))
    return refused("dimensions", "this model has " + std::to_string(spec.hidden_size));
  if (request.raw_vectors && spec.normalized) return refused("use_activation", "this model's vectors have length 1");
  if (!request.messages.empty() && (spec.remote_chat || !spec.codec))
    return refused("messages", "another server has this model's chat template; send input");
  if (request.truncate_prompt && spec.remote_chat)
    return refused("truncate_prompt_tokens", "another server has this model's tokens");
  const size_t bytes = prompt_bytes(exchange, request);
  auto task = std::make_unique<EmbeddingsTask>(std::move(request), exchange, *served);
  perform(state, exchange, *served, std::move(task), bytes);
}

void embeddings(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  read_body<Request>(
      state, exchange,
      [](std::string_view body, Request& request) { return read_request(body, Kind::kEmbedding, request); },
      [deployment = name_in_path(args, kDeployment)](OpenAiState& there, Exchange& x, Request&& request) {
        if (!deployment.empty()) request.model = deployment;
        embed_request(there, x, std::move(request));
      });
}

}  // namespace weir::openai
