// Catalog::resolve(): which model a request is for.
#include "bus/catalog.h"

#include <gtest/gtest.h>

namespace weir::bus {
namespace {

using base::Code;

class Models {
 public:
  enum class Kind : uint8_t { kTensors, kTokens, kReadouts, kEncoder, kEncoderOfIds, kClassifier, kClassifierOfIds };

  void add(std::string name, Kind kind, std::string version = "1") {
    auto served = std::make_shared<Served>();
    served->spec.name = name, served->spec.version = version;
    auto text = std::make_shared<msg::TextSpec>();
    if (kind == Kind::kReadouts) text->concepts = {"joy"};
    if (kind != Kind::kEncoderOfIds && kind != Kind::kClassifierOfIds) text->codec = codec();
    if (kind == Kind::kClassifier || kind == Kind::kClassifierOfIds) text->labels = 1;
    if (kind == Kind::kTokens || kind == Kind::kReadouts) served->spec.text = text;
    if (kind >= Kind::kEncoder) served->spec.encoder = text;
    auto& model = catalog.models[name];
    model.preferred = served.get();
    model.versions[version] = served;
    catalog.index.push_back({std::move(name), std::move(version), ModelState::kReady, ""});
  }
  // "chat/1", or the code and the text of the error.
  std::string resolved(std::string_view name, Needs needs = Needs::kAnything, std::string_view version = "") const {
    auto found = catalog.resolve(name, version, needs);
    if (found) return (*found)->spec.name + "/" + (*found)->spec.version;
    return std::string(base::name(found.error().code)) + ": " + found.error().text;
  }

  Catalog catalog;

 private:
  // One that is there, and never looked into.
  static std::shared_ptr<const msg::TextCodec> codec() {
    static const int kAny = 0;
    return {std::shared_ptr<void>(), reinterpret_cast<const msg::TextCodec*>(&kAny)};
  }
};

using Kind = Models::Kind;

TEST(CatalogResolve, ANameMeansThatModelAndItsVersion) {
  Models m;
  m.add("add", Kind::kTensors, "1");
  m.add("add", Kind::kTensors, "2");
  m.catalog.default_model = "other";
  EXPECT_EQ(m.resolved("add"), "add/2");
  EXPECT_EQ(m.resolved("add", Needs::kAnything, "1"), "add/1");
  EXPECT_EQ(m.resolved("add", Needs::kAnything, "3"),
            "NOT_FOUND: Request for unknown model: 'add' version 3 is not found; it serves 1, 2");
  EXPECT_EQ(m.resolved("ad"), "NOT_FOUND: Request for unknown model: 'ad' is not found; did you mean 'add'?");
  m.catalog.index = {{"addition", "1", ModelState::kUnloaded, ""}};
  EXPECT_EQ(m.resolved("additio"),
            "NOT_FOUND: Request for unknown model: 'additio' is not found; did you mean 'addition'?")
      << "whether it is served or not";
}

TEST(CatalogResolve, AModelOfWhichNoVersionServesIsNotReady) {
  Models m;
  m.add("add", Kind::kTensors, "1");
  m.catalog.models["add"].preferred = nullptr;
  m.catalog.index = {{"add", "1", ModelState::kReady, ""}, {"add", "2", ModelState::kUnavailable, "cut short"}};
  EXPECT_EQ(m.resolved("add", Needs::kAnything, "2"), "UNAVAILABLE: model 'add' version 2 is not ready: cut short");
  EXPECT_EQ(m.resolved("add", Needs::kAnything, "3"),
            "NOT_FOUND: Request for unknown model: 'add' version 3 is not found; it serves 1");
  EXPECT_EQ(m.resolved(""), "NOT_FOUND: no model is named, and no model is served");
  m.catalog.models["add"].versions.clear(), m.catalog.index.clear();
  EXPECT_EQ(m.resolved("add"), "UNAVAILABLE: model 'add' is not ready");
}

TEST(CatalogResolve, AModelThatLacksWhatIsNeededIsRefusedByWhatItLacks) {
  Models m;
  m.add("add", Kind::kTensors);
  m.add("chat", Kind::kTokens);
  m.add("e", Kind::kEncoder);
  m.add("ids", Kind::kEncoderOfIds);
  m.add("rank", Kind::kClassifier);
  m.add("rank-ids", Kind::kClassifierOfIds);
  const std::vector<std::tuple<std::string, Needs, std::string>> table{
      {"add", Needs::kTokens, "INVALID_ARGUMENT: model 'add' makes no tokens"},
      {"add", Needs::kEmbeddings, "INVALID_ARGUMENT: model 'add' gives no embeddings"},
      {"add", Needs::kText, "INVALID_ARGUMENT: model 'add' takes no text"},
      {"add", Needs::kReadouts, "INVALID_ARGUMENT: model 'add' has no concept readouts"},
      {"chat", Needs::kTokens, "chat/1"},
      {"chat", Needs::kEmbeddings, "chat/1"},
      {"chat", Needs::kText, "chat/1"},
      {"chat", Needs::kReadouts, "INVALID_ARGUMENT: model 'chat' has no concept readouts"},
      {"e", Needs::kTokens, "INVALID_ARGUMENT: model 'e' makes no tokens: it gives embeddings"},
      {"e", Needs::kEmbeddings, "e/1"},
      {"e", Needs::kText, "e/1"},
      {"ids", Needs::kEmbeddings, "ids/1"},
      {"ids", Needs::kText, "INVALID_ARGUMENT: model 'ids' takes no text: it has no tokenizer"},
      {"add", Needs::kScores, "INVALID_ARGUMENT: model 'add' gives no scores of texts"},
      {"chat", Needs::kScores, "INVALID_ARGUMENT: model 'chat' gives no scores of texts"},
      {"e", Needs::kScores, "INVALID_ARGUMENT: model 'e' gives no scores of texts: it gives embeddings"},
      {"rank", Needs::kScores, "rank/1"},
      {"rank", Needs::kText, "rank/1"},
      {"rank", Needs::kEmbeddings, "INVALID_ARGUMENT: model 'rank' gives no embeddings: it gives scores of texts"},
      {"rank-ids", Needs::kScores, "INVALID_ARGUMENT: model 'rank-ids' gives no scores of texts: it has no tokenizer"},
  };
  for (const auto& [name, needs, verdict] : table) EXPECT_EQ(m.resolved(name, needs), verdict) << name;
}

TEST(CatalogResolve, WithoutANameItIsTheOnlyModelThatHasWhatIsNeeded) {
  Models m;
  EXPECT_EQ(m.resolved(""), "NOT_FOUND: no model is named, and no model is served");
  m.add("add", Kind::kTensors);
  EXPECT_EQ(m.resolved(""), "add/1");
  EXPECT_EQ(m.resolved("", Needs::kTokens), "NOT_FOUND: no model is named, and no model that makes tokens is served");
  m.add("chat", Kind::kReadouts);
  EXPECT_EQ(m.resolved("", Needs::kTokens), "chat/1");
  EXPECT_EQ(m.resolved("", Needs::kReadouts), "chat/1");
  EXPECT_EQ(m.resolved(""),
            "INVALID_ARGUMENT: no model is named, and there is more than one model: name one of add, chat, or set "
            "models.default");
  m.add("talk", Kind::kTokens);
  EXPECT_EQ(m.resolved("", Needs::kReadouts), "chat/1");
  EXPECT_EQ(m.resolved("", Needs::kText),
            "INVALID_ARGUMENT: no model is named, and there is more than one model that takes text: name one of chat, "
            "talk, or set models.default");
}

TEST(CatalogResolve, TheDefaultComesFirstIfItHasWhatIsNeeded) {
  Models m;
  m.add("add", Kind::kTensors);
  m.add("chat", Kind::kTokens);
  m.add("digits", Kind::kTensors);
  m.catalog.default_model = "digits";
  EXPECT_EQ(m.resolved(""), "digits/1");
  EXPECT_EQ(m.resolved("", Needs::kTokens), "chat/1");
  m.catalog.default_model = "gone";
  EXPECT_EQ(m.resolved("", Needs::kTokens).substr(0, 9), "NOT_FOUND") << "no other takes its place";
}

TEST(CatalogResolve, OfManyModelsSixteenAreNamed) {
  Models m;
  for (char c = 'a'; c < 'a' + 16; ++c) m.add(std::string(1, c), Kind::kTensors);
  EXPECT_NE(m.resolved("").find("one of a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, or set models.default"),
            std::string::npos);
  m.add("q", Kind::kTensors);
  EXPECT_NE(m.resolved("").find("o, p, …, or set models.default"), std::string::npos) << m.resolved("");
}

TEST(CatalogNames, AFurtherNameMeansTheModelWhoseItIs) {
  Models m;
  m.add("qwen", Kind::kTokens, "1"), m.add("qwen", Kind::kTokens, "2"), m.add("add", Kind::kTensors);
  m.catalog.names = {{"Qwen/Qwen3-8B", "qwen"}, {"gone:8b", "gone"}};
  m.catalog.index = {{"gone", "", ModelState::kUnloaded, "not loaded"}};
  EXPECT_EQ(m.resolved("Qwen/Qwen3-8B"), "qwen/2");
  EXPECT_EQ(m.resolved("Qwen/Qwen3-8B", Needs::kTokens, "1"), "qwen/1");
  EXPECT_EQ(m.resolved("gone:8b"), "UNAVAILABLE: model 'gone' is not ready: not loaded");
  EXPECT_EQ(m.resolved("Qwen/Qwen3-8"),
            "NOT_FOUND: Request for unknown model: 'Qwen/Qwen3-8' is not found; did you mean 'Qwen/Qwen3-8B'?");
  EXPECT_EQ(m.catalog.own_name("Qwen/Qwen3-8B"), "qwen");
  EXPECT_EQ(m.catalog.own_name("other"), "other");
  EXPECT_TRUE(m.catalog.knows("Qwen/Qwen3-8B"));
}

TEST(CatalogNames, TheModelsOwnNameSaysWhoMayUseIt) {
  Models m;
  m.add("qwen", Kind::kTokens), m.add("secret", Kind::kTokens);
  m.catalog.names = {{"gpt-4o", "qwen"}, {"qwen-large", "secret"}};
  m.catalog.default_model = "gpt-4o";
  const Catalog all = m.catalog;
  m.catalog = all.visible_to(base::ModelScope({"qwen*"}));
  EXPECT_EQ(m.resolved("gpt-4o"), "qwen/1");
  EXPECT_EQ(m.resolved(""), "qwen/1") << "the default may be a further name";
  EXPECT_EQ(m.resolved("secret").substr(0, 17), "PERMISSION_DENIED");
  EXPECT_EQ(m.catalog.names.size(), 1u);
  EXPECT_NE(m.resolved("qwen-large").substr(0, 8), "secret/1");
}

TEST(Catalog, VersionsAreInTheOrderOfTheirNumbers) {
  Models m;
  for (const char* version : {"10", "1", "3"}) m.add("a", Models::Kind::kTensors, version);
  std::string all;
  for (const auto& [version, unused] : m.catalog.models["a"].versions) all += version + ' ';
  EXPECT_EQ(all, "1 3 10 ");
}

TEST(CatalogScope, WhoMayUseSomeModelsSeesThoseAlone) {
  Models m;
  m.add("chat", Kind::kTokens), m.add("chat-small", Kind::kTokens), m.add("embed", Kind::kEncoder);
  m.catalog.default_model = "embed";
  const Catalog all = m.catalog;
  m.catalog = all.visible_to(base::ModelScope({"chat*"}));
  EXPECT_EQ(m.catalog.models.size(), 2u);
  EXPECT_EQ(m.catalog.index.size(), 2u);
  EXPECT_EQ(m.resolved("chat"), "chat/1");
  EXPECT_EQ(m.resolved("embed"), "PERMISSION_DENIED: this key may not use model 'embed'");
  EXPECT_EQ(m.resolved("embod"), "PERMISSION_DENIED: this key may not use model 'embod'")
      << "whether there is one or not";
  EXPECT_EQ(m.resolved("chat-smal"),
            "NOT_FOUND: Request for unknown model: 'chat-smal' is not found; did you mean 'chat-small'?");
  EXPECT_EQ(m.resolved("", Needs::kEmbeddings).substr(0, 16), "INVALID_ARGUMENT") << "the default is not there";
  m.catalog = all.visible_to(base::ModelScope({"chat", "embed"}));
  EXPECT_EQ(m.resolved("", Needs::kEmbeddings), "embed/1") << "the default is";
  m.catalog = all.visible_to(base::ModelScope({}));
  EXPECT_EQ(m.resolved("").substr(0, 9), "NOT_FOUND");
}

}  // namespace
}  // namespace weir::bus
