// Remote calls as plain JSON, so that everything can be curled.
//
//   one response       200 and one JSON object; an error is its HTTP status and {"code":5,"message":"…"}
//   response streams   NDJSON lines, or SSE events where `accept` names text/event-stream; an error after the first
//                      message is a last line {"error":{"code":…,"message":"…"}}
//   request streams    NDJSON lines; they are handed on once the body is complete
//
// "details" is there when the status has any.
#include <algorithm>

#include "wire/coding.h"
#include "wire/grpc_status.h"
#include "wire/limits.h"
#include "wire/rpc_call.h"
#include "wire/sse.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

using base::Code;

constexpr std::string_view kJson = "application/json", kNdjson = "application/x-ndjson";
constexpr int kTooLarge = 413;

class JsonCall final : public RpcCall {
 public:
  JsonCall(const RpcRoute& route, const RpcHouse& house, Exchange& exchange) : RpcCall(route, house, exchange) {}

  using Rpc::send;
  void send(std::vector<base::Bytes> pieces) override;
  void on_data(Exchange&, std::span<const std::byte> bytes) override;
  void on_end(Exchange&) override;

 private:
  base::Status check_head() override;
  void write_end(const base::Status& status) override;
  void resume() override { feed_lines(); }
  void drop_request() override { text_ = {}, at_ = 0, ended_ = false; }

  base::Status inflate();
  void feed_one(std::string_view json);
  void feed_lines();
  void too_large();
  void open_stream();
  void write_line(std::string_view json);
  void respond_error(const base::Status& status);
  std::string error_object(const base::Status& status);
  void copy_metadata(Response& response);

  std::string text_;    // the request, as far as it is there
  size_t at_ = 0;       // where the next line begins
  bool ended_ = false;  // text_ is whole, and lines of it wait
  bool sse_ = false, large_ = false;
  Coding coding_ = Coding::kIdentity;
  std::string answer_;  // of one-response methods
};

base::Status JsonCall::check_head() {
  std::string_view coding = metadata().find("content-encoding");
  auto known = coding_of(coding);
  if (!known) return base::failure(Code::kInvalidArgument, "content-encoding '" + std::string(coding) + "' is unknown");
  coding_ = *known;
  sse_ = metadata().find("accept").find("text/event-stream") != std::string_view::npos;
  if (exchange_.request().content_length > int64_t(house_.options.max_message)) large_ = true;
  return large_ ? base::failure(Code::kResourceExhausted, "the body is over the limit of " +
                                                              std::to_string(house_.options.max_message) + " bytes")
                : base::Status{};
}

void JsonCall::on_data(Exchange&, std::span<const std::byte> bytes) {
  exchange_.consume(bytes.size());  // what is kept is bounded by max_message, not by the window
  if (finished()) return;
  if (text_.size() + bytes.size() > house_.options.max_message) return too_large();
  text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  came(bytes.size(), Owes::kRest);
}

void JsonCall::too_large() {
  large_ = true;
  exchange_.ledger().reject = reason::kBodyBytes;
  break_off(base::failure(Code::kResourceExhausted,
                          "the body is over the limit of " + std::to_string(house_.options.max_message) + " bytes"));
}

base::Status JsonCall::inflate() {
  if (coding_ == Coding::kIdentity) return {};
  base::Bytes plain;
  InflateLimits limits{house_.options.max_message, house_.options.inflate_ratio};
  std::span<const std::byte> coded(reinterpret_cast<const std::byte*>(text_.data()), text_.size());
  switch (inflate_whole(coding_, coded, limits, base::heap(), &plain)) {
    case Inflate::kDone: text_.assign(plain.view()); return {};
    case Inflate::kTooBig: large_ = true; return base::failure(Code::kResourceExhausted, "the body inflates too far");
    default: return base::failure(Code::kInvalidArgument, "the body is not what its content-encoding says");
  }
}

void JsonCall::on_end(Exchange&) {
  if (finished()) return;
  came(0, Owes::kNothing);
  if (base::Status status = inflate(); !status.ok()) {
    exchange_.ledger().reject = reason::kInflateBytes;
    return break_off(status);
  }
  if (!one_request()) {
    ended_ = true;
    return feed_lines();
  }
  std::string text = std::move(text_);
  // An empty body is an empty message: curl -X POST needs no -d '{}'.
  feed_one(trim(text).empty() ? "{}" : std::string_view(text));
  half_close();
}

void JsonCall::feed_one(std::string_view json) {
  auto binary = house_.json->to_binary(route_.request_type, json);
  if (binary.has_error()) {
    exchange_.ledger().reject = reason::kParse;
    return break_off(binary.error());
  }
  deliver(base::Bytes::adopt(std::move(*binary)));
}

void JsonCall::feed_lines() {
  while (ended_ && !finished() && !congested() && at_ < text_.size()) {
    size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string line = text_.substr(at_, end - at_);  // delivering may drop text_
    at_ = end + 1;
    if (line.find_first_not_of(" \t\r") != line.npos) feed_one(line);
  }
  if (!ended_ || finished() || at_ < text_.size()) return;
  ended_ = false;
  half_close();
}

void JsonCall::copy_metadata(Response& response) {
  for (size_t i = 0; i < initial_.size(); ++i) response.fields.add(initial_[i].name, initial_[i].value);
}

void JsonCall::open_stream() {
  if (exchange_.responding()) return;
  Response response;
  response.fields.add("content-type", sse_ ? kSseType : kNdjson);
  response.fields.add("cache-control", "no-cache");
  copy_metadata(response);
  exchange_.head(std::move(response));
}

void JsonCall::write_line(std::string_view json) {
  std::string out;
  if (sse_)
    append_sse(out, json);
  else
    out.append(json).append("\n");
  exchange_.body(base::Bytes::adopt(std::move(out)));
}

void JsonCall::send(std::vector<base::Bytes> pieces) {
  if (finished()) return;
  std::string joined;
  std::string_view binary;
  if (pieces.size() == 1) {
    binary = pieces[0].view();
  } else {
    for (const auto& p : pieces) joined += p.view();
    binary = joined;
  }
  auto json = house_.json->to_json(route_.response_type, binary);
  if (json.has_error())
    return break_off(base::failure(Code::kInternal, "the answer has no JSON form: " + json.error().text));
  if (one_response()) {
    answer_ = std::move(*json);
    return;
  }
  open_stream();
  write_line(*json);
}

// {"code":…,"message":"…","details":[…]}: google.rpc.Status in JSON.
std::string JsonCall::error_object(const base::Status& status) {
  if (!status.details.empty()) {
    auto whole = house_.json->to_json("google.rpc.Status", status.details);
    if (whole.has_value()) return std::move(*whole);
  }
  std::string out = "{\"code\":" + std::to_string(int(status.code)) + ",\"message\":\"";
  append_json_text(out, status.text);
  return out += "\"}";
}

void JsonCall::respond_error(const base::Status& status) {
  Response response;
  response.status = large_ ? kTooLarge : base::http_status(status.code);
  response.fields.add("content-type", kJson);
  copy_metadata(response);
  bool again = response.status == 429 || response.status == 503;
  if (again && !response.fields.has("retry-after")) response.fields.add("retry-after", "1");
  exchange_.respond(std::move(response), base::Bytes::adopt(error_object(status)));
}

void JsonCall::write_end(const base::Status& status) {
  if (exchange_.responding()) {
    if (!status.ok()) write_line("{\"error\":" + error_object(status) + "}");
    return exchange_.end();
  }
  if (!status.ok()) return respond_error(status);
  if (!one_response()) {
    open_stream();
    return exchange_.end();
  }
  if (answer_.empty()) return respond_error(base::failure(Code::kInternal, "the method gave no answer"));
  Response response;
  response.fields.add("content-type", kJson);
  copy_metadata(response);
  exchange_.respond(std::move(response), base::Bytes::adopt(std::move(answer_)));
}

}  // namespace

std::unique_ptr<RpcCall> make_json_call(const RpcRoute& route, const RpcHouse& house, Exchange& exchange) {
  return std::make_unique<JsonCall>(route, house, exchange);
}

}  // namespace weir::wire
