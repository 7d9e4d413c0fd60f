// POST /v1/embeddings: of a model that makes tokens, the mean of the last hidden states over each input, not
// normalised; of an encoder, what it gives for a row of ids. Then `dimensions` keeps the first of them, which get
// length 1 again where the model's embeddings have it.
//
// Each input is a Call of its own, which the lane batches. A request may have more inputs than a shard admits Calls at
// once: a window of them is under way.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <utility>

#include "base/encoding.h"
#include "bus/call_handle.h"
#include "dialects/openai/choice_delta.h"
#include "dialects/openai/endpoints.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/task.h"
#include "marshal/check.h"
#include "marshal/encoder.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "marshal/times.h"
#include "msg/text_codec.h"

namespace weir::openai {
namespace {

using wire::Exchange;

constexpr size_t kWindow = 16, kEncoderWindow = 64;  // Calls of one request at once

class Embeddings;

class Input final : public msg::Sink {
 public:
  Input(Embeddings& owner, bus::Bus& bus, std::vector<uint32_t> ids) : owner(owner), ids(std::move(ids)), call(bus) {}
  void on(msg::Call& answered, msg::Event&& event) override;

  Embeddings& owner;
  std::vector<uint32_t> ids;  // until they are sent
  bus::CallHandle call;
  std::string json;  // the embedding
};

class Embeddings final : public wire::ExchangeListener {
 public:
  Embeddings(OpenAiState& state, Exchange& exchange, Request request)
      : state_(state), exchange_(exchange), request_(std::move(request)) {
    state_.load.running.fetch_add(1, std::memory_order_relaxed);
  }
  ~Embeddings() override {
    leave();
    state_.load.running.fetch_sub(1, std::memory_order_relaxed);
  }
  void on_close(Exchange&, bool) override { leave(); }

  void start(bus::Served& served, std::vector<Sequence> inputs) {
    const msg::TextSpec& spec = *tokens_of(served.spec);
    model_ = served.spec.name;
    width_ = spec.hidden_size, normalized_ = spec.normalized;
    if (!served.spec.text) ids_name_ = served.spec.inputs.at(0).name;
    for (Sequence& input : inputs) {
      tokens_ += input.ids.size();
      inputs_.emplace_back(*this, state_.bus, std::move(input.ids));
    }
    more();
  }

  void answered(Input& input, const msg::Call& call, const msg::Outputs& outputs) {
    if (auto bad = marshal::check_embedding(outputs.tensors, width_); !bad.ok()) return fail(bad);
    const msg::Tensor& tensor = outputs.tensors.front();
    std::string storage;
    std::string_view floats = shortened(tensor.data.view(), storage);
    if (request_.embedding_form == EmbeddingForm::kOllama) floats = at_length_one(floats, storage);
    if (request_.base64) {
      input.json = '"' + base::base64_encode(floats) + '"';
    } else {
      input.json = "[";
      marshal::write_elements(input.json, tensor.dtype, floats, {});
      input.json += ']';
    }
    if (++done_ < inputs_.size()) {
      marshal::trace(exchange_.record(), call);
      return more();
    }
    marshal::note(exchange_.record(), call);
    finish();
  }
  void fail(const base::Status& status) {
    leave();
    respond(exchange_, refuse(status));
  }

 private:
  // The model is looked up anew: it may have been replaced while the first inputs ran.
  void more() {
    const size_t window = encodes() ? kEncoderWindow : kWindow;
    while (next_ < inputs_.size() && next_ - done_ < window) {
      auto found =
          state_.bus.catalog(marshal::models_of(exchange_.request())).resolve(model_, "", bus::Needs::kEmbeddings);
      if (!found) return fail(found.error());
      Input& input = inputs_[next_++];
      msg::Call& call = input.call.fill();
      call.model = model_;
      call.priority = request_.priority;
      marshal::set_caller(call, exchange_);
      encodes() ? ask_encoder(call, input) : ask_generator(call, input);
      base::Status status = encodes() ? marshal::check_call((*found)->spec, call) : base::Status();
      if (status.ok()) status = input.call.submit(**found, input, exchange_.ticket());
      if (!status.ok()) return fail(status);
    }
  }

  bool encodes() const { return !ids_name_.empty(); }

  void ask_encoder(msg::Call& call, Input& input) const {
    marshal::charge_tokens(exchange_, input.ids.size());
    call.inputs.push_back(marshal::ids_tensor(ids_name_, input.ids));
    input.ids = {};
  }
  void ask_generator(msg::Call& call, Input& input) const {
    call.generation = std::make_unique<msg::Generation>();
    call.generation->aim = msg::Aim::kEmbed;
    call.generation->append = std::move(input.ids);
    call.generation->max_tokens = 0;
    call.generation->cache_salt = cache_salt(request_.cache_salt);
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

  void finish() {
    switch (request_.embedding_form) {
      case EmbeddingForm::kOpenAi: return respond_json(exchange_, as_list());
      case EmbeddingForm::kOllama: return respond_json(exchange_, as_ollama());
      case EmbeddingForm::kOllamaOne:
        return respond_json(exchange_, "{\"embedding\":" + std::move(inputs_.front().json) + '}');
    }
  }

  std::string as_list() {
    std::string out = "{\"object\":\"list\",\"data\":[";
    size_t index = 0;
    for (Input& input : inputs_) {
      out += index == 0 ? "" : ",";
      out += "{\"object\":\"embedding\",\"index\":" + std::to_string(index++) + ",\"embedding\":";
      out += input.json;
      out += '}';
      input.json = {};
    }
    out += "],\"model\":";
    marshal::write_string(out, model_);
    out += ",\"usage\":{\"prompt_tokens\":" + std::to_string(tokens_) + ",\"total_tokens\":" + std::to_string(tokens_);
    return out += "}}";
  }

  std::string as_ollama() {
    std::string out = "{\"model\":";
    marshal::write_string(out, model_);
    out += ",\"embeddings\":[";
    for (Input& input : inputs_) {
      if (out.back() != '[') out += ',';
      out += input.json;
      input.json = {};
    }
    const auto took = exchange_.record().took(exchange_.now()).count();
    out += "],\"total_duration\":" + std::to_string(took) + ",\"load_duration\":0";
    return out += ",\"prompt_eval_count\":" + std::to_string(tokens_) + '}';
  }

  void leave() {
    for (Input& input : inputs_) input.call.abandon();
  }

  OpenAiState& state_;
  Exchange& exchange_;
  Request request_;
  std::string model_, ids_name_;  // the input of an encoder; empty for models that make tokens
  uint32_t width_ = 0;
  bool normalized_ = false;
  uint64_t tokens_ = 0;
  std::deque<Input> inputs_;
  size_t next_ = 0, done_ = 0;
};

void Input::on(msg::Call& answered, msg::Event&& event) {
  call.on_event(event);
  if (auto* failed = std::get_if<msg::Failed>(&event.what)) return owner.fail(failed->status);
  auto* outputs = std::get_if<msg::Outputs>(&event.what);
  static const msg::Outputs kNone;
  owner.answered(*this, answered, outputs && outputs->final ? *outputs : kNone);
}

// At most so many ids: of a text its beginning, with what the tokenizer puts around it; of ids the first.
void cut_text(uint32_t most, const msg::TextSpec& spec, msg::AddSpecial added, std::vector<uint32_t>& ids) {
  if (ids.size() <= most) return;
  std::vector<uint32_t> marks;
  if (added == msg::AddSpecial::kYes) marks = spec.codec->encode("", msg::AddSpecial::kYes);
  auto front = size_t(std::mismatch(marks.begin(), marks.end(), ids.begin(), ids.end()).first - marks.begin());
  const size_t behind = std::min<size_t>(marks.size() - front, most);
  std::copy(ids.end() - ptrdiff_t(behind), ids.end(), ids.begin() + ptrdiff_t(most - behind));
  ids.resize(most);
}

// The same checks as for a generation.
ApiError check(const msg::TextSpec& spec, const std::vector<uint32_t>& ids) {
  if (ids.empty()) return refuse("input", "input: a text without tokens");
  for (uint32_t id : ids)
    if (id >= spec.vocabulary)
      return refuse("input", "input: token id " + std::to_string(id) + " is not in the vocabulary");
  if (ids.size() <= spec.max_length) return {};
  return {base::failure(base::Code::kOutOfRange, "input: " + std::to_string(ids.size()) +
                                                     " tokens do not fit the model's context of " +
                                                     std::to_string(spec.max_length)),
          "input",
          {}};
}

class EmbeddingsTask final : public PromptTask {
 public:
  EmbeddingsTask(Request request, const Exchange& exchange, const bus::Served& served)
      : PromptTask(Kind::kEmbedding, std::move(request), exchange, served) {
    if (request_.cut_to_context) request_.truncate_prompt = spec_->max_length;
    if (!served.spec.text) most_ = std::exchange(request_.truncate_prompt, std::nullopt);
  }

  void made() override {
    for (size_t i = 0; i < prompts_.size() && error.ok(); ++i) {
      const bool marked = !request_.prompts[i].tokens && request_.add_special.value_or(true);
      if (most_) cut_text(*most_, *spec_, marked ? msg::AddSpecial::kYes : msg::AddSpecial::kNo, prompts_[i].ids);
      error = check(*spec_, prompts_[i].ids);
    }
  }
  void then(OpenAiState& state, Exchange& exchange, bus::Served& served) override {
    auto reader = std::make_unique<Embeddings>(state, exchange, std::move(request_));
    Embeddings& running = *reader;
    exchange.attach(std::move(reader));
    running.start(served, std::move(prompts_));
  }

 private:
  std::optional<uint32_t> most_;  // an encoder's texts keep their marks
};

}  // namespace

void embed_request(OpenAiState& state, Exchange& exchange, Request&& request) {
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kEmbeddings);
  if (!error.ok()) return respond(exchange, error);
  const msg::TextSpec& spec = *tokens_of(served->spec);
  const bool encoder = !served->spec.text;
  if (request.dimensions &&
      (encoder ? *request.dimensions > spec.hidden_size : *request.dimensions != spec.hidden_size))
    return respond(exchange, refuse("dimensions", "dimensions: this model has " + std::to_string(spec.hidden_size)));
  auto task = std::make_unique<EmbeddingsTask>(std::move(request), exchange, *served);
  perform(state, exchange, *served, std::move(task), exchange.content().size());
}

void embeddings(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_body<Request>(
      state, exchange,
      [](std::string_view body, Request& request) { return read_request(body, Kind::kEmbedding, request); },
      embed_request);
}

}  // namespace weir::openai
