// The Connect protocol (connectrpc.com/docs/protocol), version 1:
//
//   unary    POST application/proto, or application/json with `connect-protocol-version: 1`; the body is the message.
//            GET ?connect=v1&encoding=json&message=… of methods that only read. Trailing metadata is in the head, as
//            `trailer-<name>`. An error has its HTTP status and {"code":"not_found","message":"…","details":[…]}
//   streams  POST application/connect+proto or +json; messages are framed as gRPC's. The answer is always 200, and its
//            last frame has the flag 2 and {"error":{…},"metadata":{"name":["value"]}}
//
// JSON without the version's field is answered in this server's own form (rpc_json.cc), which curl users know.
#include <algorithm>
#include <array>

#include "base/base64url.h"
#include "base/encoding.h"
#include "wire/answer_flow.h"
#include "wire/grpc_timeout.h"
#include "wire/limits.h"
#include "wire/rpc_json_call.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

using base::Code;

constexpr std::string_view kVersionField = "connect-protocol-version", kVersion = "1";
constexpr std::string_view kCodings = "gzip, deflate, identity";

std::string code_name(Code code) {
  return code == Code::kCancelled ? "canceled" : lowered(base::name(code));  // Connect's one other spelling
}

// Reads the fields of type LEN of a protobuf message, which this server has written.
class LengthFields {
 public:
  explicit LengthFields(std::string_view message) : rest_(message) {}
  // The next one; false at the end, and where the message is broken.
  bool next(uint64_t* number, std::string_view* value) {
    uint64_t tag = 0, n = 0;
    while (varint(&tag) && varint(&n)) {
      if ((tag & 7) == 0) continue;  // a number, which is read
      if ((tag & 7) != 2 || n > rest_.size()) return false;
      *number = tag >> 3;
      *value = rest_.substr(0, n);
      rest_.remove_prefix(n);
      return true;
    }
    return false;
  }

 private:
  bool varint(uint64_t* value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = uint8_t(rest_.front());
      rest_.remove_prefix(1);
      *value |= uint64_t(byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }

  std::string_view rest_;
};

// google.rpc.Status{details=3: Any{type_url=1, value=2}}
void append_details(std::string& out, std::string_view status) {
  LengthFields fields(status);
  uint64_t number = 0;
  std::string_view any;
  bool first = true;
  while (fields.next(&number, &any)) {
    if (number != 3) continue;
    std::string_view url, value, field;
    for (LengthFields inner(any); inner.next(&number, &field);) (number == 1 ? url : value) = field;
    out += std::exchange(first, false) ? ",\"details\":[" : ",";
    out += "{\"type\":\"";
    append_json_text(out, url.substr(url.rfind('/') + 1));
    out += "\",\"value\":\"" + base::base64_encode(value, base::Padding::kNone) + "\"}";
  }
  if (!first) out += "]";
}

std::string error_object(const base::Status& status) {
  std::string out = "{\"code\":\"" + code_name(status.code) + "\"";
  if (!status.text.empty()) {
    out += ",\"message\":\"";
    append_json_text(out, status.text);
    out += "\"";
  }
  append_details(out, status.details);
  return out += "}";
}

base::Status check_version(std::string_view version, std::string_view where) {
  if (!version.data() || version == kVersion) return {};
  return base::failure(Code::kInvalidArgument, std::string(where) + " must be '" + std::string(kVersion) + "', not '" +
                                                   std::string(version.substr(0, 32)) + "'");
}

class ConnectUnary final : public JsonCall {
 public:
  ConnectUnary(const RpcRoute& route, const RpcState& state, Exchange& exchange, ConnectCodec codec)
      : JsonCall(route, state, exchange), codec_(codec) {}

  using Rpc::send;
  void send(std::vector<base::Bytes> pieces) override;
  // The message of a GET, which has no body.
  void receive(base::Bytes message);

 private:
  TimeoutField timeout_field() const override {
    return {"connect-timeout-ms", parse_connect_timeout, Code::kInvalidArgument};
  }
  base::Status check_head() override;
  // A JSON text that is empty counts as {}; a protobuf message is what it is.
  void read_message(std::string_view text, base::Bytes place) override {
    if (codec_ == ConnectCodec::kProto) return deliver(std::move(place));
    JsonCall::read_message(text, std::move(place));
  }
  void write_end(const base::Status& status) override;
  void write_answer(base::Bytes answer) override;
  void write_error(const base::Status& status) override;
  void write_message();
  void add_trailing(Response& response) const;

  const ConnectCodec codec_;
  bool answered_ = false;
  std::vector<base::Bytes> answer_;  // of protobuf
};

base::Status ConnectUnary::check_head() {
  if (auto status = check_version(metadata().find(kVersionField), kVersionField); !status.ok()) return status;
  const std::string_view coding = metadata().find("content-encoding");
  if (coding_of(coding)) return JsonCall::check_head();
  return base::failure(Code::kUnimplemented, "content-encoding '" + std::string(coding) +
                                                 "' is not supported; supported: " + std::string(kCodings));
}

void ConnectUnary::receive(base::Bytes message) {
  const std::string_view text = message.view();
  read_message(text, std::move(message));
  half_close();
}

void ConnectUnary::send(std::vector<base::Bytes> pieces) {
  if (codec_ == ConnectCodec::kJson) return JsonCall::send(std::move(pieces));
  if (finished()) return;
  for (auto& piece : pieces) {
    if (piece.size() < base::kLeastCharged) continue;
    if (base::charge(exchange_.memory(), base::MemoryKind::kAnswers, piece)) continue;
    exchange_.record().reject = reason::kOverload;
    return break_off(base::overloaded("there is no memory for the answer; try again later"));
  }
  answered_ = true;
  answer_ = std::move(pieces);
}

void ConnectUnary::write_end(const base::Status& status) {
  if (codec_ == ConnectCodec::kJson) return JsonCall::write_end(status);
  if (!status.ok()) return write_error(status);
  if (!answered_) return write_error(base::failure(Code::kInternal, "the method gave no answer"));
  write_message();
}

void ConnectUnary::add_trailing(Response& response) const {
  for (size_t i = 0; i < trailing_.size(); ++i)
    response.fields.add("trailer-" + std::string(trailing_[i].name), trailing_[i].value);
}

void ConnectUnary::write_message() {
  size_t size = 0;
  for (const auto& piece : answer_) size += piece.size();
  Response response;
  response.fields.add("content-type", "application/proto");
  response.fields.add("content-length", std::to_string(size));
  add_initial(response);
  add_trailing(response);
  exchange_.head(std::move(response));
  for (auto& piece : answer_) exchange_.body(std::move(piece));
  exchange_.end();
}

void ConnectUnary::write_answer(base::Bytes answer) {
  if (answer.empty()) return write_error(base::failure(Code::kInternal, "the method gave no answer"));
  Response response;
  response.fields.add("content-type", "application/json");
  add_initial(response);
  add_trailing(response);
  exchange_.respond(std::move(response), std::move(answer));
}

void ConnectUnary::write_error(const base::Status& status) {
  Response response = error_head(status);
  add_trailing(response);
  exchange_.respond(std::move(response), base::Bytes::adopt(error_object(status)));
}

class ConnectStream final : public TranscodedCall<FramedCall> {
 public:
  ConnectStream(const RpcRoute& route, const RpcState& state, Exchange& exchange, ConnectCodec codec)
      : TranscodedCall(route, state, exchange), codec_(codec) {}

  using Rpc::send;
  void send(std::vector<base::Bytes> pieces) override {
    if (codec_ == ConnectCodec::kProto) return FramedCall::send(std::move(pieces));
    if (!finished()) transcoder_.write(std::move(pieces), Framing::kBare);
  }

 private:
  TimeoutField timeout_field() const override {
    return {"connect-timeout-ms", parse_connect_timeout, Code::kInvalidArgument};
  }
  CodingFields coding_fields() const override { return {"connect-content-encoding", "connect-accept-encoding"}; }
  base::Status check_head() override {
    auto status = check_version(metadata().find(kVersionField), kVersionField);
    return status.ok() ? FramedCall::check_head() : status;
  }
  std::string_view content_type() const override {
    return codec_ == ConnectCodec::kJson ? "application/connect+json" : "application/connect+proto";
  }
  void write_frame(GrpcFlag flag, std::span<base::Bytes> pieces) override { write_pieces(exchange_, flag, pieces); }

  void read_message(base::Bytes message) override {
    if (codec_ == ConnectCodec::kProto) return deliver(std::move(message));
    turns_.spend(kWorkPerMessage);
    const std::string_view text = message.view();
    transcoder_.read(text, std::move(message));
  }
  bool reading() const override { return transcoder_.reading(); }
  void resume() override;
  void drop_request() override {
    transcoder_.drop_reading();
    FramedCall::drop_request();
  }

  // JsonTranscoder::Owner
  void message_refused(const base::Status& why, std::string_view reject, Size) override {
    if (!reject.empty()) exchange_.record().reject = reject;
    break_off(why);
  }
  base::Status put_answer(std::string text) override {
    std::vector<base::Bytes> one;
    one.push_back(base::Bytes::adopt(std::move(text)));
    return send_message(one);
  }
  void put_status(const base::Status& status) override;

  const ConnectCodec codec_;
};

void ConnectStream::resume() {
  const bool waited = transcoder_.waiting();
  transcoder_.write_on();
  if (!finished() && waited && transcoder_.all_taken()) return on_drain(exchange_);  // which resumes
  FramedCall::resume();
}

void ConnectStream::put_status(const base::Status& status) {
  send_head();
  std::string end = "{";
  if (!status.ok()) end += "\"error\":" + error_object(status);
  Fields metadata;
  for (size_t i = 0; i < trailing_.size(); ++i) metadata.add(trailing_[i].name, trailing_[i].value);
  add_request_id(exchange_, metadata, status, exchange_.extra_fields());
  for (size_t i = 0; i < metadata.size(); ++i) {
    end += i > 0 ? "," : end.size() > 1 ? ",\"metadata\":{" : "\"metadata\":{";
    end += "\"" + std::string(metadata[i].name) + "\":[\"";
    append_json_text(end, metadata[i].value);
    end += "\"]";
  }
  end += metadata.size() > 0 ? "}}" : "}";
  base::Bytes piece = base::Bytes::adopt(std::move(end));
  write_frame(GrpcFlag::kConnectEnd, {&piece, 1});
  exchange_.end();
}

// The query of a GET.
struct Query {
  ConnectCodec codec = ConnectCodec::kJson;
  base::Bytes message;
};

base::Result<base::Bytes> message_of(const Request& request, const RpcState& state) {
  std::string text = request.query_value("message");
  if (request.query_value("base64") == "1") {
    auto bytes = base::base64url_decode(text, base::Base64Url::kLenient);
    if (!bytes) return base::failure(Code::kInvalidArgument, "the query's message is not base64");
    text = *std::move(bytes);
  }
  const std::string coding = request.query_value("compression");
  auto known = coding_of(coding);
  if (!known)
    return base::failure(Code::kUnimplemented,
                         "compression '" + coding + "' is not supported; supported: " + std::string(kCodings));
  if (*known == Coding::kIdentity || text.empty()) return base::Bytes::adopt(std::move(text));
  // No more than is read where it came in.
  base::Bytes plain;
  const InflateLimits limits{std::min<uint64_t>(kLongText, state.options.max_message), state.options.inflate_ratio};
  switch (inflate_whole(*known, std::as_bytes(std::span(text)), limits, base::heap(), &plain)) {
    case Inflate::kDone: return plain;
    case Inflate::kTooBig:
    case Inflate::kOverRatio:
      return base::failure(Code::kResourceExhausted, "the query's message inflates past " +
                                                         std::to_string(limits.bytes) + " bytes; send it by POST");
    default: return base::failure(Code::kInvalidArgument, "the query's message is not in its compression");
  }
}

base::Status read_query(const Request& request, const RpcState& state, Query* query) {
  const std::string version = request.query_value("connect"), encoding = request.query_value("encoding");
  if (version != "v1")
    return base::failure(Code::kInvalidArgument, "a GET of a method needs connect=v1 in its query, or use POST");
  if (encoding != "proto" && (encoding != "json" || !state.json))
    return base::failure(Code::kInvalidArgument, "encoding in the query must be proto" +
                                                     std::string(state.json ? " or json" : "") + ", not '" +
                                                     encoding.substr(0, 32) + "'");
  if (!request.query().starts_with("message=") && request.query().find("&message=") == std::string_view::npos)
    return base::failure(Code::kInvalidArgument, "the query has no message");
  query->codec = encoding == "json" ? ConnectCodec::kJson : ConnectCodec::kProto;
  auto message = message_of(request, state);
  if (!message) return message.error();
  query->message = *std::move(message);
  return {};
}

}  // namespace

std::unique_ptr<RpcCall> make_connect_unary(const RpcRoute& route, const RpcState& state, Exchange& exchange,
                                            ConnectCodec codec) {
  return std::make_unique<ConnectUnary>(route, state, exchange, codec);
}

std::unique_ptr<RpcCall> make_connect_stream(const RpcRoute& route, const RpcState& state, Exchange& exchange,
                                             ConnectCodec codec) {
  return std::make_unique<ConnectStream>(route, state, exchange, codec);
}

void serve_connect_get(const RpcRoute& route, const RpcState& state, Exchange& exchange) {
  Query query;
  const base::Status status = read_query(exchange.request(), state, &query);
  auto call = std::make_unique<ConnectUnary>(route, state, exchange, query.codec);
  ConnectUnary& begun = *call;
  exchange.attach(std::move(call));
  if (!status.ok()) return begun.finish(status);
  begun.begin();
  if (!exchange.responding()) begun.receive(std::move(query.message));
}

void refuse_connect_get(const RpcRoute& route, const RpcState& state, Exchange& exchange, const base::Status& why) {
  auto call = std::make_unique<ConnectUnary>(route, state, exchange, ConnectCodec::kJson);
  ConnectUnary& refused = *call;
  exchange.attach(std::move(call));
  refused.finish(why);
}

}  // namespace weir::wire
