// POST /v1/embeddings: the mean of the last hidden states over each input, not normalised.
//
// A request may have more inputs than a shard admits Calls at once: a window of them is under way.
#include <cstring>
#include <deque>

#include "base/encoding.h"
#include "dialects/openai/endpoints.h"
#include "dialects/openai/keys.h"
#include "dialects/openai/piece.h"
#include "dialects/openai/prompt.h"
#include "marshal/json_tensor.h"

namespace weir::openai {
namespace {

using wire::Exchange;

constexpr size_t kWindow = 16;  // Calls of one request at once

class Embeddings;

class Input final : public msg::Sink {
 public:
  Input(Embeddings& owner, std::vector<uint32_t> ids) : owner(owner), ids(std::move(ids)) {}
  void on(msg::Call& call, msg::Event&& event) override;

  Embeddings& owner;
  std::vector<uint32_t> ids;  // until they are sent
  msg::Call* call = nullptr;
  std::string json;  // what came of it
};

class Embeddings final : public wire::Reader {
 public:
  Embeddings(House& house, Exchange& exchange, Request request)
      : house_(house), exchange_(exchange), request_(std::move(request)) {
    house_.load.running.fetch_add(1, std::memory_order_relaxed);
  }
  ~Embeddings() override {
    leave();
    house_.load.running.fetch_sub(1, std::memory_order_relaxed);
  }
  void on_close(Exchange&, bool) override { leave(); }

  void start(bus::Served& served, std::vector<Sequence> inputs) {
    model_ = served.spec.name;
    width_ = served.spec.text->hidden_size;
    for (Sequence& input : inputs) {
      tokens_ += input.ids.size();
      inputs_.emplace_back(*this, std::move(input.ids));
    }
    more();
  }

  void answered(Input& input, const msg::Outputs& outputs) {
    if (outputs.tensors.empty()) return fail(base::failure(base::Code::kInternal, "the model gave no embedding"));
    const msg::Tensor& tensor = outputs.tensors.front();
    if (tensor.dtype != msg::DType::kFp32 || tensor.data.size() != size_t(width_) * 4)
      return fail(base::failure(base::Code::kInternal, "the model gave no embedding"));
    if (request_.base64) {
      input.json = '"' + base::base64_encode(tensor.data.view()) + '"';
    } else {
      input.json = "[";
      marshal::write_elements(input.json, tensor.dtype, tensor.data.view(), {});
      input.json += ']';
    }
    if (++done_ == inputs_.size()) return finish();
    more();
  }
  void fail(const base::Status& status) {
    leave();
    respond(exchange_, refuse(status));
  }

 private:
  // The model is looked up anew: it may have been replaced while the first inputs ran.
  void more() {
    while (next_ < inputs_.size() && next_ - done_ < kWindow) {
      Input& input = inputs_[next_++];
      msg::Call* call = house_.bus.make_call();
      call->model = model_;
      call->priority = request_.priority;
      call->generation = std::make_unique<msg::Generation>();
      call->generation->aim = msg::Aim::kEmbed;
      call->generation->append = std::move(input.ids);
      call->generation->max_tokens = 0;
      call->generation->cache_salt = cache_salt(exchange_.request(), house_.options.api_keys, request_.cache_salt);
      call->sink = &input;
      call->ticket = exchange_.ticket();
      if (base::Status status = house_.bus.submit(call); !status.ok()) {
        house_.bus.discard(call);
        return fail(status);
      }
      input.call = call;
    }
  }

  void finish() {
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
    respond_json(exchange_, out + "}}");
  }

  void leave() {
    for (Input& input : inputs_)
      if (auto* call = std::exchange(input.call, nullptr)) house_.bus.abandon(call);
  }

  House& house_;
  Exchange& exchange_;
  Request request_;
  std::string model_;
  uint32_t width_ = 0;
  uint64_t tokens_ = 0;
  std::deque<Input> inputs_;
  size_t next_ = 0, done_ = 0;
};

void Input::on(msg::Call&, msg::Event&& event) {
  if (event.last()) call = nullptr;
  if (auto* failed = std::get_if<msg::Failed>(&event.what)) return owner.fail(failed->status);
  if (auto* outputs = std::get_if<msg::Outputs>(&event.what); outputs && outputs->final)
    return owner.answered(*this, *outputs);
  owner.fail(base::failure(base::Code::kInternal, "the model gave no embedding"));
}

// What a generation would be checked for.
Refusal check(const msg::TextSpec& spec, const std::vector<uint32_t>& ids) {
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

}  // namespace

void embeddings(House& house, Exchange& exchange, const wire::PathArgs&) {
  Request request;
  if (Refusal bad = read_request(exchange.content().view(), Kind::kEmbedding, request); !bad.ok())
    return respond(exchange, bad);
  auto [served, refusal] = find_model(house, exchange, request.model);
  if (!refusal.ok()) return respond(exchange, refusal);
  const msg::TextSpec& spec = *served->spec.text;
  if (request.dimensions && *request.dimensions != spec.hidden_size)
    return respond(exchange, refuse("dimensions", "dimensions: this model has " + std::to_string(spec.hidden_size)));
  std::vector<Sequence> inputs;
  for (const Prompt& prompt : request.prompts) {
    Refusal bad = make_prompt(prompt, request, spec, "input", inputs.emplace_back());
    if (bad.ok()) bad = check(spec, inputs.back().ids);
    if (!bad.ok()) return respond(exchange, bad);
  }
  auto reader = std::make_unique<Embeddings>(house, exchange, std::move(request));
  Embeddings& running = *reader;
  exchange.attach(std::move(reader));
  running.start(*served, std::move(inputs));
}

}  // namespace weir::openai
