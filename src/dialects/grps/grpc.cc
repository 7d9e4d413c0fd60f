#include "dialects/grps/grpc.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "dialects/grps/inference.h"
#include "grps.pb.h"
#include "marshal/small_message.h"
#include "marshal/tenant.h"
#include "wire/answer_flow.h"
#include "wire/offload.h"
#include "wire/service_guard.h"

namespace weir::grps {
namespace {

using base::Status;

// The message says what happened; gRPC itself says OK, save where the client's own deadline has ended the call.
void finish(wire::Rpc& rpc, const Status& status) {
  bool expired = status.code == base::Code::kDeadlineExceeded;
  rpc.finish(expired ? status : Status{});
  rpc.exchange().record().set_outcome(status);
}
void answer(wire::Rpc& rpc, const Status& status, const Message& reply = {}) {
  rpc.send(write_pb(status, reply));
  finish(rpc, status);
}

template <ControlCall call_it>
class Control final : public Method {
 public:
  explicit Control(GrpsState& state) : state_(state) {}
  void call(wire::Rpc& rpc, base::Bytes bytes) override {
    Message request, reply;
    Status status = marshal::check_small(bytes);
    if (status.ok()) status = read_pb(bytes, state_.slabs, request);
    const auto& catalog = state_.bus.catalog(marshal::models_of(rpc.exchange().request()));
    if (status.ok()) status = call_it(state_, catalog, request, reply);
    answer(rpc, status, reply);
  }

 private:
  GrpsState& state_;
};

// Reads a long message by a worker.
class ReadMessage final : public base::OffloadTask {
 public:
  ReadMessage(GrpsState& state, base::Bytes bytes) : state_(state), bytes_(std::move(bytes)) {}
  void run() override {
    auto thrown = base::attempt("reading a request", [this] { status = read_pb(bytes_, state_.slabs, message); });
    if (!thrown.ok()) status = std::move(thrown);
  }

  Status status;  // after run(), as the next
  Message message;

 private:
  GrpsState& state_;
  const base::Bytes bytes_;
};

// Writes a long one. What it has converted is charged by send(), and room for it is held until then.
class WriteMessage final : public base::OffloadTask {
 public:
  WriteMessage(wire::Exchange& exchange, Message&& message) : room_(exchange), message_(std::move(message)) {}
  bool reserve() { return room_.take(most_converted(message_)); }
  void run() override {
    status = base::attempt("writing an answer", [this] { pieces = write_pb({}, message_); });
  }

  Status status;  // after run(), as the next
  std::vector<base::Bytes> pieces;

 private:
  wire::AnswerReservation room_;
  const Message message_;
};

class RpcPrediction : public wire::RpcListener, public Prediction {
 public:
  RpcPrediction(GrpsState& state, wire::Rpc& rpc) : Prediction(state, rpc.exchange()), rpc_(rpc) {}

  void begin(base::Bytes bytes, Answers answers) {
    if (state_.options.offload && takes_long(bytes.view())) return read_by_worker(std::move(bytes), answers);
    Message message;
    Status status = read_pb(bytes, state_.slabs, message);
    go_on(std::move(status), std::move(message), answers);
  }
  void on_message(wire::Rpc&, base::Bytes) override {}
  void on_drain(wire::Rpc&) override {
    if (has_room()) drained();
  }
  void on_close(wire::Rpc&) override {
    sent_ = nullptr;
    waiting_.clear();
    end_.reset();
    leave();
  }

 protected:
  bool has_room() override { return waiting_.empty() && rpc_.has_room(); }
  // One answer, behind those before it. Errors: that no worker takes it.
  Status write(Message&& reply) {
    if (waiting_.empty() && !(state_.options.offload && most_converted(reply) > kLongReply))
      return rpc_.send(write_pb({}, reply)), Status();
    waiting_.push_back(std::move(reply));
    return sent_ ? Status() : write_first();
  }
  // The end, behind all answers.
  void end(const Status& status) {
    if (sent_) {
      end_ = status;
      return;
    }
    waiting_.clear();
    status.ok() ? finish(rpc_, {}) : answer(rpc_, status);
  }

  wire::Rpc& rpc_;

 private:
  using Task = std::unique_ptr<base::OffloadTask>;
  // `then` gets the task that has run.
  template <class Then>
  Status run_on_worker(Task task, size_t bytes, wire::Offload::Part part, Then then) {
    auto done = [this, then](const Status& sent, Task done_task) {
      sent_ = nullptr;
      wire::guarded(exchange_, [&] { sent.ok() ? then(*done_task) : fail(sent); });
    };
    auto sent = state_.options.offload->send(std::move(task), bytes, part, exchange_, std::move(done));
    if (!sent) return sent.error();
    sent_ = std::move(*sent);
    return {};
  }
  void read_by_worker(base::Bytes bytes, Answers answers) {
    const size_t size = bytes.size();
    Status status = run_on_worker(std::make_unique<ReadMessage>(state_, std::move(bytes)), size,
                                  wire::Offload::Part::kRequest, [this, answers](base::OffloadTask& task) {
                                    auto& read = static_cast<ReadMessage&>(task);
                                    go_on(std::move(read.status), std::move(read.message), answers);
                                  });
    if (!status.ok()) answer(rpc_, status);
  }
  void go_on(Status status, Message&& message, Answers answers) {
    if (status.ok()) {
      call().deadline = rpc_.deadline();
      status = ask(std::move(message), "", answers);
    }
    if (!status.ok()) answer(rpc_, status);
  }
  Status write_first() {
    const uint64_t bytes = most_converted(waiting_.front());
    auto write = std::make_unique<WriteMessage>(exchange_, std::move(waiting_.front()));
    Status status = wire::no_room_for_answer();
    if (write->reserve())
      status = run_on_worker(std::move(write), bytes, wire::Offload::Part::kAnswer, [this](base::OffloadTask& task) {
        auto& written = static_cast<WriteMessage&>(task);
        if (!written.status.ok()) return fail(written.status);
        waiting_.pop_front();
        rpc_.send(std::move(written.pieces));
        go_on_writing();
      });
    if (!status.ok()) waiting_.clear();
    return status;
  }
  void go_on_writing() {
    if (!waiting_.empty()) {
      if (Status status = write_first(); !status.ok()) fail(status);
    } else if (end_) {
      end(*end_);
    } else if (has_room()) {
      drained();
    }
  }
  void fail(const Status& status) {
    waiting_.clear();
    leave();
    answer(rpc_, status);
  }

  std::unique_ptr<wire::SentTask> sent_;  // while a worker reads the request or writes the first that waits
  std::deque<Message> waiting_;           // answers; the first of them is being written
  std::optional<Status> end_;             // behind them
};

class Unary final : public RpcPrediction {
 public:
  using RpcPrediction::RpcPrediction;
  static constexpr Answers kAnswers = Answers::kOne;

 private:
  Status answered(Message&& reply, More) override {
    reply_ = std::move(reply);
    return {};
  }
  void ended(Status status) override {
    if (status.ok()) status = write(std::move(reply_));
    end(status);
  }

  Message reply_;
};

class Streamed final : public RpcPrediction {
 public:
  using RpcPrediction::RpcPrediction;
  static constexpr Answers kAnswers = Answers::kMany;

 private:
  Status answered(Message&& reply, More more) override {
    if (more == More::kNo && reply.tensors.empty() && reply.data.empty()) return {};
    return write(std::move(reply));
  }
  void ended(Status status) override { end(status); }
};

template <class T>
class Predict final : public Method {
 public:
  explicit Predict(GrpsState& state) : state_(state) {}
  void call(wire::Rpc& rpc, base::Bytes bytes) override {
    auto reader = std::make_unique<T>(state_, rpc);
    T& prediction = *reader;
    rpc.attach(std::move(reader));
    prediction.begin(std::move(bytes), T::kAnswers);
  }

 private:
  GrpsState& state_;
};

}  // namespace

void add_calls(GrpsState& state, wire::RpcServer& rpcs, std::vector<std::unique_ptr<Method>>& methods) {
  // The descriptor by its generated class, so that the linker keeps it for JSON and reflection.
  const std::string type = ::grps::protos::v1::GrpsMessage::descriptor()->full_name();
  using wire::Permission;
  auto add = [&](const char* name, Permission permission, std::unique_ptr<Method> method,
                 wire::RpcKind kind = wire::RpcKind::kUnary) {
    rpcs.add({std::string(Grps::kService), name, kind, method.get(), type, type, kGrpc, permission});
    if (kind == wire::RpcKind::kUnary)
      rpcs.add({std::string(Grps::kBrpcService), name, kind, method.get(), type, type, kGrpc, permission});
    methods.push_back(std::move(method));
  };
  add("Online", Permission::kAdmin, std::make_unique<Control<go_online>>(state));
  add("Offline", Permission::kAdmin, std::make_unique<Control<go_offline>>(state));
  add("CheckLiveness", Permission::kHealth, std::make_unique<Control<check_liveness>>(state));
  add("CheckReadiness", Permission::kHealth, std::make_unique<Control<check_readiness>>(state));
  add("ServerMetadata", Permission::kRead, std::make_unique<Control<server_metadata>>(state));
  add("ModelMetadata", Permission::kRead, std::make_unique<Control<model_metadata>>(state));
  add("Predict", Permission::kInfer, std::make_unique<Predict<Unary>>(state));
  add("PredictStreaming", Permission::kInfer, std::make_unique<Predict<Streamed>>(state), wire::RpcKind::kServerStream);
}

}  // namespace weir::grps
