#include "dialects/ops/recent_requests.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/encoding.h"
#include "dialects/ops/access_log.h"
#include "marshal/json_tensor.h"

namespace weir::ops {
namespace {

using base::Time;

bool is_left_out(std::string_view protocol) {
  return protocol == "health" || protocol == "metrics" || protocol == "console" || protocol == "grps-monitor";
}

bool is_notable(const wire::RequestRecord& record, base::Duration took, base::Duration slow) {
  return took >= slow || record.code != base::Code::kOk || record.status >= 500;
}

double in_seconds(base::Duration d) { return std::chrono::duration<double>(d).count(); }

// A number from 1 to `most`; nothing: the text is none, or is not there.
size_t number_of(const std::string& text, size_t most) {
  size_t n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && end == text.data() + text.size() ? std::min(n, most) : 0;
}

}  // namespace

void set_parts(KeptRequest& to, const wire::RequestRecord& record, Time ended) {
  const wire::RequestTimes& t = record.times;
  Time at = record.began;
  auto add = [&](std::string_view name, Time end) {
    if (end == base::kNever || at == base::kNever || to.part_count == to.parts.size()) return;
    end = std::max(end, at);  // the shards' clock stands still within a turn, the lanes' do not
    to.parts[to.part_count++] = {name, at - record.began, end - at};
    at = end;
  };
  add("receive", t.whole != base::kNever ? t.whole : t.queued);
  if (t.whole != base::kNever) add("decode", t.queued);
  add("queue", t.started);
  add("stage", t.computing);
  add("compute", t.computed);
  if (t.queued != base::kNever) add("send", ended);
}

void append_json(std::string& out, const KeptRequest& kept) {
  std::string_view line = kept.line;
  if (line.ends_with("}\n")) line.remove_suffix(2);
  (out += line) += ",\"parts\":[";
  for (size_t i = 0; i < kept.part_count; ++i) {
    const auto& part = kept.parts[i];
    if (i > 0) out += ',';
    ((out += "{\"name\":\"") += part.name) += "\",\"start\":";
    marshal::write_number(out, in_seconds(part.start));
    out += ",\"seconds\":";
    marshal::write_number(out, in_seconds(part.length));
    out += '}';
  }
  out += ']';
  if (kept.bodies) {
    ((out += ",\"request_body\":\"") += base::base64_encode(kept.bodies->request)) += '"';
    ((out += ",\"answer_body\":\"") += base::base64_encode(kept.bodies->answer)) += '"';
  }
  out += '}';
}

void RequestRing::put(KeptRequest request) {
  if (most_ == 0) return;
  if (kept_.size() < most_)
    kept_.push_back(std::move(request));
  else
    kept_[next_] = std::move(request);
  next_ = (next_ + 1) % most_;
}

void RequestRing::each(const std::function<bool(const KeptRequest&)>& visit) const {
  for (size_t i = 0; i < kept_.size(); ++i)
    if (!visit(kept_[(next_ + most_ - 1 - i) % most_])) return;
}

// A client's search. It is posted from shard to shard, and at last to the client's own, which answers; one thread has
// it at a time.
struct RecentRequests::Question {
  std::string id;
  size_t most = 20;
  bool by_time_taken = false;
  enum class Bodies : uint8_t { kHidden, kShown } bodies = Bodies::kHidden;
  RequestFilter filter;
  std::vector<KeptRequest> found;
  size_t kept = 0;
  size_t next_shard = 0;
  base::ShardId home{};
  std::weak_ptr<wire::Exchange*> asker;  // home shard only

  bool before(const KeptRequest& a, const KeptRequest& b) const {
    return by_time_taken ? a.took > b.took : a.line > b.line;  // a line begins with its time
  }
  void add(const KeptRequest& request);
  void answer();
};

void RecentRequests::Question::add(const KeptRequest& request) {
  const bool named = request.request_id == id || request.trace_id == id;
  const bool wanted = id.empty() ? filter.matches(request.record, request.took) : named && filter.shows(request.record);
  if (!wanted || (found.size() == most && !before(request, found.back()))) return;
  if (found.size() == most) found.pop_back();
  auto at = std::upper_bound(found.begin(), found.end(), request,
                             [this](const auto& a, const auto& b) { return before(a, b); });
  KeptRequest copy;
  copy.line = request.line, copy.took = request.took;
  copy.parts = request.parts, copy.part_count = request.part_count;
  if (bodies == Bodies::kShown) copy.bodies = request.bodies;
  found.insert(at, std::move(copy));
}

void RecentRequests::Question::answer() {
  auto exchange = asker.lock();
  if (!exchange) return;  // the client has left
  wire::Exchange& x = **exchange;
  if (!id.empty() && found.empty())
    return wire::respond_error(x, base::failure(base::Code::kNotFound,
                                                "no request of that id is kept; the last ones are, as far as "
                                                "console.timelines allows"));
  std::string out = "{\"kept\":" + std::to_string(kept) + ",\"requests\":[";
  for (size_t i = 0; i < found.size(); ++i) {
    if (i > 0) out += ',';
    append_json(out, found[i]);
  }
  x.respond(200, "application/json", base::Bytes::adopt(out + "]}\n"), wire::Exchange::Compress::kIfAccepted);
}

RecentRequests::RecentRequests(uint32_t shards, Post post, RecentRules rules)
    : shards_(shards), post_(std::move(post)), rules_(rules) {}
RecentRequests::~RecentRequests() = default;

// Posts the search to the next shard, which looks through its requests on its own thread; after the last one the
// client's shard answers.
void RecentRequests::ask_next(std::shared_ptr<Question> question) {
  const size_t next = question->next_shard++;
  if (next == shards_.size()) return post_(question->home, [question] { question->answer(); });
  post_(base::ShardId(next), [this, question, next] {
    shards_[next]->search(*question);
    ask_next(question);
  });
}

std::unique_ptr<RecentRequests::ShardRequests> RecentRequests::on_shard(base::ShardId shard, base::Env& env,
                                                                        wire::Router& router,
                                                                        wire::BodyStarts* starts) {
  return std::make_unique<ShardRequests>(*this, shard, env, router, starts);
}

// Attached to the exchange of a search: alive() is empty once its client has left.
class RecentRequests::ShardRequests::Asker final : public wire::ExchangeListener {
 public:
  explicit Asker(wire::Exchange& x) : alive_(std::make_shared<wire::Exchange*>(&x)) {}
  void on_close(wire::Exchange&, bool) override { alive_.reset(); }
  std::weak_ptr<wire::Exchange*> alive() const { return alive_; }

 private:
  std::shared_ptr<wire::Exchange*> alive_;
};

RecentRequests::ShardRequests::ShardRequests(RecentRequests& all, base::ShardId shard, base::Env& env,
                                             wire::Router& router, wire::BodyStarts* starts)
    : all_(all),
      shard_(shard),
      env_(env),
      router_(router),
      starts_(starts),
      ordinary_(all.rules_.kept),
      notable_(all.rules_.kept) {
  all_.shards_[size_t(shard)] = this;
  router.add({"GET", "/console/v1/timelines", this, "console", {wire::BodyPlan::kIgnore}, wire::Permission::kObserve});
  router.observe(*this);
}

void RecentRequests::ShardRequests::finished(const wire::Exchange& x) {
  const wire::RequestRecord& record = x.record();
  std::shared_ptr<const wire::BodyStart> bodies = starts_ ? starts_->take(x) : nullptr;
  if (all_.rules_.kept == 0 || record.began == base::kNever || is_left_out(record.protocol)) return;
  const base::Duration took = record.took(x.now());
  const bool notable = is_notable(record, took, all_.rules_.slow);
  if (!notable && !bucket_.take(x.now())) return;
  KeptRequest kept;
  append_access_line(kept.line, env_.wall(), x);
  kept.request_id = record.request_id;
  if (record.traceparent.size() >= 35) kept.trace_id = record.traceparent.substr(3, 32);
  kept.record.protocol = record.protocol, kept.record.model = record.model;
  kept.record.status = record.status, kept.record.code = record.code;
  kept.took = took;
  kept.bodies = std::move(bodies);
  set_parts(kept, record, x.now());
  (notable ? notable_ : ordinary_).put(std::move(kept));
}

void RecentRequests::ShardRequests::serve(wire::Exchange& x, const wire::PathArgs&) {
  if (all_.rules_.kept == 0)
    return wire::respond_error(
        x, base::failure(base::Code::kFailedPrecondition, "no timelines are kept (console.timelines is 0)"));
  auto filter = RequestFilter::from_query(x.request());
  if (!filter) return wire::respond_error(x, filter.error());
  auto question = std::make_shared<Question>();
  question->id = x.request().query_value("id");
  if (starts_ && !question->id.empty() && router_.may(x, wire::Permission::kAdmin).ok())
    question->bodies = Question::Bodies::kShown;
  question->filter = std::move(*filter);
  const size_t slowest = number_of(x.request().query_value("slowest"), kMostShown);
  const size_t last = number_of(x.request().query_value("last"), kMostShown);
  question->by_time_taken = slowest > 0;
  if (slowest + last > 0) question->most = slowest > 0 ? slowest : last;
  question->home = shard_;
  auto asker = std::make_unique<Asker>(x);
  question->asker = asker->alive();
  x.attach(std::move(asker));
  all_.ask_next(std::move(question));
}

void RecentRequests::ShardRequests::search(Question& question) const {
  question.kept += ordinary_.size() + notable_.size();
  for (const auto* ring : {&ordinary_, &notable_})
    ring->each([&](const KeptRequest& request) {
      question.add(request);
      return true;
    });
}

}  // namespace weir::ops
