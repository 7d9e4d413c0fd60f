// The metadata that ECHO gives back with the client's content.
#include "bench.h"
#include "dialects/evergreen/message.h"

namespace weir::evergreen {
namespace {

constexpr const char* kMetadata =
    "mimetype: 'image/png' role: 'tool' original_file_name: 'a \"b\".png' capture_time { seconds: 1700000000 } "
    "experimental { type_url: 'type.googleapis.com/weir.evergreen.v1.Usage' value: '\\010\\005' } "
    "experimental { type_url: 'type.example/some.Other' value: 'xyz' }";

std::string content() {
  return "node_fragments { id: 'in' chunk_fragment { metadata { " + std::string(kMetadata) + " } data: 'x' } }" +
         "actions { name: 'ECHO' inputs { name: 'x' id: 'in' } outputs { name: 'x' id: 'out' } }";
}

TEST(EvergreenEcho, AllMetadataComesBack) {
  Bench t;
  auto x = t.open();
  t.send(*x, content());
  auto fragments = t.fragments(*x);
  ASSERT_FALSE(fragments.empty());
  const auto& m = fragments[0].chunk_fragment().metadata();
  EXPECT_EQ(m.mimetype(), "image/png");
  EXPECT_EQ(m.role(), "tool");
  EXPECT_EQ(m.original_file_name(), "a \"b\".png");
  EXPECT_EQ(m.capture_time().seconds(), 1700000000);
  ASSERT_EQ(m.experimental_size(), 2);
  v1::Usage usage;
  EXPECT_TRUE(m.experimental(0).UnpackTo(&usage));
  EXPECT_EQ(usage.prompt_tokens(), 5u);
  EXPECT_EQ(m.experimental(1).value(), "xyz");
}

TEST(EvergreenEcho, AnEchoOfAnEchoIsTheSame) {
  Bench t;
  auto x = t.open();
  t.send(*x, content() + "actions { name: 'ECHO' inputs { name: 'x' id: 'out' } outputs { name: 'x' id: 'again' } }");
  pb::ChunkMetadata first, second;
  for (const auto& f : t.fragments(*x))
    if (f.seq() == 0) (f.id() == "out" ? first : second) = f.chunk_fragment().metadata();
  EXPECT_EQ(first.SerializeAsString(), second.SerializeAsString());
  EXPECT_EQ(second.role(), "tool");
}

TEST(EvergreenEcho, InJsonWhatIsKnownHereComesBack) {
  Bench t;
  OutFragment f;
  f.node = "out";
  f.has_chunk = f.has_metadata = true;
  f.metadata = {"image/png", "tool", "a \"b\".png", ""};
  pb::ChunkMetadata rest;
  rest.mutable_capture_time()->set_seconds(1700000000);
  f.metadata.other = rest.SerializeAsString();
  v1::Usage usage;
  usage.set_prompt_tokens(5);
  put_any(f.metadata.other, {"some.Other", "xyz"});
  put_any(f.metadata.other, {"weir.evergreen.v1.Usage", usage.SerializeAsString()});
  put_any(f.metadata.other, {"google.protobuf.Timestamp", rest.capture_time().SerializeAsString()});
  std::string json;
  write_json_head(json, f, t.json);
  json += json_tail(f);
  EXPECT_EQ(json,
            "{\"nodeFragments\":[{\"id\":\"out\",\"chunkFragment\":{\"metadata\":{\"mimetype\":\"image/png\","
            "\"role\":\"tool\",\"originalFileName\":\"a \\\"b\\\".png\",\"captureTime\":\"2023-11-14T22:13:20Z\","
            "\"experimental\":[{\"@type\":\"type.googleapis.com/weir.evergreen.v1.Usage\",\"promptTokens\":5},"
            "{\"@type\":\"type.googleapis.com/google.protobuf.Timestamp\",\"value\":\"2023-11-14T22:13:20Z\"}]},"
            "\"data\":\"\"}}]}");
  auto again = t.json.to_binary("evergreen.v2.SessionMessage", json);
  EXPECT_TRUE(again.has_value()) << (again ? "" : again.error().text);
}

TEST(EvergreenEcho, IdsOfTheClientThatLookLikeOnesOfChildrenAreInNobodysWay) {
  Bench t;
  auto x = t.open();
  t.send(*x, text_leaf("e/0", "first") + text_leaf("e/1-2", "second") + text_leaf("e/1", "third") +
                 "node_fragments { id: 'a' child_ids: 'e/0' child_ids: 'e/1-2' child_ids: 'e/1' }" + kEcho);
  std::vector<std::string> children;
  for (const auto& f : t.fragments(*x))
    if (f.id() == "e") children.insert(children.end(), f.child_ids().begin(), f.child_ids().end());
  EXPECT_EQ(children, (std::vector<std::string>{"e/0-2", "e/1-3", "e/2"})) << t.status(*x);
  EXPECT_EQ(t.leaf(*x, "e/0-2") + t.leaf(*x, "e/1-3") + t.leaf(*x, "e/2"), "firstsecondthird");
}

TEST(EvergreenEcho, AnAnswerSaysWhoseItIs) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r") + text_leaf("p", "hello"));
  t.answer("Hi");
  std::string role;
  for (const auto& f : t.fragments(*x))
    if (f.id() == "r" && f.seq() == 0) role = f.chunk_fragment().metadata().role();
  EXPECT_EQ(role, "assistant");
}

}  // namespace
}  // namespace weir::evergreen
