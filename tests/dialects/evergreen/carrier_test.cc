// The other carriers: lines of JSON, WebSocket.
#include "bench.h"
#include "support/fake_offload.h"
#include "wire/body_memory.h"
#include "wire/offload.h"

namespace weir::evergreen {
namespace {

TEST(Evergreen, LinesOfJsonDoTheSame) {
  Bench t;
  auto x = t.open_http("POST", {});
  EXPECT_TRUE(x->headed);
  std::string lines =
      "{\"actions\":[{\"name\":\"ECHO\",\"inputs\":[{\"name\":\"x\",\"id\":\"in\"}],\"outputs\":[{\"name\":\"x\","
      "\"id\":"
      "\"out\"}]}]}\n\n{\"nodeFragments\":[{\"id\":\"in\",\"continued\":true,\"chunkFragment\":{\"metadata\":{"
      "\"mimetype\":"
      "\"text/plain\"},\"data\":\"aGVsbG8=\"}}]}\r\n";
  for (char c : lines) t.rpc.data(*x, {&c, 1});
  EXPECT_EQ(x->sent,
            "{\"nodeFragments\":[{\"id\":\"out\",\"continued\":true,\"chunkFragment\":{\"metadata\":{\"mimetype\":"
            "\"text/plain\"},\"data\":\"aGVsbG8=\"}}]}\n");
  EXPECT_EQ(x->consumed, lines.size());
  t.rpc.data(*x, "{\"node_fragments\":[{\"id\":\"in\",\"seq\":1}]}");  // no line end
  x->sent.clear();
  t.rpc.end(*x);
  EXPECT_EQ(x->sent, "{\"nodeFragments\":[{\"id\":\"out\",\"seq\":1,\"chunkFragment\":{\"data\":\"\"}}]}\n");
  EXPECT_TRUE(x->ended);
}

TEST(Evergreen, AFailureIsTheLastLine) {
  Bench t;
  auto x = t.open_http("POST", {});
  t.rpc.data(*x, "{\"nodeFragments\":[{\"id\":\"a\",\"seq\":-1}]}\n{}");
  EXPECT_EQ(x->sent,
            "{\"error\":{\"code\":3,\"status\":\"INVALID_ARGUMENT\",\"message\":\"node 'a', fragment -1: a sequence "
            "number must not be negative\"}}\n");
  EXPECT_TRUE(x->ended);
  auto y = t.open_http("POST", {});
  t.rpc.data(*y, "\nnonsense\n");
  EXPECT_NE(y->sent.find("\"message\":\"line 2: "), std::string::npos);
}

TEST(Evergreen, NullInAListIsRefusedWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"nodeFragments":[{"id":"a"},null]})", "node_fragments[1]"},
      {R"({"nodeFragments":[{"id":"a","childIds":["b",null]}]})", "node_fragments[0].child_ids[1]"},
      {R"({"nodeFragments":[null,{"id":"a","chunkFragment":{"metadata":{"captureTime":"2023-11-14T22:13:20Z"}}}]})",
       "node_fragments[0]"},
      {R"({"actions":[{"name":"GENERATE","configs":[{"@type":"type.googleapis.com/weir.evergreen.v1.GenerateConfig",)"
       R"("stop":["a",null]}]}]})",
       "actions[0].configs[0].stop[1]"}};
  for (auto [line, place] : cases) {
    Bench t;
    auto x = t.open_http("POST", {});
    t.rpc.data(*x, std::string(line) + "\n");
    EXPECT_NE(x->sent.find("\"message\":\"line 1: JSON: null is no element of"), std::string::npos) << x->sent;
    EXPECT_NE(x->sent.find(place), std::string::npos) << x->sent;
  }
}

TEST(Evergreen, LinesInACodingAreRefusedAsThat) {
  Bench t;
  for (const char* coding : {"gzip", "zstd"}) {
    auto x = t.open_http("POST", {{"content-encoding", coding}});
    EXPECT_EQ(x->response.status, 415) << coding;
    EXPECT_EQ(x->extra_fields().find("accept-encoding"), "identity");
    EXPECT_TRUE(x->ended);
  }
  EXPECT_EQ(t.open_http("POST", {{"content-encoding", "identity"}})->response.status, 200);
}

TEST(Evergreen, AWebSocketSpeaksJsonOrProtobufAsItsClientDoes) {
  Bench t;
  auto x = t.open_http("GET", kUpgrade);
  EXPECT_EQ(x->response.status, 101);
  std::string json =
      "{\"actions\":[{\"name\":\"ECHO\",\"inputs\":[{\"name\":\"x\",\"id\":\"in\"}],\"outputs\":[{\"name\":"
      "\"x\",\"id\":\"out\"}]}],\"nodeFragments\":[{\"id\":\"in\",\"continued\":true,\"chunkFragment\":{"
      "\"metadata\":{\"mimetype\":\"a/b\"},\"data\":\"aGk=\"}}]}";
  t.rpc.data(*x, frame(0x81, json));
  EXPECT_EQ(x->sent.substr(2),
            "{\"nodeFragments\":[{\"id\":\"out\",\"continued\":true,\"chunkFragment\":{\"metadata\":{"
            "\"mimetype\":\"a/b\"},\"data\":\"aGk=\"}}]}");
  x->sent.clear();
  t.rpc.data(
      *x, frame(0x82, t.parse("node_fragments { id: 'in' seq: 1 chunk_fragment { data: '!' } }").SerializeAsString()));
  EXPECT_EQ(x->sent[0], char(0x82));
  x->sent.clear();
  t.rpc.data(*x, frame(0x88, std::string("\x03\xe8", 2)));
  EXPECT_EQ(x->sent, std::string("\x88\x02\x03\xe8", 4));
  EXPECT_TRUE(x->ended);
}

// Every fragment with metadata, then an empty chunk of no type where the stream was closed, then one with nothing.
TEST(Evergreen, AStreamEndsAsBrowsersEndIt) {
  Bench t;
  auto x = t.open_http("GET", kUpgrade);
  const std::string start = R"({"nodeFragments":[{"id":"in","chunkFragment":)";
  for (const std::string& text :
       {std::string(
            R"({"actions":[{"targetSpec":{"id":"chat"},"name":"GENERATE","inputs":[{"name":"prompt","id":"in"}],)"
            R"("outputs":[{"name":"response","id":"out"}]}]})"),
        start + R"({"metadata":{"mimetype":"text/plain","role":"USER"},"data":"aGk="},"seq":0,"continued":true}]})",
        start + R"({"metadata":{"mimetype":"text/plain","role":"USER"},"data":"IQ=="},"seq":1,"continued":true}]})",
        start + R"({"metadata":{"mimetype":"application/octet-stream"},"data":""},"seq":2,"continued":true}]})",
        std::string(R"({"nodeFragments":[{"id":"in","seq":3,"continued":false}]})")})
    t.rpc.data(*x, frame(0x81, text));
  EXPECT_FALSE(x->ended) << x->sent;
  EXPECT_EQ(t.prompt(), "[user]hi!<|end|>[assistant]");
}

std::string long_fragment(int seq, bool continued) {
  return R"({"nodeFragments":[{"id":"in","seq":)" + std::to_string(seq) +
         R"(,"chunkFragment":{"metadata":{"mimetype":"a/b"},"data":")" + std::string(wire::kLongBody + 4, 'A') +
         R"("},"continued":)" + (continued ? "true" : "false") + "}]}";
}

TEST(Evergreen, ALongLineIsReadByAWorkerAndWhatIsBehindItWaits) {
  support::FakeOffload offload;
  Bench t({.offload = &offload});
  auto x = t.open_http("POST", {});
  const std::string lines =
      kEchoJson + "\n" + long_fragment(0, true) + "\n" + R"({"nodeFragments":[{"id":"in","seq":1}]})";
  t.rpc.data(*x, lines);
  t.rpc.end(*x);
  EXPECT_EQ(offload.waiting(), 1u);
  EXPECT_EQ(x->sent, "");
  EXPECT_LT(x->consumed, lines.size()) << "flow control holds the client";
  offload.work();
  EXPECT_GT(x->sent.size(), wire::kLongBody);
  EXPECT_NE(x->sent.find("\"seq\":1"), std::string::npos);
  EXPECT_TRUE(x->ended);
  EXPECT_EQ(x->consumed, lines.size());
}

TEST(Evergreen, ALongLineThatIsWrongOrRefusedEndsTheSession) {
  support::FakeOffload offload;
  Bench t({.offload = &offload});
  auto x = t.open_http("POST", {}), y = t.open_http("POST", {}), z = t.open_http("POST", {});
  t.rpc.data(*x, "\n[" + long_fragment(0, true) + "\n");
  offload.work();
  EXPECT_NE(x->sent.find("\"message\":\"line 2: "), std::string::npos) << x->sent;
  offload.refusal = base::try_again(base::Code::kResourceExhausted, "full");
  t.rpc.data(*y, long_fragment(0, true) + "\n");
  EXPECT_NE(y->sent.find("RESOURCE_EXHAUSTED"), std::string::npos) << y->sent;
  offload.refusal = {};
  t.rpc.data(*z, long_fragment(0, true) + "\n");
  t.later_turn();
  z.reset();
  EXPECT_EQ(offload.cancelled, 1u);
}

// Its text is charged while it waits for a worker, and the message that a worker makes of it until the session has it.
TEST(Evergreen, ALongLineIsChargedUntilItIsRead) {
  support::FakeOffload offload;
  Bench t({.offload = &offload});
  base::MemoryLedger memory(16 << 20);
  t.rpc.slabs.memory = &memory;
  {
    auto x = t.open_http("POST", {});
    t.rpc.data(*x, kEchoJson + "\n" + long_fragment(0, false) + "\n");
    EXPECT_EQ(offload.waiting(), 1u);
    EXPECT_GE(memory.held(base::MemoryKind::kInput), wire::kLongBody);
    offload.work();
    EXPECT_GT(x->sent.size(), wire::kLongBody);
    EXPECT_EQ(memory.held(base::MemoryKind::kInput), 0u);
  }
  t.rpc.env.advance(std::chrono::milliseconds(1));
  EXPECT_EQ(memory.held(), 0u);
}

// Nothing of it is moved when more comes: a copy of megabytes would take longer than a turn may.
TEST(Evergreen, ALongLineThatComesInPiecesIsJoinedByAWorker) {
  support::FakeOffload offload;
  Bench t({.offload = &offload});
  base::MemoryLedger memory(64 << 20);
  t.rpc.slabs.memory = &memory;
  for (const char* end : {"\n", ""}) {
    auto x = t.open_http("POST", {});
    t.rpc.data(*x, kEchoJson + "\n" + std::string(300'000, ' ') + "\n");
    t.later_turn();
    std::string line = long_fragment(0, false);
    line.insert(line.find("AAAA"), std::string(3 << 20, 'A'));
    constexpr size_t kRead = 16 << 10;
    for (size_t at = 0; at < line.size(); at += kRead) {
      t.rpc.data(*x, line.substr(at, kRead));
      EXPECT_LE(memory.held(base::MemoryKind::kInput), at + (256 << 10)) << "what has come";
    }
    t.rpc.data(*x, end);
    if (*end == 0) t.rpc.end(*x);
    EXPECT_EQ(offload.waiting(), 1u);
    EXPECT_GE(memory.held(base::MemoryKind::kInput), line.size());
    offload.work();
    EXPECT_LE(memory.held(base::MemoryKind::kInput), 64u << 10) << "what an idle session keeps";
    for (int i = 0; i < 100; ++i) t.later_turn(), offload.work();
    EXPECT_GT(x->sent.size(), 3u << 20);
  }
}

TEST(Evergreen, ALongLineThatTheBodyEndsIsReadThoughTheTurnIsSpent) {
  support::FakeOffload offload;
  Bench t({.offload = &offload});
  auto x = t.open_http("POST", {}), other = t.open_http("POST", {});
  t.rpc.data(*x, kEchoJson + "\n");
  t.later_turn();
  t.rpc.data(*x, long_fragment(0, false));
  t.rpc.data(*other, std::string(300'000, ' ') + "\n");
  t.rpc.end(*x);
  for (int i = 0; i < 50; ++i) t.later_turn(), offload.work();
  EXPECT_GT(x->sent.size(), wire::kLongBody);
}

TEST(Evergreen, ALongLineThatComesInPiecesIsCounted) {
  support::FakeOffload offload;
  Bench t({.offload = &offload});
  auto bad = t.open_http("POST", {}), longer = t.open_http("POST", {});
  for (int i = 0; i < 20; ++i) t.rpc.data(*bad, std::string(20'000, ' '));
  t.rpc.data(*bad, "\n\n");
  for (int i = 0; i < 20; ++i) t.rpc.data(*bad, std::string(20'000, '['));
  t.rpc.data(*bad, "\n");
  offload.work();
  EXPECT_NE(bad->sent.find("\"message\":\"line 3: "), std::string::npos) << bad->sent << "as an editor counts";
  for (size_t sent = 0; sent < (17 << 20) && longer->sent.empty(); sent += 100'000)
    t.rpc.data(*longer, std::string(100'000, 'x'));
  EXPECT_NE(longer->sent.find("a line is longer than"), std::string::npos) << longer->sent;
}

TEST(Evergreen, ALongLineWithoutMemoryEndsItsSession) {
  support::FakeOffload offload;
  Bench t({.offload = &offload});
  for (uint64_t budget : {wire::kLongBody, 4 * wire::kLongBody}) {  // for the line, but not for its copy or the message
    base::MemoryLedger memory(budget);
    t.rpc.slabs.memory = &memory;
    auto x = t.open_http("POST", {});
    t.rpc.data(*x, long_fragment(0, false) + "\n");
    offload.work();
    EXPECT_NE(x->sent.find("RESOURCE_EXHAUSTED"), std::string::npos) << budget << x->sent;
    x.reset();
    t.rpc.slabs.memory = nullptr;
  }
}

// A text message in as many frames as it takes.
std::string long_frames(std::string_view text) {
  constexpr size_t kPiece = 60'000;
  std::string out;
  for (size_t at = 0; at < text.size(); at += kPiece) {
    const int last = at + kPiece >= text.size() ? 0x80 : 0, first = at == 0 ? 1 : 0;
    out += frame(uint8_t(last | first), std::string(text.substr(at, kPiece)));
  }
  return out;
}

TEST(Evergreen, ALongWebSocketMessageIsReadByAWorkerAndTheCloseBehindItWaits) {
  support::FakeOffload offload;
  Bench t({.offload = &offload});
  auto x = t.open_http("GET", kUpgrade);
  t.rpc.data(*x, frame(0x81, kEchoJson));
  t.rpc.data(*x, long_frames(long_fragment(0, false)) + frame(0x88, std::string("\x03\xe8", 2)));
  EXPECT_EQ(offload.waiting(), 1u);
  EXPECT_FALSE(x->ended);
  offload.work();
  EXPECT_GT(x->sent.size(), wire::kLongBody);
  EXPECT_TRUE(x->ended);
  auto y = t.open_http("GET", kUpgrade);
  t.rpc.data(*y, long_frames("[" + long_fragment(0, false)));
  offload.work();
  EXPECT_EQ(uint8_t(y->sent[y->sent.rfind(char(0x88)) + 2]) << 8 | uint8_t(y->sent[y->sent.rfind(char(0x88)) + 3]),
            1007);
}

TEST(Evergreen, AWebSocketThatBreaksARuleIsToldAndClosed) {
  const std::vector<std::pair<std::string, int>> table{
      {frame(0x81, "{\"nodeFragments\":[{\"id\":\"\"}]}"), 1008},
      {frame(0x81, "nonsense"), 1007},
      {frame(0x82, "\x0a\x7f"), 1008},
      {frame(0x81, "\xff"), 1007},
      {std::string("\x81\xff\0\0\0\0\x10\0\0\0\0\0\0\0", 14), 1009},
  };
  for (const auto& [bytes, code] : table) {
    Bench t;
    auto x = t.open_http("GET", kUpgrade);
    t.rpc.data(*x, bytes);
    size_t at = x->sent.rfind(char(0x88));
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(uint8_t(x->sent[at + 2]) << 8 | uint8_t(x->sent[at + 3]), code);
    EXPECT_TRUE(x->ended);
  }
}

// A shard's bodies that wait for memory, on a clock of their own.
struct Waiting {
  base::FakeEnv clock;
  wire::BodyMemory::Need need;
  wire::BodyMemory bodies{clock, need, {}};
  Options options() {
    Options with;
    with.bodies = &bodies;
    return with;
  }
  // An ECHO of "hi" in 40 KB, most of it blanks.
  static std::string message() {
    return frame(0x81,
                 "{\"actions\":[{\"name\":\"ECHO\",\"inputs\":[{\"name\":\"x\",\"id\":\"in\"}],\"outputs\":[{"
                 "\"name\":\"x\",\"id\":\"out\"}]}],\"nodeFragments\":[{\"id\":\"in\",\"chunkFragment\":{"
                 "\"metadata\":{\"mimetype\":\"a/b\"},\"data\":\"aGk=\"}}]" +
                     std::string(40'000, ' ') + "}");
  }
};

TEST(Evergreen, AMessageOfAWebSocketStandsInLineForMemoryAndGoesOnWhenThereIsSome) {
  Waiting waiting;
  Bench t(waiting.options());
  auto x = t.open_http("GET", kUpgrade);
  t.rpc.slabs.empty = true;
  t.rpc.data(*x, Waiting::message());
  EXPECT_EQ(waiting.bodies.waiting(), 1u);
  EXPECT_EQ(x->sent, "");
  waiting.clock.advance(std::chrono::milliseconds(500));
  t.rpc.slabs.empty = false;
  waiting.bodies.slabs_freed();
  t.rpc.env.advance(std::chrono::milliseconds(1));
  EXPECT_EQ(waiting.bodies.waiting(), 0u);
  EXPECT_NE(x->sent.find("aGk="), std::string::npos);
  EXPECT_FALSE(x->ended);
}

TEST(Evergreen, AWebSocketThatWaitsForMemoryInVainIsClosedAndMayTryAgain) {
  Waiting waiting;
  Bench t(waiting.options());
  auto x = t.open_http("GET", kUpgrade), other = t.open_http("GET", kUpgrade);
  t.rpc.slabs.empty = true;
  t.rpc.data(*x, Waiting::message());
  waiting.clock.advance(std::chrono::milliseconds(1100));
  size_t at = x->sent.rfind(char(0x88));
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(uint8_t(x->sent[at + 2]) << 8 | uint8_t(x->sent[at + 3]), 1013);
  EXPECT_NE(x->sent.find("limits.memory_wait"), std::string::npos);
  EXPECT_TRUE(x->ended);
  EXPECT_EQ(x->record().code, base::Code::kResourceExhausted);
  EXPECT_EQ(waiting.bodies.waiting(), 0u);
  EXPECT_FALSE(other->ended);
}

// Each line raises all nodes above it, so that they take many turns, and nothing but the next turn is waited for.
TEST(Evergreen, AChainThatComesFromItsRootDownGoesOnFromTurnToTurn) {
  constexpr int kNodes = 1000;
  for (const char* method : {"POST", "GET"}) {
    Bench t;
    auto x = *method == 'P' ? t.open_http("POST", {}) : t.open_http("GET", kUpgrade);
    std::string all;
    for (int i = 0; i < kNodes; ++i) {
      const std::string line = R"({"nodeFragments":[{"id":"n)" + std::to_string(i) + R"(","childIds":["n)" +
                               std::to_string(i + 1) + "\"]}]}";
      all += *method == 'P' ? line + "\n" : frame(0x81, line);
    }
    t.rpc.data(*x, all);
    int milliseconds = 0;
    for (; x->consumed < all.size() && milliseconds < 5000; ++milliseconds) t.later_turn();
    EXPECT_FALSE(x->ended) << x->sent;
    EXPECT_EQ(x->consumed, all.size());
    EXPECT_LT(milliseconds, 100) << method;
  }
}

}  // namespace
}  // namespace weir::evergreen
