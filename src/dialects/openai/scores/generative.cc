// POST /generative_scoring, as vLLM has it: how likely a token is behind a text, of a model that makes tokens.
//
//   {"model","query","items","label_token_ids","apply_softmax","item_first","add_special_tokens"}: texts or token ids
//   →
//   {"id":"generative-scoring-…","object":"list","created","model","data":[{"index","object":"score","score"}],"usage"}
// The score of an item is the probability of the first label behind the query and the item: among the labels, or
// (apply_softmax: false) among all tokens. A label is put behind its prompt, whose last position tells its log
// probability; nothing is generated. The first labels of all items come before the second ones, which find the prompts
// cached. The Calls of a request are under way a window at a time.
#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "bus/call_handle.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/request.h"
#include "dialects/openai/scores/scores.h"
#include "dialects/openai/task.h"
#include "marshal/call_times.h"
#include "marshal/field_reader.h"
#include "marshal/json_cursor.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "text/completion.h"
#include "wire/answer_flow.h"
#include "wire/gathered_answer.h"

namespace weir::openai::scores {
namespace {

using wire::Exchange;
using Ids = std::vector<uint32_t>;

constexpr size_t kMaxItems = 2048, kMaxLabels = 64, kMaxLabelCalls = 8192;
constexpr size_t kLabelWindow = 16;  // Calls of one request at once

struct LabelRequest {
  std::string model, request_id, cache_salt;
  std::vector<Prompt> query, items;
  Ids labels;
  bool softmax = true, item_first = false, special = true;
  uint32_t priority = 0;

  // How many of the labels must be asked for.
  size_t asked() const { return softmax ? labels.size() : 1; }
};

bool read_label_member(marshal::FieldReader& fields, std::string_view name, LabelRequest& out) {
  constexpr size_t kMaxName = 256;
  if (name == "model") return fields.text(name, kMaxName, out.model);
  if (name == "query") return read_prompts(fields, name, 1, MixedPrompts::kNo, out.query);
  if (name == "items") return read_prompts(fields, name, kMaxItems, MixedPrompts::kNo, out.items);
  if (name == "label_token_ids") return fields.ids(name, kMaxLabels, out.labels);
  if (name == "apply_softmax") return fields.flag(name, out.softmax);
  if (name == "item_first") return fields.flag(name, out.item_first);
  if (name == "add_special_tokens") return fields.flag(name, out.special);
  if (name == "priority") return fields.whole(name, 0, UINT32_MAX, out.priority);
  if (name == "cache_salt") return fields.text(name, kMaxName, out.cache_salt);
  if (name != "request_id") return skip_member(fields.json(), fields, name);
  if (!fields.text(name, 128, out.request_id)) return false;
  const bool plain = std::all_of(out.request_id.begin(), out.request_id.end(),
                                 [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; });
  return plain || fields.refuse(name, "takes printable ASCII without spaces and quotes");
}

ApiError read_label_request(std::string_view body, LabelRequest& out) {
  marshal::JsonCursor json(body);
  marshal::FieldReader fields(json);
  const bool good = json.object([&](std::string_view key) {
    return read_label_member(fields, std::string(key), out);
  }) && json.finish();
  if (!good) return {fields.error(), fields.param(), {}};
  if (out.query.empty()) return openai::refuse("query", "query must be a text, or token ids");
  if (out.items.empty()) return openai::refuse("items", "items must be a list of texts, or of lists of token ids");
  if (out.labels.empty()) return openai::refuse("label_token_ids", "label_token_ids must be a list of token ids");
  if (out.items.size() * out.asked() > kMaxLabelCalls)
    return openai::refuse("items",
                          "items: at most " + std::to_string(kMaxLabelCalls) + " in one request, items × labels");
  return {};
}

// The query and the items as ids.
struct LabelPrompts {
  Ids query;
  std::vector<Ids> items;

  size_t bytes() const {
    size_t out = items.size() * sizeof(Ids) + query.capacity() * sizeof(uint32_t);
    for (const Ids& ids : items) out += ids.capacity() * sizeof(uint32_t);
    return out;
  }
};

class LabelScores;

class LabelCall final : public msg::Sink {
 public:
  LabelCall(LabelScores& owner, bus::Bus& bus) : owner(owner), call(bus) {}
  void on(msg::Call& answered, msg::Event&& event) override;

  LabelScores& owner;
  bus::CallHandle call;
  std::optional<float> logprob;
};

class LabelScores final : public wire::ExchangeListener {
 public:
  LabelScores(OpenAiState& state, Exchange& exchange, LabelRequest request, LabelPrompts prompts)
      : state_(state),
        exchange_(exchange),
        request_(std::move(request)),
        prompts_(std::move(prompts)),
        gathered_(exchange.memory()) {
    state_.load.running.fetch_add(1, std::memory_order_relaxed);
  }
  ~LabelScores() override {
    leave();
    state_.load.running.fetch_sub(1, std::memory_order_relaxed);
  }
  void on_close(Exchange&, bool) override { leave(); }

  void start(const bus::Served& served) {
    model_ = served.spec.name;
    const size_t calls = prompts_.items.size() * request_.asked();
    uint64_t charged = 0;
    if (!gathered_.grow(charged, prompts_.bytes() + calls * sizeof(LabelCall))) return fail(wire::no_room_for_answer());
    for (size_t i = 0; i < calls; ++i) calls_.emplace_back(*this, state_.bus);
    more();
  }

  void answered(const LabelCall& one, const msg::Call& call) {
    if (!one.logprob) return fail(base::failure(base::Code::kInternal, "the model gave no log probability"));
    if (++done_ < calls_.size()) {
      marshal::record_spans(exchange_.record(), call);
      return more();
    }
    marshal::record_call(exchange_.record(), call);
    finish();
  }
  void fail(const base::Status& status) {
    leave();
    respond(exchange_, openai::refuse(status));
  }

 private:
  // The model is looked up anew: it may have been replaced while the first ones ran.
  void more() {
    while (next_ < calls_.size() && next_ - done_ < kLabelWindow) {
      auto found = state_.bus.catalog(marshal::models_of(exchange_.request())).resolve(model_, "", bus::Needs::kTokens);
      if (!found) return fail(found.error());
      LabelCall& one = calls_[next_];
      msg::Call& call = one.call.fill();
      call.model = model_;
      call.priority = request_.priority;
      marshal::set_caller(call, exchange_);
      call.generation = ask(next_++);
      if (auto bad = one.call.submit(**found, one, exchange_.ticket()); !bad.ok()) return fail(bad);
    }
  }

  std::unique_ptr<msg::Generation> ask(size_t number) const {
    const Ids& item = prompts_.items[number % prompts_.items.size()];
    const Ids& front = request_.item_first ? item : prompts_.query;
    const Ids& back = request_.item_first ? prompts_.query : item;
    auto out = std::make_unique<msg::Generation>();
    out->append.reserve(front.size() + back.size() + 1);
    out->append.insert(out->append.end(), front.begin(), front.end());
    out->append.insert(out->append.end(), back.begin(), back.end());
    const auto at = uint32_t(out->append.size());
    out->append.push_back(request_.labels[number / prompts_.items.size()]);
    out->logprobs.push_back({at, at + 1});
    out->max_tokens = 0;
    out->cache_salt = cache_salt(state_, request_.cache_salt);
    return out;
  }

  double score(size_t item) const {
    const double first = *calls_[item].logprob;
    if (!request_.softmax) return std::exp(first);
    double total = 0;
    for (size_t at = item; at < calls_.size(); at += prompts_.items.size())
      total += std::exp(*calls_[at].logprob - first);
    return 1 / total;
  }

  void finish() {
    const auto now = std::chrono::duration_cast<std::chrono::seconds>(state_.bus.env().wall().time_since_epoch());
    uint64_t tokens = 0;
    std::string out = "{\"id\":\"generative-scoring-";
    out += request_.request_id.empty() ? random_id(state_.bus, 24) : request_.request_id;
    out += "\",\"object\":\"list\",\"created\":" + std::to_string(now.count()) + ",\"model\":";
    marshal::write_string(out, name_in_answer(request_.model, model_));
    out += ",\"data\":[";
    for (size_t i = 0; i < prompts_.items.size(); ++i) {
      tokens += prompts_.query.size() + prompts_.items[i].size();
      out += (i > 0 ? ",{\"index\":" : "{\"index\":") + std::to_string(i) + ",\"object\":\"score\",\"score\":";
      const double value = score(i);
      marshal::write_number(out, std::isfinite(value) ? value : 0.0);
      out += '}';
    }
    const std::string sum = std::to_string(tokens);
    out += "],\"usage\":{\"prompt_tokens\":" + sum + ",\"completion_tokens\":0,\"total_tokens\":" + sum + "}}";
    gathered_.release();
    respond_json(exchange_, std::move(out));
  }

  void leave() {
    for (LabelCall& one : calls_) one.call.abandon();
  }

  OpenAiState& state_;
  Exchange& exchange_;
  const LabelRequest request_;
  const LabelPrompts prompts_;
  std::string model_;
  wire::GatheredAnswer gathered_;  // the ids, and the Calls
  std::deque<LabelCall> calls_;    // of the first label for each item, then of the second, …
  size_t next_ = 0, done_ = 0;
};

void LabelCall::on(msg::Call& answered, msg::Event&& event) {
  const bool last = call.on_event(event);
  if (auto* failed = std::get_if<msg::Failed>(&event.what)) return owner.fail(failed->status);
  if (auto* token = std::get_if<msg::Token>(&event.what); token && token->details && token->details->has_logprob)
    logprob = token->details->logprob;
  if (last) owner.answered(*this, answered);
}

// Texts become ids.
class LabelTask final : public Task {
 public:
  LabelTask(LabelRequest request, const bus::Served& served)
      : request_(std::move(request)), spec_(held_tokens(served)) {}

  void run() override { make({.cancelled = cancelled()}); }
  void then(OpenAiState& state, Exchange& exchange, bus::Served& served) override {
    auto reader = std::make_unique<LabelScores>(state, exchange, std::move(request_), std::move(prompts_));
    LabelScores& running = *reader;
    exchange.attach(std::move(reader));
    running.start(served);
  }

 private:
  void make(const msg::TextBudget& budget) {
    const auto special = request_.special ? msg::AddSpecial::kYes : msg::AddSpecial::kNo;
    error = encode(request_.query.front(), special, "query", budget, prompts_.query);
    for (Prompt& item : request_.items)
      if (error.ok()) error = encode(item, msg::AddSpecial::kNo, "items", budget, prompts_.items.emplace_back());
    for (const Ids& item : prompts_.items)
      if (error.ok()) error = check_length(item.size());
    for (uint32_t id : request_.labels)
      if (error.ok() && id >= spec_->vocabulary) error = outside("label_token_ids", id);
    request_.query.clear(), request_.items.clear();
  }

  ApiError encode(Prompt& prompt, msg::AddSpecial special, const std::string& name, const msg::TextBudget& budget,
                  Ids& out) const {
    if (prompt.tokens) {
      out = std::move(prompt.ids);
      for (uint32_t id : out)
        if (id >= spec_->vocabulary) return outside(name, id);
      return {};
    }
    if (!spec_->codec) return openai::refuse(name, name + ": this model has no tokenizer here; send token ids");
    auto ids = text::encode_prompt(*spec_->codec, prompt.text, special, spec_->max_length, budget);
    if (!ids) return {base::failure(ids.error().code, name + ": " + ids.error().text), name, {}};
    out = *std::move(ids);
    return {};
  }
  ApiError outside(const std::string& name, uint32_t id) const {
    return openai::refuse(name, name + ": token id " + std::to_string(id) + " is not below " +
                                    std::to_string(spec_->vocabulary) + ", the size of the vocabulary");
  }
  // The label needs a place, too.
  ApiError check_length(size_t item) const {
    const size_t tokens = prompts_.query.size() + item;
    if (tokens == 0) return openai::refuse("items", "items: a text without tokens");
    if (tokens < spec_->max_length) return {};
    return {base::failure(base::Code::kOutOfRange, "items: " + std::to_string(tokens) +
                                                       " tokens do not fit: this model's maximum context " +
                                                       "length is " + std::to_string(spec_->max_length) + " tokens"),
            "items",
            {}};
  }

  LabelRequest request_;
  const std::shared_ptr<const msg::TextSpec> spec_;
  LabelPrompts prompts_;
};

void score_labels(OpenAiState& state, Exchange& exchange, LabelRequest&& request) {
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kTokens);
  if (!error.ok()) return respond(exchange, error);
  if (served->spec.text->remote_chat)
    return respond(exchange, openai::refuse("model", "another server has this model's tokens"));
  auto task = std::make_unique<LabelTask>(std::move(request), *served);
  perform(state, exchange, *served, std::move(task), exchange.content().size());
}

}  // namespace

void generative(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_body<LabelRequest>(state, exchange, read_label_request, score_labels);
}

}  // namespace weir::openai::scores
