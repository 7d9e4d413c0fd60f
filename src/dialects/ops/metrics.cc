#include "dialects/ops/metrics.h"

#include <array>
#include <deque>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/encoding.h"

namespace weir::ops {
namespace {

using base::Histogram;

constexpr size_t kCodes = 17;

// The histograms of one model.
enum class Part : uint8_t { kWhole, kReceive, kQueue, kCompute, kSend };
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kParts{
    {{"weir_model_request_duration_seconds", "Whole requests of a model."},
     {"weir_model_receive_seconds", "From the head of a model's request to its place in the queue."},
     {"weir_model_queue_seconds", "Time that requests of a model waited for their batch."},
     {"weir_model_compute_seconds", "Time that requests of a model spent in their batch."},
     {"weir_model_send_seconds", "From the model's answer to its last byte handed to the socket."}}};

uint64_t ns(base::Duration d) { return uint64_t(std::max<int64_t>(d.count(), 0)); }

// The request is the latest traced one that took about as long.
void exemplify(Histogram& histogram, uint64_t ns, const wire::RequestRecord& record, base::Time at) {
  const wire::Trace& trace = *record.trace;
  histogram.set_exemplar({base::hex({reinterpret_cast<const char*>(trace.id.data()), trace.id.size()}), ns,
                          base::WallTime(at.time_since_epoch() + base::Duration(trace.to_unix_ns))});
}

}  // namespace

struct RequestMetrics::Parts {
  struct Protocol {
    std::string_view name;  // a literal
    std::array<base::Counter*, kCodes> codes{};
    Histogram* duration;
    base::Counter *in, *out;
  };
  struct Model {
    std::array<Histogram*, kParts.size()> cells{};

    Histogram& of(Part part) const { return *cells[size_t(part)]; }
  };

  Parts(base::Metrics& m, Serves s) : metrics(m), serves(std::move(s)) {}

  // A handful of literals: looking along the list beats hashing.
  Protocol& protocol(std::string_view name) {
    for (auto& p : protocols)
      if (p.name == name) return p;
    base::Metrics::Labels label{{"protocol", std::string(name)}};
    auto bytes = [&](const char* direction) {
      return &metrics.counter("weir_request_bytes_total", "Bytes of bodies.",
                              {{"protocol", std::string(name)}, {"direction", direction}});
    };
    return protocols.emplace_back(
        Protocol{name,
                 {},
                 &metrics.histogram("weir_request_duration_seconds",
                                    "From the request's head to the last byte handed to the socket.",
                                    Histogram::Scale::kSeconds, label),
                 bytes("in"),
                 bytes("out")});
  }

  base::Counter& code(Protocol& p, base::Code code) {
    auto*& cell = p.codes[size_t(code)];
    if (!cell)
      cell = &metrics.counter("weir_requests_total", "Requests that ended, by outcome in gRPC's terms.",
                              {{"protocol", std::string(p.name)}, {"code", std::string(base::name(code))}});
    return *cell;
  }

  // Null for one that is not served any more: it has no series, and gets none from its last requests.
  Model* model(const std::string& name) {
    auto found = models.find(name);
    if (found != models.end()) return &found->second;
    if (serves && !serves(name)) return nullptr;
    Model fresh;
    for (size_t i = 0; i < kParts.size(); ++i)
      fresh.cells[i] =
          &metrics.histogram(kParts[i].first, kParts[i].second, Histogram::Scale::kSeconds, {{"model", name}});
    return &models.emplace(name, fresh).first->second;
  }
  void forget_unserved() {
    std::erase_if(models, [this](const auto& entry) {
      const auto& [name, model] = entry;
      if (!serves || serves(name)) return false;
      for (size_t i = 0; i < kParts.size(); ++i) metrics.drop(kParts[i].first, {{"model", name}}, *model.cells[i]);
      return true;
    });
  }

  base::Metrics& metrics;
  const Serves serves;
  std::deque<Protocol> protocols;
  std::unordered_map<std::string, Model> models;
  std::unordered_map<std::string_view, base::Counter*> reasons;  // by literal
};

RequestMetrics::RequestMetrics(base::Metrics& metrics, Serves serves)
    : parts_(std::make_unique<Parts>(metrics, std::move(serves))) {}
RequestMetrics::~RequestMetrics() = default;

void RequestMetrics::catalog_changed() { parts_->forget_unserved(); }

void RequestMetrics::finished(const wire::Exchange& exchange) {
  const wire::RequestRecord& record = exchange.record();
  auto& protocol = parts_->protocol(record.protocol);
  parts_->code(protocol, record.code).add_alone();
  protocol.in->add_alone(record.bytes_in);
  protocol.out->add_alone(record.bytes_out);
  uint64_t took = ns(record.took(exchange.now()));
  const base::Time at = exchange.now();
  protocol.duration->record_ns_alone(took);
  const bool traced = record.trace != nullptr;
  if (traced) exemplify(*protocol.duration, took, record, at);
  if (!record.reject.empty() && exchange.request().peer) rejected(record.reject, *exchange.request().peer);
  // Inferences only: a look at a model's metadata is no request of the model, a refusal has run nowhere.
  if (record.model.empty() || (record.compute + record.queue).count() == 0) return;
  const auto* model = parts_->model(record.model);
  if (!model) return;
  model->of(Part::kWhole).record_ns_alone(took);
  if (traced) exemplify(model->of(Part::kWhole), took, record, at);
  if (record.code != base::Code::kOk) return;
  model->of(Part::kQueue).record_ns_alone(ns(record.queue));
  model->of(Part::kCompute).record_ns_alone(ns(record.compute));
  const wire::RequestTimes& times = record.times;
  if (times.queued != base::kNever) model->of(Part::kReceive).record_ns_alone(ns(times.queued - record.began));
  if (times.computed != base::kNever) model->of(Part::kSend).record_ns_alone(ns(at - times.computed));
  if (!traced) return;
  exemplify(model->of(Part::kQueue), ns(record.queue), record, at);
  exemplify(model->of(Part::kCompute), ns(record.compute), record, at);
}

void RequestMetrics::rejected(std::string_view reason, const wire::PeerInfo&) {
  auto*& cell = parts_->reasons[reason];
  if (!cell)
    cell = &parts_->metrics.counter("weir_rejects_total", "What was refused, by reason.",
                                    {{"reason", std::string(reason)}});
  cell->add();
}

}  // namespace weir::ops
