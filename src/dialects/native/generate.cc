#include "dialects/native/generate.h"

#include <memory>
#include <utility>

#include "base/extra_work.h"
#include "bus/call_handle.h"
#include "bus/offload_handle.h"
#include "dialects/native/messages.h"
#include "marshal/call_times.h"
#include "marshal/tenant.h"
#include "msg/text_codec.h"
#include "wire/relay.h"

namespace weir::native {
namespace {

using base::Bytes;
using base::Status;

// The parameter of a Call that runs here, and is not handed on again (sched/local_first.h).
constexpr const char* kRelayed = "weir_relayed";

// The form of the text, with what there is of the text already.
class FormTask final : public bus::OffloadTask, public base::ExtraWork {
 public:
  FormTask(SequenceRequest from, std::shared_ptr<const msg::TextSpec> spec)
      : request(std::move(from)), spec_(std::move(spec)) {}

  void run() override {
    auto grammar = spec_->codec->compile(*request.params.structured, cancelled());
    if (!grammar) return void(status = grammar.error());
    auto constraint = (*grammar)->start(marshal::end_ids(request.params, *spec_));
    const auto& tokens = request.generation.append;
    for (size_t i = tokens.size() - request.begun; i < tokens.size(); ++i)
      if (!constraint->accept(tokens[i])) return void(status = base::invalid("form: the text so far does not have it"));
    request.generation.constraint = std::move(constraint);
  }

  uint64_t extra_work() const override {
    return spec_->codec->find_compiled(*request.params.structured) ? 0 : base::kCompileWork;
  }

  SequenceRequest request;
  Status status;  // after run()

 private:
  const std::shared_ptr<const msg::TextSpec> spec_;
};

class Sequence final : public wire::RpcListener, msg::Sink, bus::OffloadListener {
 public:
  Sequence(bus::Bus& bus, wire::Rpc& rpc) : rpc_(rpc), bus_(bus), call_(bus), reading_(bus, *this) {}

  Status begin(const Bytes& message);

  void on_message(wire::Rpc&, Bytes) override {}
  void on_drain(wire::Rpc&) override { call_.repay(); }
  void on_close(wire::Rpc&) override {
    call_.abandon();
    reading_.abandon();
  }

 private:
  Status read_form(SequenceRequest request);
  Status submit(SequenceRequest request);
  void on_task(Status status, std::unique_ptr<bus::OffloadTask> task) override;
  void on(msg::Call& call, msg::Event&& event) override;
  void end(msg::Event&& event);
  void send(std::string event) { rpc_.send(Bytes::adopt(std::move(event))); }

  wire::Rpc& rpc_;
  bus::Bus& bus_;
  bus::CallHandle call_;
  bus::OffloadHandle reading_;
  bus::Served* served_ = nullptr;  // looked up in this turn, or kept alive by a task or Call in flight
};

Status Sequence::begin(const Bytes& message) {
  auto request = read_sequence(message);
  if (!request) return request.error();
  auto found = bus_.catalog(marshal::models_of(rpc_.exchange().request()))
                   .resolve(request->model, request->version, bus::Needs::kTokens);
  if (!found) return found.error();
  served_ = *found;
  rpc_.exchange().record().model = served_->spec.name;
  if (Status status = apply(*request, *served_->spec.text); !status.ok()) return status;
  return request->params.structured ? read_form(*std::move(request)) : submit(*std::move(request));
}

Status Sequence::read_form(SequenceRequest request) {
  if (!served_->spec.text->codec) return base::failure(base::Code::kUnimplemented, "form: the model has no tokenizer");
  const size_t size = request.weight_of_form();
  return reading_.send(std::make_unique<FormTask>(std::move(request), served_->spec.text), size, *served_,
                       rpc_.exchange().ticket(), marshal::tenant_of(rpc_.exchange().request()));
}

void Sequence::on_task(Status status, std::unique_ptr<bus::OffloadTask> task) {
  if (status.ok()) {
    auto& form = static_cast<FormTask&>(*task);
    status = form.status.ok() ? submit(std::move(form.request)) : std::move(form.status);
  }
  if (!status.ok()) rpc_.finish(status);
}

Status Sequence::submit(SequenceRequest request) {
  msg::Call& call = call_.fill();
  call.model = served_->spec.name;
  call.version = served_->spec.version;
  call.id = std::move(request.id);
  call.priority = request.priority;
  call.deadline = rpc_.deadline();
  marshal::set_caller(call, rpc_.exchange());
  if (rpc_.metadata().has(wire::kRelayed)) call.parameters.emplace_back(kRelayed, true);
  call.generation = std::make_unique<msg::Generation>(std::move(request.generation));
  call_.grant(bus::kTokenWindow);
  return call_.submit(*served_, *this, rpc_.exchange().ticket());
}

void Sequence::on(msg::Call& call, msg::Event&& event) {
  const bool last = call_.on_event(event);
  if (auto* token = std::get_if<msg::Token>(&event.what)) {
    call_.owe();
    send(write_token(*token));
    if (rpc_.has_room()) call_.repay();
    return;
  }
  if (!last) return;
  marshal::record_call(rpc_.exchange().record(), call);
  end(std::move(event));
}

void Sequence::end(msg::Event&& event) {
  if (auto* failed = std::get_if<msg::Failed>(&event.what)) return rpc_.finish(failed->status);
  if (auto* done = std::get_if<msg::Done>(&event.what)) {
    send(write_done(*done));
    return rpc_.finish({});
  }
  const auto& tensors = std::get<msg::Outputs>(event.what).tensors;
  if (tensors.size() != 1 || tensors[0].dtype != msg::DType::kFp32) return rpc_.finish(bus::no_answer());
  send(write_embedding(tensors[0]));
  rpc_.finish({});
}

}  // namespace

void Generate::call(wire::Rpc& rpc, Bytes message) {
  auto sequence = std::make_unique<Sequence>(bus_, rpc);
  Sequence& begun = *sequence;
  rpc.attach(std::move(sequence));
  if (Status status = begun.begin(message); !status.ok()) rpc.finish(status);
}

}  // namespace weir::native
