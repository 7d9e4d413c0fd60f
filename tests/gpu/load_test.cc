// The load client's reading of answers: its counts are the figures.
#include <gtest/gtest.h>

#include <string>

#include "../../bench/gpu/work.h"

namespace weir::load {
namespace {

RequestSpec spec_of(RequestSpec::Kind kind, uint32_t tokens) {
  RequestSpec w;
  w.kind = kind, w.model = "m", w.prompt = 2, w.tokens = tokens, w.vocabulary = 10;
  return w;
}

// The tokens of an answer that comes in pieces of `size` bytes.
Reply reply_to(const RequestSpec& w, const std::string& all, size_t size) {
  Reply reply;
  for (size_t at = 0; at < all.size(); at += size) reply.take(w, std::string_view(all).substr(at, size));
  return reply;
}

std::string event(const char* text) {
  return std::string("data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"text\":\"") + text + "\"}]}\n\n";
}
std::string message(const std::string& inside) { return std::string("\0\0\0\0", 4) + char(inside.size()) + inside; }

TEST(Load, EventsAreTokensHoweverTheyAreCut) {
  auto w = spec_of(RequestSpec::Kind::kSse, 3);
  std::string all = event("a") + ": a comment\n\n" + event("b") + event("c") + event("") + "data: [DONE]\n\n";
  for (size_t size = 1; size <= all.size(); ++size) {
    Reply reply = reply_to(w, all, size);
    EXPECT_EQ(reply.tokens(), 3u) << size;  // the last event is the end, not a token
    EXPECT_FALSE(reply.refused());
    EXPECT_EQ(reply.bytes(), all.size());
  }
}

TEST(Load, EventsThatAreMissingAreNotMadeUp) {
  EXPECT_EQ(reply_to(spec_of(RequestSpec::Kind::kSse, 9), event("a") + event("") + "data: [DONE]\n\n", 5).tokens(), 2u);
}

TEST(Load, AnErrorInAStreamOfEventsIsARefusal) {
  auto w = spec_of(RequestSpec::Kind::kSse, 3);
  EXPECT_TRUE(reply_to(w, event("a") + "data: {\"error\":{\"message\":\"no\"}}\n\n", 4).refused());
}

TEST(Load, MessagesAreTokensHoweverTheyAreCut) {
  auto w = spec_of(RequestSpec::Kind::kGrpc, 2);
  std::string all = message("\x12\x02xx") + message("\x12\x01y") + message("\x12\x00");
  for (size_t size = 1; size <= all.size(); ++size) {
    EXPECT_EQ(reply_to(w, all, size).tokens(), 2u) << size;
    EXPECT_FALSE(reply_to(w, all, size).refused());
  }
}

TEST(Load, AMessageWithAnErrorIsARefusal) {
  EXPECT_TRUE(
      reply_to(spec_of(RequestSpec::Kind::kGrpc, 2), message("\x12\x02xx") + message("\x0a\x02no"), 3).refused());
}

TEST(Load, NoTwoPromptsAreTheSame) {
  for (auto kind : {RequestSpec::Kind::kSse, RequestSpec::Kind::kGrpc, RequestSpec::Kind::kEncode}) {
    auto w = spec_of(kind, 1);
    w.prompt = 64, w.vocabulary = 1000;
    Work work(w, 1);
    EXPECT_NE(work.next().head, work.next().head);
  }
}

TEST(Load, TensorsShareOneBodyAsLongAsTheirHeadSays) {
  auto w = spec_of(RequestSpec::Kind::kTensors, 0);
  w.rows = 4, w.row_bytes = 32;
  Work work(w, 1);
  Request one = work.next(), other = work.next();
  EXPECT_EQ(one.body.data(), other.body.data());
  EXPECT_EQ(one.body.size(), 4 * 32 + 4 * sizeof(float));
  size_t json = one.head.size() - one.head.find("\r\n\r\n") - 4;
  EXPECT_NE(one.head.find("inference-header-content-length: " + std::to_string(json) + "\r\n"), std::string::npos);
  EXPECT_NE(one.head.find("\ncontent-length: " + std::to_string(json + one.body.size()) + "\r\n"), std::string::npos);
}

TEST(Load, AFileGoesOutAsItIs) {
  RequestSpec spec = spec_of(RequestSpec::Kind::kPost, 0);
  spec.path = "/v2/models/m/infer", spec.body = "{\"inputs\":[]}";
  Work work(spec, 1);
  const Request request = work.next();
  EXPECT_TRUE(request.head.starts_with("POST /v2/models/m/infer HTTP/1.1\r\n"));
  EXPECT_NE(request.head.find("content-length: 13\r\n"), std::string::npos);
  EXPECT_EQ(request.body, spec.body);
  spec.kind = RequestSpec::Kind::kUnary;
  Work message(spec, 1);
  EXPECT_EQ(message.next().head + std::string(message.next().body), spec.body);
}

}  // namespace
}  // namespace weir::load
