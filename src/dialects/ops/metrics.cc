#include "dialects/ops/metrics.h"

#include <array>
#include <deque>
#include <functional>
#include <unordered_map>

#include "base/encoding.h"

namespace weir::ops {
namespace {

using base::Histogram;

constexpr size_t kCodes = 17;

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
    Histogram *duration, *receive, *queue, *compute, *send;
  };

  explicit Parts(base::Metrics& m) : metrics(m) {}

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

  Model& model(const std::string& name) {
    auto found = models.find(name);
    if (found != models.end()) return found->second;
    auto histogram = [&](const char* family, const char* help) {
      return &metrics.histogram(family, help, Histogram::Scale::kSeconds, {{"model", name}});
    };
    Model fresh{
        histogram("weir_model_request_duration_seconds", "Whole requests of a model."),
        histogram("weir_model_receive_seconds", "From the head of a model's request to its place in the queue."),
        histogram("weir_model_queue_seconds", "Time that requests of a model waited for their batch."),
        histogram("weir_model_compute_seconds", "Time that requests of a model spent in their batch."),
        histogram("weir_model_send_seconds", "From the model's answer to its last byte handed to the socket.")};
    return models.emplace(name, fresh).first->second;
  }

  base::Metrics& metrics;
  std::deque<Protocol> protocols;
  std::unordered_map<std::string, Model> models;
  std::unordered_map<std::string_view, base::Counter*> reasons;  // by literal
};

RequestMetrics::RequestMetrics(base::Metrics& metrics) : parts_(std::make_unique<Parts>(metrics)) {}
RequestMetrics::~RequestMetrics() = default;

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
  auto& model = parts_->model(record.model);
  model.duration->record_ns_alone(took);
  if (traced) exemplify(*model.duration, took, record, at);
  if (record.code != base::Code::kOk) return;
  model.queue->record_ns_alone(ns(record.queue));
  model.compute->record_ns_alone(ns(record.compute));
  const wire::RequestTimes& times = record.times;
  if (times.queued != base::kNever) model.receive->record_ns_alone(ns(times.queued - record.began));
  if (times.computed != base::kNever) model.send->record_ns_alone(ns(at - times.computed));
  if (!traced) return;
  exemplify(*model.queue, ns(record.queue), record, at);
  exemplify(*model.compute, ns(record.compute), record, at);
}

void RequestMetrics::rejected(std::string_view reason, const wire::PeerInfo&) {
  auto*& cell = parts_->reasons[reason];
  if (!cell)
    cell = &parts_->metrics.counter("weir_rejects_total", "What was refused, by reason.",
                                    {{"reason", std::string(reason)}});
  cell->add();
}

}  // namespace weir::ops
