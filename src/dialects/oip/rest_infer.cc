// POST …/infer and …/infer_stream.
#include <charconv>
#include <optional>

#include "base/recycled.h"
#include "dialects/oip/async_infer.h"
#include "dialects/oip/inference.h"
#include "dialects/oip/json_infer.h"
#include "dialects/oip/rest.h"
#include "marshal/json_tensor.h"
#include "marshal/raw_input.h"
#include "wire/answer_flow.h"
#include "wire/coding.h"
#include "wire/offload.h"
#include "wire/sse.h"

namespace weir::oip {
namespace {

using base::Status;
using wire::Exchange;

constexpr std::string_view kHeaderLength = "inference-header-content-length";

// A JSON answer with tensors that are written while the client reads it.
class LargeAnswer final : public wire::TextSource {
 public:
  explicit LargeAnswer(JsonReply reply) : reply_(std::move(reply)) {}

  bool write(std::string& out, size_t target) override {
    for (; next_ < reply_.large.size() && out.size() < target; ++next_) {
      JsonReply::Large& large = reply_.large[next_];
      out += std::exchange(large.before, {});
      if (large.data.write(out, target)) return true;
    }
    if (next_ < reply_.large.size()) return true;
    out += std::exchange(reply_.json, {});
    return false;
  }
  uint64_t held() const override {
    uint64_t bytes = 0;
    for (const auto& large : reply_.large) bytes += large.data.tensor().data.size();
    return bytes;
  }

 private:
  JsonReply reply_;
  size_t next_ = 0;
};

// The part that unary and streamed requests have in common: the request.
class RestInference : public wire::ExchangeListener, public Inference {
 public:
  RestInference(OipState& state, Exchange& exchange, std::string_view streamed_by)
      : Inference(state, exchange, kRest, streamed_by) {}

  void begin(const wire::PathArgs& args) {
    msg::Call& call = this->call();
    call.model = args["model"];
    call.version = args["version"];
    if (Status status = run(); !status.ok()) respond_error(exchange_, status);
  }
  void on_close(Exchange&, bool) override { leave(); }

 protected:
  virtual Status check_model() { return {}; }

 private:
  Status run() {
    if (Status status = find(); !status.ok()) return status;
    if (Status status = check_model(); !status.ok()) return status;
    if (Status status = read(); !status.ok()) return status;
    return aside_ ? Status() : start();
  }
  Status read() {
    const base::Bytes& body = exchange_.content();
    std::string_view text = exchange_.request().fields.find(kHeaderLength);
    if (!text.data() && is_picture(body.view())) return read_whole(body, read_picture_infer);
    if (!text.data()) return read_json(body, body.size());
    uint64_t length = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (error != std::errc() || end != text.data() + text.size() || length > body.size())
      return base::invalid("Inference-Header-Content-Length takes a number of bytes within the body");
    if (length == 0) return read_whole(body, read_raw_infer);
    return read_json(body, size_t(length));
  }
  Status read_json(const base::Bytes& body, size_t length) {
    if (length <= kLongRequest)
      return read_infer(body, length, state_.slabs, call(), options, &state_.templates.of(&spec()).request);
    aside_ = true;
    return read_on_worker(length, [body, length, slabs = &state_.slabs](msg::Call& call, InferOptions& options) {
      return read_infer(body, length, *slabs, call, options);
    });
  }
  // The body is one tensor; an element of BYTES is a copy of it.
  Status read_whole(const base::Bytes& body, decltype(read_raw_infer)* read) {
    const msg::TensorSpec* input = marshal::lone_input(spec());
    const bool copies = input && input->dtype == msg::DType::kBytes;
    if (!copies || body.size() <= wire::kLongBody) return read(body, spec(), state_.slabs, call(), options);
    aside_ = true;
    return read_on_worker(body.size(),
                          [body, read, model = &spec(), slabs = &state_.slabs](msg::Call& call, auto& options) {
                            return read(body, *model, *slabs, call, options);
                          });
  }
  void request_read(Status status) override {
    if (status.ok()) status = start();
    if (!status.ok()) respond_error(exchange_, status);
  }

  bool aside_ = false;  // a worker reads it
};

JsonReply write_by_worker(const InferReply& reply, const OutputForms& forms) {
  return write_infer(reply, forms, LargeTensors::kPieces);
}

class RestInfer final : public RestInference, public base::Recycled<RestInfer> {
 public:
  RestInfer(OipState& state, Exchange& exchange) : RestInference(state, exchange, "infer_stream") {}

  void on_drain(Exchange&) override {
    if (answer_) answer_->drained();
  }
  uint64_t held_for_answer() const override { return answer_ ? answer_->held() : 0; }

 private:
  Status check_model() override {
    if (!spec().decoupled || spec().text) return {};
    return base::failure(base::Code::kUnimplemented,
                         "HTTP end point doesn't support models with decoupled transaction policy: ask model '" +
                             spec().name + "' by generate_stream, infer_stream, or ModelStreamInfer over gRPC");
  }
  void answered(const InferReply& reply, const OutputForms& forms, More) override {
    reply_ = write_infer(reply, forms, LargeTensors::kPieces, &state_.templates.of(&spec()).answer);
  }
  // An answer that is JSON alone is written in pieces.
  Writes writes() const override { return Writes::kJsonBesideBinary; }
  WriteAnswer::Write writer() const override { return write_by_worker; }
  void written(WriteAnswer& answer, More) override { reply_ = std::move(answer.written); }
  void ended(const Status& status) override {
    if (!status.ok()) return respond_error(exchange_, status);
    if (!reply_->large.empty()) return respond_large();
    if (reply_->blobs.empty()) return respond_inferred(exchange_, std::move(reply_->json));
    respond_binary();
  }

  void respond_large() {
    answer_.emplace(exchange_);
    Status status = answer_->start("application/json", Exchange::Compress::kIfAccepted,
                                   std::make_unique<LargeAnswer>(*std::move(reply_)));
    reply_.reset();
    if (!status.ok()) respond_error(exchange_, status);
  }

  // The JSON and the blobs behind it, each a piece of its own.
  void respond_binary() {
    wire::Response response;
    response.fields.add("content-type", "application/octet-stream");
    response.fields.add(kHeaderLength, std::to_string(reply_->json.size()));
    std::vector<base::Bytes> pieces{base::Bytes::adopt(std::move(reply_->json))};
    for (auto& blob : reply_->blobs) pieces.push_back(std::move(blob));
    size_t total = 0;
    for (const auto& piece : pieces) total += piece.size();
    auto coding = wire::choose_coding(exchange_.request().fields.find("accept-encoding"));
    if (wire::worth_coding(total)) response.fields.add("vary", "accept-encoding");
    if (wire::worth_coding(total) && coding != wire::Coding::kIdentity) {
      response.fields.add("content-encoding", wire::name(coding));
      pieces = {wire::deflate(coding, pieces)};
      total = pieces.front().size();
    }
    response.fields.add("content-length", std::to_string(total));
    exchange_.head(std::move(response));
    for (auto& piece : pieces)
      if (!piece.empty()) exchange_.body(std::move(piece));
    exchange_.end();
  }

  std::optional<JsonReply> reply_;
  std::optional<wire::PiecewiseAnswer> answer_;
};

// One answer as one event, whatever form the outputs were asked for in.
JsonReply write_event(const InferReply& reply, const OutputForms&) {
  JsonReply event;
  std::string json = write_infer(reply, OutputForms(reply.tensors.size(), OutputForm::kJson)).json;
  wire::append_sse(event.json, json);
  return event;
}

class RestStream final : public RestInference {
 public:
  RestStream(OipState& state, Exchange& exchange) : RestInference(state, exchange, {}) {}

  void on_drain(Exchange&) override { drained(); }

 private:
  Status check_model() override {
    limit_answers();
    return {};
  }
  void answered(const InferReply& reply, const OutputForms&, More more) override {
    if (more == More::kNo && reply.tensors.empty() && reply.parameters.empty() && !options.empty_final) return;
    send(write_event(reply, {}).json);
  }
  Writes writes() const override { return Writes::kJson; }
  WriteAnswer::Write writer() const override { return write_event; }
  void written(WriteAnswer& answer, More more) override {
    if (more == More::kNo && answer.empty() && !options.empty_final) return;
    send(std::move(answer.written.json));
  }
  void ended(const Status& status) override {
    if (!status.ok() && !exchange_.responding()) return respond_error(exchange_, status);
    exchange_.record().set_outcome(status);
    if (!status.ok()) {
      std::string error = "{\"error\":";
      marshal::write_string(error, status.text);
      std::string event;
      wire::append_sse(event, error + "}");
      open();
      exchange_.body(base::Bytes::adopt(std::move(event)));
    }
    open();
    exchange_.end();
  }
  void open() {
    if (exchange_.responding()) return;
    exchange_.head(wire::stream_head());
  }
  void send(std::string event) {
    open();
    exchange_.body(base::Bytes::adopt(std::move(event)));
  }
};

template <class T>
void serve(OipState& state, Exchange& exchange, const wire::PathArgs& args) {
  auto reader = std::make_unique<T>(state, exchange);
  T& request = *reader;
  exchange.attach(std::move(reader));
  request.begin(args);
}

}  // namespace

void infer(OipState& state, Exchange& exchange, const wire::PathArgs& args) {
  if (!left_as_job(state, exchange)) serve<RestInfer>(state, exchange, args);
}

void infer_stream(OipState& state, Exchange& exchange, const wire::PathArgs& args) {
  serve<RestStream>(state, exchange, args);
}

}  // namespace weir::oip
