#include "app/tools/bench_answer.h"

#include <algorithm>

#include "app/remote.h"
#include "app/tools/bench_session.h"
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
  void begin(size_t) override { status_ = 0, kept_.clear(); }
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
  void begin(size_t call) override {
    HttpAnswer::begin(call);
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
  void begin(size_t) override { http_ = 0, status_.clear(), message_.clear(), bytes_ = 0; }
  void head(int status, const wire::Fields& fields) override {
    http_ = status;
    read_status(fields);
  }
  uint32_t body(std::string_view piece) override {
    bytes_ += piece.size();
    return 0;
  }
  std::string end(const wire::Fields& trailers) override {
    read_status(trailers);
    if (status_ == "0") return bytes_ >= 5 ? std::string() : "no message came with the status OK";
    if (status_.empty()) return "no grpc-status; HTTP status " + std::to_string(http_);
    const int code = std::atoi(status_.c_str());
    const std::string name = code >= 0 && code <= 16 ? std::string(base::name(base::Code(code))) : one_line(status_);
    return name + ": " + one_line(message_);
  }

 private:
  void read_status(const wire::Fields& fields) {
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
  void begin(size_t call) override {
    GrpcAnswer::begin(call);
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

// A stream of messages, of which each is looked at as a whole; those of more than kMostKept bytes are passed over.
class StreamAnswer : public GrpcAnswer {
 public:
  void begin(size_t call) override {
    GrpcAnswer::begin(call);
    head_.clear(), message_.clear(), left_ = 0, wrong_.clear();
  }
  uint32_t body(std::string_view piece) override {
    GrpcAnswer::body(piece);
    uint32_t tokens = 0;
    while (!piece.empty()) {
      if (head_.size() < kPrefix) {
        const size_t n = std::min(kPrefix - head_.size(), piece.size());
        head_ += piece.substr(0, n);
        piece.remove_prefix(n);
        if (head_.size() < kPrefix) break;
        left_ = 0;
        for (size_t i = 1; i < kPrefix; ++i) left_ = left_ << 8 | uint8_t(head_[i]);
        skipped_ = left_ > kMostKept;
      }
      const size_t n = std::min(left_, piece.size());
      if (!skipped_) message_ += piece.substr(0, n);
      piece.remove_prefix(n);
      left_ -= n;
      if (left_ > 0) break;
      if (!skipped_) tokens += message(message_);
      head_.clear(), message_.clear();
    }
    return tokens;
  }
  std::string end(const wire::Fields& trailers) override {
    if (auto wrong = GrpcAnswer::end(trailers); !wrong.empty()) return wrong;
    return wrong_;
  }

 protected:
  // Returns how many tokens it brings.
  virtual uint32_t message(std::string_view message) = 0;
  std::string wrong_;  // that a message has said

 private:
  static constexpr size_t kPrefix = 5;
  std::string head_, message_;
  size_t left_ = 0;
  bool skipped_ = false;
};

// inference.ModelStreamInferResponse: error_message is 1, infer_response 2; of that raw_output_contents is 6. A piece
// of a text comes as a tensor with one element, behind its length in four bytes.
class OipStreamAnswer final : public StreamAnswer {
 private:
  uint32_t message(std::string_view message) override {
    uint32_t tokens = 0;
    for (marshal::PbReader r(message); r.next();) {
      if (r.is(1, marshal::PbType::kBytes)) wrong_ = one_line(std::string(r.bytes()));
      if (r.is(2, marshal::PbType::kBytes)) tokens += brings_text(r.bytes());
    }
    return tokens;
  }
  static bool brings_text(std::string_view response) {
    std::string_view raw;
    bool text = false;
    for (marshal::PbReader r(response); r.next();) {
      if (r.is(5, marshal::PbType::kBytes)) {
        marshal::PbReader output(r.bytes());
        text = output.next() && output.is(1, marshal::PbType::kBytes) && output.bytes() == "text_output";
      }
      if (r.is(6, marshal::PbType::kBytes) && raw.empty()) raw = r.bytes();
    }
    constexpr size_t kLength = 4;
    return text && raw.size() > kLength;
  }
};

// evergreen.v2.SessionMessage: node_fragments is 1; of that id is 1 and chunk_fragment 5, with its data in 10.
class EvergreenAnswer final : public StreamAnswer {
 private:
  uint32_t message(std::string_view message) override {
    uint32_t tokens = 0;
    for (marshal::PbReader r(message); r.next();)
      if (r.is(1, marshal::PbType::kBytes)) tokens += brings_text(r.bytes());
    return tokens;
  }
  static bool brings_text(std::string_view fragment) {
    bool ours = false, data = false;
    for (marshal::PbReader r(fragment); r.next();) {
      if (r.is(1, marshal::PbType::kBytes)) ours = r.bytes() == kEvergreenAnswer;
      if (!r.is(5, marshal::PbType::kBytes)) continue;
      for (marshal::PbReader chunk(r.bytes()); chunk.next();)
        data = data || (chunk.is(10, marshal::PbType::kBytes) && !chunk.bytes().empty());
    }
    return ours && data;
  }
};

// Salience: OpenSessionResponse (session_id is 1), GenerateEvents (token is 1, with is_prefill in 3; done is 2),
// CloseSessionResponse.
class SalienceAnswer final : public StreamAnswer {
 public:
  void begin(size_t call) override {
    StreamAnswer::begin(call);
    call_ = call, session_.clear(), done_ = false;
  }
  std::string end(const wire::Fields& trailers) override {
    if (auto wrong = StreamAnswer::end(trailers); !wrong.empty()) return wrong;
    if (call_ == 0 && session_.empty()) return "the session has no id";
    return call_ == 1 && !done_ ? "the stream ended without its end" : "";
  }
  std::string session() const override { return session_; }

 private:
  uint32_t message(std::string_view message) override {
    uint32_t tokens = 0;
    for (marshal::PbReader r(message); r.next();) {
      if (call_ == 0 && r.is(1, marshal::PbType::kBytes)) session_ = r.bytes();
      if (call_ != 1) continue;
      done_ = done_ || r.is(2, marshal::PbType::kBytes);
      if (r.is(1, marshal::PbType::kBytes)) tokens += !is_prefill(r.bytes());
    }
    return tokens;
  }
  static bool is_prefill(std::string_view token) {
    for (marshal::PbReader r(token); r.next();)
      if (r.is(3, marshal::PbType::kVarint)) return r.number() != 0;
    return false;
  }

  size_t call_ = 0;
  std::string session_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<BenchAnswer> make_bench_answer(BenchProtocol protocol) {
  switch (protocol) {
    case BenchProtocol::kOpenAi: return std::make_unique<ChatAnswer>();
    case BenchProtocol::kOipGrpc: return std::make_unique<GrpcAnswer>();
    case BenchProtocol::kOipStream: return std::make_unique<OipStreamAnswer>();
    case BenchProtocol::kSalience: return std::make_unique<SalienceAnswer>();
    case BenchProtocol::kEvergreen: return std::make_unique<EvergreenAnswer>();
    case BenchProtocol::kGrps: return std::make_unique<GrpsAnswer>();
    case BenchProtocol::kGraphPipe: return std::make_unique<GraphPipeAnswer>();
    case BenchProtocol::kOipRest: break;
  }
  return std::make_unique<HttpAnswer>();
}

}  // namespace weir::app
