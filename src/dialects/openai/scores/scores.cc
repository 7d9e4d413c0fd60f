#include "dialects/openai/scores/scores.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <numeric>
#include <utility>

#include "bus/call_handle.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/scores/request.h"
#include "dialects/openai/task.h"
#include "marshal/call_times.h"
#include "marshal/check.h"
#include "marshal/encoder.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "msg/text_codec.h"
#include "wire/answer_flow.h"
#include "wire/gathered_answer.h"

namespace weir::openai::scores {
namespace {

using wire::Exchange;
using Ids = std::vector<uint32_t>;

constexpr size_t kScoreWindow = 64;     // Calls of one request at once
constexpr uint64_t kMostIds = 1 << 19;  // of those Calls, where there is more than one

// The ids of a request's texts, without the model's own around pairs. They are put together when they are sent, so that
// a long query is not held once for each document.
struct Texts {
  std::vector<Ids> first, second;
  size_t most = 0;  // ids of one row

  size_t bytes() const {
    size_t out = (first.size() + second.size()) * sizeof(Ids);
    for (const auto* texts : {&first, &second})
      for (const Ids& ids : *texts) out += ids.capacity() * sizeof(uint32_t);
    return out;
  }
};

class Scores;

class Row final : public msg::Sink {
 public:
  Row(Scores& owner, bus::Bus& bus) : owner(owner), call(bus) {}
  void on(msg::Call& answered, msg::Event&& event) override;

  Scores& owner;
  bus::CallHandle call;
  std::vector<float> scores;  // one per label
  uint64_t tokens = 0;        // as they count for the answer
};

// One request under way; each row is a Call of its own, which the lane batches.
class Scores final : public wire::ExchangeListener {
 public:
  Scores(OpenAiState& state, Exchange& exchange, ScoreApi api, Request request, Texts texts)
      : state_(state),
        exchange_(exchange),
        api_(api),
        request_(std::move(request)),
        texts_(std::move(texts)),
        gathered_(exchange.memory()) {
    state_.load.running.fetch_add(1, std::memory_order_relaxed);
  }
  ~Scores() override {
    leave();
    state_.load.running.fetch_sub(1, std::memory_order_relaxed);
  }
  void on_close(Exchange&, bool) override { leave(); }

  void start(const bus::Served& served) {
    model_ = served.spec.name;
    labels_ = served.spec.outputs.at(0).labels;
    uint64_t charged = 0;
    const size_t row = sizeof(Row) + labels_.size() * sizeof(float);
    if (!gathered_.grow(charged, texts_.bytes() + request_.bytes() + request_.rows() * row))
      return fail(wire::no_room_for_answer());
    for (size_t i = 0; i < request_.rows(); ++i) rows_.emplace_back(*this, state_.bus);
    more();
  }

  void answered(Row& row, const msg::Call& call, const msg::Outputs& outputs) {
    if (auto bad = take(row, outputs); !bad.ok()) return fail(bad);
    running_ids_ -= row.tokens;
    tokens_ += marshal::counted_tokens(outputs).value_or(row.tokens) - row.tokens;
    if (++done_ < rows_.size()) {
      marshal::record_spans(exchange_.record(), call);
      return more();
    }
    marshal::record_call(exchange_.record(), call);
    finish();
  }
  void fail(const base::Status& status) {
    leave();
    respond(exchange_, refuse(status));
  }

 private:
  // The model is looked up anew: it may have been replaced while the first rows ran.
  void more() {
    while (next_ < rows_.size() && next_ - done_ < kScoreWindow && (next_ == done_ || running_ids_ < kMostIds)) {
      auto found = state_.bus.catalog(marshal::models_of(exchange_.request())).resolve(model_, "", bus::Needs::kScores);
      if (!found) return fail(found.error());
      Row& row = rows_[next_];
      msg::Call& call = row.call.fill();
      call.model = model_;
      call.priority = request_.priority;
      marshal::set_caller(call, exchange_);
      fill(call, (*found)->spec, next_++);
      base::Status status = marshal::check_call((*found)->spec, call);
      if (status.ok()) status = row.call.submit(**found, row, exchange_.ticket());
      if (!status.ok()) return fail(status);
    }
  }

  void fill(msg::Call& call, const msg::ModelSpec& spec, size_t row) {
    const Ids& first = texts_.first[texts_.first.size() == 1 ? 0 : row];
    msg::TokenPair alone;
    if (texts_.second.empty())
      alone.ids = std::move(texts_.first[row]);
    else
      alone = spec.encoder->codec->join_pair(first, std::exchange(texts_.second[row], {}), texts_.most);
    rows_[row].tokens = alone.ids.size();
    running_ids_ += alone.ids.size();
    tokens_ += alone.ids.size();
    call.inputs.push_back(marshal::ids_tensor(spec.inputs.at(0).name, alone.ids));
    // A model without types has no such input.
    if (spec.inputs.size() > 2 && !alone.types.empty())
      call.inputs.push_back(marshal::ids_tensor(spec.inputs.at(2).name, alone.types));
    output_ = spec.outputs.at(request_.activation ? 0 : 1).name;
    call.outputs = {output_};
  }

  base::Status take(Row& row, const msg::Outputs& outputs) const {
    auto found = std::find_if(outputs.tensors.begin(), outputs.tensors.end(),
                              [&](const msg::Tensor& t) { return t.name == output_; });
    row.scores.resize(labels_.size());
    const size_t bytes = row.scores.size() * sizeof(float);
    if (found == outputs.tensors.end() || found->dtype != msg::DType::kFp32 || found->data.size() != bytes)
      return base::failure(base::Code::kInternal, "the model gave no scores");
    std::memcpy(row.scores.data(), found->data.data(), bytes);
    return {};
  }

  // ---- The answer

  void finish() {
    std::string out;
    if (request_.list_alone) {
      write_ranking(out);
      gathered_.release();
      return respond_json(exchange_, std::move(out));
    }
    out += "{\"id\":\"";
    out += api_ == ScoreApi::kScore ? "score-" : api_ == ScoreApi::kClassify ? "classify-" : "rerank-";
    out += request_.request_id.empty() ? random_id(state_.bus, 24) : request_.request_id;
    out += '"';
    if (api_ == ScoreApi::kScore || api_ == ScoreApi::kClassify) {
      auto now = state_.bus.env().wall().time_since_epoch();
      auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
      out += ",\"object\":\"list\",\"created\":" + std::to_string(seconds);
    }
    out += ",\"model\":";
    marshal::write_string(out, name_in_answer(request_.model, model_));
    if (api_ == ScoreApi::kScore)
      write_scores(out);
    else if (api_ == ScoreApi::kClassify)
      write_classes(out);
    else
      write_ranking(out);
    gathered_.release();
    const std::string tokens = std::to_string(tokens_);
    // Clients of Cohere's refuse an answer without it.
    if (api_ == ScoreApi::kCohereRerank)
      out += R"(,"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}})";
    out += ",\"usage\":{\"prompt_tokens\":" + tokens + ",\"completion_tokens\":0,\"total_tokens\":" + tokens + "}}";
    respond_json(exchange_, std::move(out));
  }

  static void write_floats(std::string& out, const std::vector<float>& values) {
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    marshal::write_elements(out, msg::DType::kFp32, bytes, {});
  }

  void write_scores(std::string& out) const {
    out += ",\"data\":[";
    for (size_t i = 0; i < rows_.size(); ++i) {
      out += (i == 0 ? "{\"index\":" : ",{\"index\":") + std::to_string(i) + ",\"object\":\"score\",\"score\":";
      write_floats(out, rows_[i].scores);
      out += '}';
    }
    out += ']';
  }

  void write_classes(std::string& out) const {
    out += ",\"data\":[";
    for (size_t i = 0; i < rows_.size(); ++i) {
      const auto& scores = rows_[i].scores;
      const auto best = size_t(std::max_element(scores.begin(), scores.end()) - scores.begin());
      out += (i == 0 ? "{\"index\":" : ",{\"index\":") + std::to_string(i) + ",\"label\":";
      marshal::write_string(out, labels_[best]);
      out += ",\"probs\":[";
      write_floats(out, scores);
      out += "],\"num_classes\":" + std::to_string(scores.size()) + '}';
    }
    out += ']';
  }

  // The best first; of equal ones the first.
  void write_ranking(std::string& out) const {
    std::vector<size_t> order(rows_.size());
    std::iota(order.begin(), order.end(), size_t(0));
    auto score = [&](size_t i) { return std::isnan(rows_[i].scores[0]) ? -INFINITY : rows_[i].scores[0]; };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return score(a) > score(b); });
    if (request_.top_n > 0 && request_.top_n < order.size()) order.resize(request_.top_n);
    const bool alone = request_.list_alone;
    out += alone ? "[" : ",\"results\":[";
    for (size_t i : order) {
      out += (out.back() == '[' ? "{\"index\":" : ",{\"index\":") + std::to_string(i);
      out += alone ? ",\"score\":" : ",\"relevance_score\":";
      write_floats(out, rows_[i].scores);
      if (request_.return_documents) {
        out += alone ? ",\"text\":" : ",\"document\":{\"text\":";
        marshal::write_string(out, request_.second[i]);
        if (!alone) out += '}';
      }
      out += '}';
    }
    out += ']';
  }

  void leave() {
    for (Row& row : rows_) row.call.abandon();
  }

  OpenAiState& state_;
  Exchange& exchange_;
  const ScoreApi api_;
  const Request request_;
  Texts texts_;
  std::string model_, output_;
  std::vector<std::string> labels_;
  uint64_t tokens_ = 0;
  wire::GatheredAnswer gathered_;  // the texts and their ids, and the scores
  std::deque<Row> rows_;
  size_t next_ = 0, done_ = 0;
  uint64_t running_ids_ = 0;  // of the Calls that are under way
};

void Row::on(msg::Call& answered, msg::Event&& event) {
  call.on_event(event);
  if (auto* failed = std::get_if<msg::Failed>(&event.what)) return owner.fail(failed->status);
  auto* outputs = std::get_if<msg::Outputs>(&event.what);
  static const msg::Outputs kNone;
  owner.answered(*this, answered, outputs && outputs->final ? *outputs : kNone);
}

// Texts become ids.
class ScoresTask final : public Task {
 public:
  ScoresTask(ScoreApi api, Request request, const bus::Served& served)
      : api_(api), request_(std::move(request)), spec_(held_tokens(served)) {}

  void run() override {
    texts_.most = std::min<size_t>(request_.truncate.value_or(spec_->max_length), spec_->max_length);
    if (!request_.ids.empty()) return take_ids();
    if (api_ == ScoreApi::kClassify) return encode_alone();
    encode(request_.first, texts_.first);
    encode(request_.second, texts_.second);
    check_pairs();
  }
  void then(OpenAiState& state, Exchange& exchange, bus::Served& served) override {
    auto reader = std::make_unique<Scores>(state, exchange, api_, std::move(request_), std::move(texts_));
    Scores& running = *reader;
    exchange.attach(std::move(reader));
    running.start(served);
  }

 private:
  // As they are: the client has put what belongs around them.
  void take_ids() {
    for (size_t i = 0; i < request_.ids.size() && error.ok(); ++i) {
      Ids ids = std::move(request_.ids[i]);
      if (!request_.cut && ids.size() > texts_.most) error = too_long("input", i, ids.size());
      if (ids.size() > texts_.most) ids.resize(texts_.most);
      if (ids.empty()) error = refuse("input", "input: a row without tokens");
      for (uint32_t id : ids)
        if (id >= spec_->vocabulary)
          error = refuse("input", "input: token id " + std::to_string(id) + " is not in the vocabulary");
      texts_.first.push_back(std::move(ids));
    }
  }

  void encode_alone() {
    for (size_t i = 0; i < request_.first.size() && error.ok(); ++i) {
      Ids ids = spec_->codec->encode(request_.first[i], msg::AddSpecial::kYes, cancelled());
      if (!request_.cut && ids.size() > texts_.most) error = too_long("input", i, ids.size());
      if (request_.cut) cut_between(ids);
      if (ids.empty()) error = refuse("input", "input: a text without tokens");
      texts_.first.push_back(std::move(ids));
    }
    request_.first.resize(texts_.first.size());
  }

  // Keeps what the tokenizer puts around a text.
  void cut_between(Ids& ids) const {
    if (ids.size() <= texts_.most) return;
    const Ids marks = spec_->codec->encode("", msg::AddSpecial::kYes);
    const auto front = size_t(std::mismatch(marks.begin(), marks.end(), ids.begin(), ids.end()).first - marks.begin());
    const size_t behind = std::min(marks.size() - front, texts_.most);
    std::copy(ids.end() - ptrdiff_t(behind), ids.end(), ids.begin() + ptrdiff_t(texts_.most - behind));
    ids.resize(texts_.most);
  }

  void encode(const std::vector<std::string>& texts, std::vector<Ids>& out) {
    for (const std::string& text : texts) {
      if (cancelled() && cancelled()->load(std::memory_order_relaxed)) break;
      out.push_back(spec_->codec->encode(text, msg::AddSpecial::kNo, cancelled()));
    }
    out.resize(texts.size());
  }

  // No more of a text is kept than can be in a row: which of two is cut, and how far, is the same then.
  void check_pairs() {
    if (request_.document_tokens)
      for (Ids& ids : texts_.second) ids.resize(std::min<size_t>(ids.size(), *request_.document_tokens));
    for (size_t i = 0; i < texts_.second.size(); ++i) {
      const Ids& first = texts_.first[texts_.first.size() == 1 ? 0 : i];
      const size_t size = spec_->codec->pair_size(first.size(), texts_.second[i].size());
      if (size == 0) return void(error = refuse("documents", "a pair of texts without tokens"));
      if (!request_.cut && size > texts_.most) return void(error = too_long("text_2", i, size));
    }
    for (auto* texts : {&texts_.first, &texts_.second})
      for (Ids& ids : *texts)
        if (ids.size() > texts_.most) ids.resize(texts_.most), ids.shrink_to_fit();
  }

  ApiError too_long(const char* param, size_t index, size_t size) const {
    return {base::failure(base::Code::kOutOfRange,
                          std::string(param) + ": " + std::to_string(size) + " tokens of row " + std::to_string(index) +
                              " do not fit the model's context of " + std::to_string(spec_->max_length) +
                              "; truncate_prompt_tokens: -1 cuts them"),
            param,
            {}};
  }

  const ScoreApi api_;
  Request request_;
  const std::shared_ptr<const msg::TextSpec> spec_;
  Texts texts_;
};

void score_texts(OpenAiState& state, Exchange& exchange, ScoreApi api, Request&& request) {
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kScores);
  if (!error.ok()) return respond(exchange, error);
  const uint32_t labels = served->spec.encoder->labels;
  if (api != ScoreApi::kClassify && labels != 1)
    return respond(exchange, refuse("model", "model '" + served->spec.name + "' gives " + std::to_string(labels) +
                                                 " scores of a text, and a reranker one: ask /classify"));
  if (!request.activation && served->spec.outputs.size() < 2)
    return respond(exchange, refuse("activation", "activation: model '" + served->spec.name + "' gives scores alone"));
  // How long a document may be is its origin's to say.
  if (served->spec.encoder->remote_chat) request.document_tokens.reset();
  if (served->spec.encoder->remote_chat && request.truncate)
    return respond(exchange, refuse("truncate_prompt_tokens", "another server has this model's tokens"));
  if (request.rows() * labels > kMaxScores)
    return respond(exchange, refuse("input", "input: at most " + std::to_string(kMaxScores) +
                                                 " scores in one request, texts × labels"));
  auto task = std::make_unique<ScoresTask>(api, std::move(request), *served);
  perform(state, exchange, *served, std::move(task), exchange.content().size());
}

template <ScoreApi api>
void serve(OpenAiState& state, Exchange& exchange) {
  read_body<Request>(
      state, exchange, [](std::string_view body, Request& request) { return read_request(body, api, request); },
      [](OpenAiState& there, Exchange& x, Request&& request) { score_texts(there, x, api, std::move(request)); });
}

}  // namespace

void rerank(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  serve<ScoreApi::kRerank>(state, exchange);
}
void cohere_rerank(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  serve<ScoreApi::kCohereRerank>(state, exchange);
}
void score(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) { serve<ScoreApi::kScore>(state, exchange); }
void classify(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  serve<ScoreApi::kClassify>(state, exchange);
}

}  // namespace weir::openai::scores
