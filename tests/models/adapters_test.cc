// Adapters of models of tokens (`adapters:` of model.yaml), each a model of its own.
#include "base/fake_env.h"
#include "bus/bus.h"
#include "bus/mail_bursts.h"
#include "bus/memory_use.h"
#include "demand_fixture.h"
#include "models/further_names.h"
#include "models/model_yaml.h"

namespace weir::models {
namespace {

struct AdaptedTokens final : generation::TokenEngine {
  AdaptedTokens(std::shared_ptr<const msg::TextSpec> text, size_t adapters)
      : text_(std::move(text)), adapters_(uint32_t(adapters)) {}
  const msg::TextSpec& text() const override { return *text_; }
  uint32_t adapters() const override { return adapters_; }
  size_t kv_bytes(size_t positions) const override { return positions; }
  base::Status reserve(uint32_t, uint32_t) override { return {}; }
  base::Status step(generation::TokenStep&) override { return {}; }
  void copy_block(uint32_t, uint32_t, uint32_t) override {}
  base::Result<generation::ImageFeatures> encode_image(const msg::Image&) override {
    return base::failure(base::Code::kUnimplemented, "no images");
  }
  const std::shared_ptr<const msg::TextSpec> text_;
  const uint32_t adapters_;
};

// Says of each Call which adapter it is for.
struct SaysAdapter final : msg::Inbox, bus::TellsMemory {
  explicit SaysAdapter(std::unique_ptr<msg::Inbox> lanes) : lanes_(std::move(lanes)) {}
  void put(msg::Call* call) override {
    bus::post_one(call, {msg::Failed{base::invalid("adapter " + std::to_string(call->adapter))}});
  }
  const std::unique_ptr<msg::Inbox> lanes_;
};

base::Result<Instance> make_adapted(const LoadArgs& a) {
  auto text = std::make_shared<msg::TextSpec>();
  text->max_length = 100;
  msg::ModelSpec spec = a.wanted;
  spec.text = text;
  const size_t adapters = a.wanted.engine == "plain" ? 0 : a.wanted.adapters.size();
  return generation::TokenModel{
      std::move(spec),
      std::make_unique<AdaptedTokens>(std::move(text), adapters),
      {},
      [](std::unique_ptr<msg::Inbox> lanes, const msg::ModelSpec&, bus::ModelStats&) -> std::unique_ptr<msg::Inbox> {
        return std::make_unique<SaysAdapter>(std::move(lanes));
      },
      "cpu",
      70 * adapters};
}

constexpr const char* kAdapted =
    "engine: tokens\nmemory: 60\nnames: [Org/M]\nadapters: {sql: adapters/sql, poet: adapters/poet}\n";

struct AdapterModels : testing::Test {
  void open(const Change& change = explicitly) {
    repo = std::make_unique<AnyRepo>(
        disk,
        std::map<std::string, EngineMaker>{{"tokens", make_adapted}, {"plain", make_adapted}, {"onnx", make_fake}},
        options_with(change));
    ASSERT_TRUE(repo->repository->start().ok());
  }
  void TearDown() override {
    if (repo) repo->repository->stop();
  }
  std::shared_ptr<bus::Served> served(const std::string& model) {
    const auto held = repo->now();
    auto found = held->models.find(model);
    return found == held->models.end() ? nullptr : found->second.versions.begin()->second;
  }
  std::string ask(const std::string& model) {
    auto to = served(model);
    return to ? caller.answer(caller.call(*to)) : "no such model";
  }
  std::string why(std::string_view name) {
    auto found = repo->now()->find(name, "");
    return found ? "" : found.error().text;
  }
  test::Disk disk{{"m/model.yaml", kAdapted}};
  Caller caller;
  std::unique_ptr<AnyRepo> repo;
};

TEST_F(AdapterModels, EachIsAModelWhoseCallsTheBaseGets) {
  open();
  EXPECT_EQ(why("sql"), "model 'sql' is not ready: not loaded");
  ASSERT_TRUE(repo->load("m").ok());
  EXPECT_EQ(repo->rows(), "m/1 READY\npoet/1 READY\nsql/1 READY\n");
  EXPECT_EQ(served("sql")->spec.name, "sql");
  EXPECT_EQ(served("sql")->spec.parent, "m");
  EXPECT_EQ(served("m")->spec.parent, "");
  EXPECT_EQ(repo->now()->names, (FurtherNames::Owners{{"Org/M", "m"}}));
  EXPECT_EQ(ask("m"), "adapter 0");
  EXPECT_EQ(ask("poet"), "adapter 1");
  EXPECT_EQ(ask("sql"), "adapter 2");
  EXPECT_EQ((*repo->now()->resolve("", "", bus::Needs::kTokens))->spec.name, "m") << "the base of several";
}

// Not with that of their files, of which they are a multiple.
TEST_F(AdapterModels, EachCountsWithItsMemory) {
  disk.write("m/model.yaml", "engine: tokens\nadapters: {sql: adapters/sql}\n");
  disk.write("m/1/config.json", std::string(40, ' '));
  disk.write("m/1/adapters/sql/adapter_model.safetensors", "0123456789");
  open([](auto& o) { o.control = Control::kDemand, o.memory = 109; });
  EXPECT_EQ(repo->load("m").text, "failed to load 'm': it takes 110 bytes of memory, and models.memory is 109");
}

TEST_F(AdapterModels, TheyStayWhenALoadRequestBringsAConfiguration) {
  open([](auto& o) { o.control = Control::kExplicit, o.allow_config_override = true; });
  ASSERT_TRUE(repo->load("m", {{"config", R"({"backend": "tokens"})"}}).ok());
  EXPECT_EQ(ask("sql"), "adapter 2");
}

TEST_F(AdapterModels, TheyComeAndGoWithTheBase) {
  open();
  ASSERT_TRUE(repo->load("m").ok());
  std::weak_ptr<bus::Served> base = served("m"), sql = served("sql");
  disk.write("m/model.yaml", "engine: tokens\nadapters: {sql: adapters/sql, chat: adapters/chat}\n");
  ASSERT_TRUE(repo->load("m").ok());
  EXPECT_EQ(ask("chat"), "adapter 1");
  EXPECT_EQ(ask("sql"), "adapter 2");
  EXPECT_EQ(ask("poet"), "no such model");
  for (int i = 0; i < 2000 && !base.expired(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(base.expired() && sql.expired()) << "what was replaced is gone";
  ASSERT_TRUE(repo->unload("m").ok());
  EXPECT_TRUE(why("sql").starts_with("model 'sql' version 1 is not ready")) << why("sql");
}

TEST_F(AdapterModels, AModelOfThatNameGoesFirst) {
  disk.write("sql/1/model.onnx", "s");
  open();
  ASSERT_TRUE(repo->load("sql").ok());
  ASSERT_TRUE(repo->load("m").ok());
  EXPECT_EQ(served("sql")->spec.parent, "");
  EXPECT_EQ(ask("poet"), "adapter 1");
}

TEST_F(AdapterModels, AFailedUploadOfThatNameLeavesThemInService) {
  open([](auto& o) { o.control = Control::kExplicit, o.allow_config_override = true; });
  ASSERT_TRUE(repo->load("m").ok());
  const LoadParameters broken{{"config", R"({"backend": "onnx"})"}, {"file:1/model.onnx", "broken"}};
  EXPECT_FALSE(repo->load("sql", broken).ok());
  EXPECT_EQ(ask("sql"), "adapter 2");
  EXPECT_EQ(repo->rows(), "m/1 READY\npoet/1 READY\nsql/1 READY\n");
}

TEST_F(AdapterModels, AnUploadOfThatNameGoesFirstUntilItIsUnloaded) {
  open([](auto& o) { o.control = Control::kExplicit, o.allow_config_override = true; });
  ASSERT_TRUE(repo->load("m").ok());
  const LoadParameters good{{"config", R"({"backend": "onnx"})"}, {"file:1/model.onnx", "7"}};
  ASSERT_TRUE(repo->load("sql", good).ok());
  EXPECT_EQ(served("sql")->spec.parent, "");
  ASSERT_TRUE(repo->unload("sql").ok());
  EXPECT_EQ(ask("sql"), "adapter 2");
}

TEST_F(AdapterModels, TheBaseIsUnloadedWhenItsCallsHaveEnded) {
  open();
  ASSERT_TRUE(repo->load("m").ok());
  auto base = served("m");
  std::weak_ptr<bus::Served> sql = served("sql"), poet = served("poet");
  base->in_flight[0].calls = 1;
  ASSERT_TRUE(repo->unload("m").ok());
  for (int i = 0; i < 2000 && !(sql.expired() && poet.expired()); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  repo->rescan();
  EXPECT_EQ(repo->rows(), "m/1 UNLOADING\npoet/1 UNLOADING\nsql/1 UNLOADING\n");
  base->in_flight[0].calls = 0, base.reset();
  const std::string gone = "m/1 UNAVAILABLE (unloaded)\n";
  for (int i = 0; i < 2000 && !repo->rows().starts_with(gone); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(repo->rows().substr(0, gone.size()), gone);
}

struct Unheard final : msg::Sink {
  void on(msg::Call&, msg::Event&&) override {}
};

TEST_F(AdapterModels, CallsThatAShardEndsCountForTheBase) {
  open();
  ASSERT_TRUE(repo->load("m").ok());
  auto base = served("m"), sql = served("sql");
  base::FakeEnv env;
  bus::Bus bus(env, base::ShardId(1), [] {}, {.max_in_flight = 2});
  Unheard sink;
  std::vector<msg::Call*> made;
  for (int i = 0; i < 3; ++i) made.push_back(bus.make_call()), made.back()->sink = &sink;
  made[1]->deadline = env.now() + std::chrono::seconds(1);
  ASSERT_TRUE(bus.submit(made[0], *sql).ok() && bus.submit(made[1], *sql).ok());
  EXPECT_FALSE(bus.submit(made[2], *sql).ok());
  bus.discard(made[2]);
  bus.abandon(made[0]);
  env.advance(std::chrono::seconds(2));
  bus.turn();
  for (const auto& [model, times] : {std::pair(base, 1u), std::pair(sql, 0u)}) {
    EXPECT_EQ(model->stats.cancelled, times) << model->spec.name;
    EXPECT_EQ(model->stats.expired, times) << model->spec.name;
    EXPECT_EQ(model->stats.rejected, times) << model->spec.name;
  }
}

TEST_F(AdapterModels, AnEngineThatServesNoneRefusesThem) {
  disk.write("m/model.yaml", "engine: plain\nadapters: {sql: adapters/sql}\n");
  disk.write("n/1/model.onnx", "n");
  disk.write("n/model.yaml", "adapters: {other: adapters/other}\n");
  open();
  EXPECT_EQ(repo->load("m").text, "failed to load 'm': engine 'plain' serves no adapters");
  EXPECT_EQ(repo->load("n").text, "failed to load 'n': engine 'onnx' serves no adapters");
  EXPECT_EQ(why("sql"), "model 'sql' version 1 is not ready: engine 'plain' serves no adapters");
}

TEST_F(AdapterModels, ARequestForOneBringsTheBaseIntoMemory) {
  disk.write("other/1/model.onnx", "7");
  disk.write("other/model.yaml", "memory: 70\n");
  open(on_demand);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(ask("sql"), "adapter 2");
    EXPECT_EQ(ask("other"), "7");
    EXPECT_EQ(ask("poet"), "adapter 1");
    EXPECT_EQ(ask("other"), "7");
  }
}

TEST(AdapterConfig, NamesAndPathsAreChecked) {
  const std::pair<const char*, const char*> wrong[] = {
      {"{sql: ../other}", "adapter 'sql': '../other' is no path of a folder below the version's folder"},
      {"{sql: /etc}", "adapter 'sql': '/etc' is no path of a folder below the version's folder"},
      {"{sql: a/./b}", "adapter 'sql': 'a/./b' is no path of a folder below the version's folder"},
      {"{sql: \"\"}", "adapter 'sql': '' is no path of a folder below the version's folder"},
      {"{m: a}", "adapter 'm': this is a name of the model itself"},
      {"{Org/M: a}", "adapter 'Org/M': this is a name of the model itself"},
      {"{\"a b\": a}",
       "adapter 'a b': this cannot be the name of a model: letters, digits, '_', '.', '-', ':', '@', "
       "'+', and '/' between parts, at most 200"}};
  for (const auto& [adapters, text] : wrong) {
    auto config = parse_model_yaml("names: [Org/M]\nadapters: " + std::string(adapters), "m/model.yaml", {});
    ASSERT_TRUE(bool(config));
    EXPECT_EQ(check(*config, "m").text, text);
  }
  ModelConfig many;
  for (int i = 0; i < 257; ++i) many.adapters["a" + std::to_string(i)] = "a";
  EXPECT_EQ(check(many, "m").text, "257 adapters: at most 256 are possible");
  ModelConfig beside;
  beside.adapters["sql"] = "a", beside.origins["origins"] = "http://x";
  EXPECT_EQ(check(beside, "m").text, "adapters go with a model that runs here: with no pipeline, and no 'origins'");
  beside.origins.clear(), beside.engine = kPipeline;
  EXPECT_EQ(check(beside, "m").text, "adapters go with a model that runs here: with no pipeline, and no 'origins'");
}

}  // namespace
}  // namespace weir::models
