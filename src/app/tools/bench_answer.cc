#include "app/tools/bench_answer.h"

#include <algorithm>

#include "app/remote.h"
#include "app/tools/sse_reader.h"
#include "base/encoding.h"
#include "marshal/pb_wire.h"

namespace weir::app {
namespace {

constexpr size_t kLongestError = 300;

std::string one_line(const std::string& text) { return printable(text.substr(0, kLongestError)); }

// Any answer with a status of HTTP: GraphPipe's and the Open Inference Protocol's.
class HttpAnswer : public BenchAnswer {
 public:
  void begin() override { status_ = 0, kept_.clear(); }
  void head(int status, const wire::Fields&) override { status_ = status; }
  uint32_t body(std::string_view piece) override {
    if (status_ >= 300 && kept_.size() < kMostKept) kept_ += piece;
    return 0;
  }
  std::string end(const wire::Fields&) override {
    if (status_ >= 200 && status_ < 300) return {};
    net::Client::Reply reply;
    reply.status = std::max(status_, 400);
    reply.body = kept_;
    return std::to_string(status_) + " " + complaint(reply).substr(0, kLongestError);
  }

 protected:
  int status_ = 0;
  std::string kept_;
};

// GraphPipe's errors are flatbuffers: their message is the longest text in them.
class GraphPipeAnswer final : public HttpAnswer {
 public:
  std::string end(const wire::Fields& trailers) override {
    const std::string wrong = HttpAnswer::end(trailers);
    std::string_view longest, rest = kept_;
    while (!wrong.empty() && !rest.empty()) {
      const auto stop = std::find_if(rest.begin(), rest.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; });
      const auto text = rest.substr(0, size_t(stop - rest.begin()));
      if (text.size() > longest.size()) longest = text;
      rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    }
    constexpr size_t kAWord = 8;
    return longest.size() < kAWord ? wrong : std::to_string(status_) + " " + one_line(std::string(longest));
  }
};

// Chat completions as Server-Sent Events: each with text counts as a token, since weir sends one for each.
class ChatAnswer final : public HttpAnswer {
 public:
  void begin() override {
    HttpAnswer::begin();
    events_ = {}, done_ = false, wrong_.clear();
  }
  uint32_t body(std::string_view piece) override {
    if (status_ >= 300) return HttpAnswer::body(piece);
    uint32_t tokens = 0;
    const bool bounded = events_.feed(piece, [&](std::string_view data) {
      if (data == "[DONE]") return void(done_ = true);
      if (data.starts_with("{\"error\"")) wrong_ = one_line(std::string(data));
      constexpr std::string_view kText = "\"content\":\"";
      const size_t at = data.find(kText);
      tokens += at != data.npos && data.substr(at + kText.size(), 1) != "\"";
    });
    if (!bounded) wrong_ = "a line without an end";
    return tokens;
  }
  std::string end(const wire::Fields& trailers) override {
    if (auto wrong = HttpAnswer::end(trailers); !wrong.empty()) return wrong;
    return !wrong_.empty() ? wrong_ : done_ ? "" : "the stream ended without [DONE]";
  }

 private:
  SseReader events_;
  bool done_ = false;
  std::string wrong_;
};

std::string decoded(std::string_view percent_encoded) {
  std::string out;
  for (size_t i = 0; i < percent_encoded.size(); ++i) {
    const std::string digits(percent_encoded.substr(i + 1, 2));
    char* end = nullptr;
    const long value = std::strtol(digits.c_str(), &end, 16);
    if (percent_encoded[i] == '%' && digits.size() == 2 && *end == '\0')
      out += char(value), i += 2;
    else
      out += percent_encoded[i];
  }
  return out;
}

// gRPC: the status is in the trailers, or in the head of an answer without a message.
class GrpcAnswer : public BenchAnswer {
 public:
  void begin() override { http_ = 0, status_.clear(), message_.clear(), bytes_ = 0; }
  void head(int status, const wire::Fields& fields) override {
    http_ = status;
    look(fields);
  }
  uint32_t body(std::string_view piece) override {
    bytes_ += piece.size();
    return 0;
  }
  std::string end(const wire::Fields& trailers) override {
    look(trailers);
    if (status_ == "0") return bytes_ >= 5 ? std::string() : "no message came with the status OK";
    if (status_.empty()) return "no grpc-status; HTTP status " + std::to_string(http_);
    const int code = std::atoi(status_.c_str());
    const std::string name = code >= 0 && code <= 16 ? std::string(base::name(base::Code(code))) : one_line(status_);
    return name + ": " + one_line(message_);
  }

 private:
  void look(const wire::Fields& fields) {
    if (!fields.has("grpc-status")) return;
    status_ = fields.find("grpc-status");
    message_ = decoded(fields.find("grpc-message").substr(0, 4 * kLongestError));
  }

  int http_ = 0;
  std::string status_, message_;
  uint64_t bytes_ = 0;
};

// GRPS says in its message (Status, field 1: code, msg, status) what gRPC's status does not.
class GrpsAnswer final : public GrpcAnswer {
 public:
  void begin() override {
    GrpcAnswer::begin();
    kept_.clear();
  }
  uint32_t body(std::string_view piece) override {
    if (kept_.size() < kMostKept) kept_ += piece;
    return GrpcAnswer::body(piece);
  }
  std::string end(const wire::Fields& trailers) override {
    if (auto wrong = GrpcAnswer::end(trailers); !wrong.empty()) return wrong;
    constexpr size_t kPrefix = 5;
    marshal::PbReader message(std::string_view(kept_).substr(std::min(kPrefix, kept_.size())));
    if (!message.next() || !message.is(1, marshal::PbType::kBytes)) return {};
    std::string text;
    uint64_t flag = 1;
    for (marshal::PbReader status(message.bytes()); status.next();) {
      if (status.is(2, marshal::PbType::kBytes)) text = status.bytes();
      if (status.is(3, marshal::PbType::kVarint)) flag = status.number();
    }
    constexpr uint64_t kFailure = 2;
    return flag == kFailure ? "FAILURE: " + one_line(text) : std::string();
  }

 private:
  std::string kept_;
};

}  // namespace

std::unique_ptr<BenchAnswer> make_bench_answer(BenchProtocol protocol) {
  switch (protocol) {
    case BenchProtocol::kOpenAi: return std::make_unique<ChatAnswer>();
    case BenchProtocol::kOipGrpc: return std::make_unique<GrpcAnswer>();
    case BenchProtocol::kGrps: return std::make_unique<GrpsAnswer>();
    case BenchProtocol::kGraphPipe: return std::make_unique<GraphPipeAnswer>();
    case BenchProtocol::kOipRest: break;
  }
  return std::make_unique<HttpAnswer>();
}

}  // namespace weir::app
