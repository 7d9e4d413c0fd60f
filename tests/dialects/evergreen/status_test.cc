// The output "status": who names it is told there how its action has failed, whatever was wrong with the request.
#include "bench.h"

namespace weir::evergreen {
namespace {

std::string action(const std::string& name, const std::string& input,
                   const std::vector<std::pair<std::string, std::string>>& outputs) {
  std::string out = "actions { name: '" + name + "' inputs { name: '" + input + "' id: 'a' } ";
  for (const auto& [output, id] : outputs) out += "outputs { name: '" + output + "' id: '" + id + "' } ";
  return out + "}";
}
bool says(const support::FakeExchange& x, base::Code code, const std::string& why) {
  const std::string said = Bench::leaf(x, "s");
  return said.starts_with("{\"code\":" + std::to_string(int(code)) + ",") && said.find(why) != said.npos;
}

TEST(EvergreenStatus, AFailureGoesThereInWhateverOrderTheOutputsAreNamed) {
  using Outputs = std::vector<std::pair<std::string, std::string>>;
  for (const Outputs& outputs : {Outputs{{"status", "s"}, {"x", "a"}}, Outputs{{"x", "a"}, {"status", "s"}},
                                 Outputs{{"x", "s"}, {"status", "s"}}}) {
    Bench t;
    auto x = t.open();
    t.send(*x, text_leaf("a", "A") + action("ECHO", "x", outputs));
    EXPECT_TRUE(says(*x, base::Code::kAlreadyExists, "the id of an output must be new")) << t.leaf(*x, "s");
    EXPECT_EQ(t.status(*x), "open");
  }
}

TEST(EvergreenStatus, WhoReadsAnOutputOfAnActionThatIsRefusedFailsToo) {
  Bench t;
  auto x = t.open();
  t.send(*x, text_leaf("a", "A") + action("ECHO", "x", {{"x", "a"}, {"y", "o"}, {"y", "p"}, {"status", "s"}}));
  for (const std::string id : {"o", "p"})
    t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: '" + id + "' } outputs { name: 'x' id: '" + id +
                   "e' } outputs { name: 'status' id: '" + id + "s' } }");
  for (const char* status : {"os", "ps"})
    EXPECT_NE(t.leaf(*x, status).find("the id of an output must be new"), std::string::npos) << t.leaf(*x, status);
  t.rpc.end(*x);
  EXPECT_EQ(t.status(*x), "");
}

TEST(EvergreenStatus, AnOutputThatIsNamedTwiceIsToldThere) {
  Bench t;
  auto x = t.open();
  t.send(*x, text_leaf("a", "A") + action("ECHO", "x", {{"x", "o"}, {"x", "p"}, {"status", "s"}, {"status", "s2"}}));
  EXPECT_TRUE(says(*x, base::Code::kInvalidArgument, "is named twice")) << t.leaf(*x, "s");
  EXPECT_EQ(t.leaf(*x, "s2"), "");
  EXPECT_EQ(t.status(*x), "open");
}

TEST(EvergreenStatus, AnInputOfThatNameIsNotEchoedThere) {
  for (const char* more : {"", "inputs { name: 'x' id: 'a' } outputs { name: 'x' id: 'o' } "}) {
    Bench t;
    auto x = t.open();
    t.send(*x, text_leaf("a", "A") + "actions { name: 'ECHO' inputs { name: 'status' id: 'a' } " + more +
                   "outputs { name: 'status' id: 's' } }");
    EXPECT_TRUE(says(*x, base::Code::kOk, "")) << t.leaf(*x, "s");
    EXPECT_EQ(t.leaf(*x, "o"), *more ? "A" : "…");
    EXPECT_EQ(t.status(*x), "open");
  }
}

TEST(EvergreenStatus, ANameAndItsAliasAreOneOutput) {
  Bench t;
  auto x = t.open();
  t.send(*x, text_leaf("a", "A") + action("GENERATE", "prompt", {{"response", "r"}, {"text", "t"}, {"status", "s"}}));
  EXPECT_TRUE(says(*x, base::Code::kInvalidArgument, "output 'response' is named twice; 'text' is the same one"))
      << t.leaf(*x, "s");
  EXPECT_EQ(t.leaf(*x, "r") + t.leaf(*x, "t"), "") << "both have ended";
  EXPECT_TRUE(t.chat->held.empty());
}

TEST(EvergreenStatus, ThatThereIsNoSuchActionIsToldThere) {
  Bench t;
  auto x = t.open();
  t.send(*x, action(std::string(200, 'F'), "x", {{"x", "o"}, {"status", "s"}}));
  EXPECT_TRUE(says(*x, base::Code::kNotFound, "action " + std::string(80, 'F') + ": there is no such action"))
      << t.leaf(*x, "s");
  EXPECT_EQ(t.leaf(*x, "o"), "");
  EXPECT_EQ(t.status(*x), "open");
}

}  // namespace
}  // namespace weir::evergreen
