// Adapters that come and go while their model serves: those of load requests, and those in the model's folder.
#include "models/loaded_adapters.h"

#include <filesystem>
#include <thread>

#include "base/fake_env.h"
#include "bus/bus.h"
#include "loaded_adapters_fixture.h"

namespace weir::models {
namespace {

TEST_F(LoadedAdapterModels, ARequestLoadsOneAsAModelAndUnloadsIt) {
  open();
  EXPECT_EQ(load("my/sql", "sql"), "");
  EXPECT_EQ(load("poet", more.root() + "/in/poet/"), "") << "a whole path";
  EXPECT_EQ(ask("my/sql"), "+0");
  EXPECT_EQ(ask("poet"), "+1");
  EXPECT_EQ(served("poet")->spec.parent, "m");
  EXPECT_EQ(served("poet")->spec.root, "poet");
  EXPECT_EQ(adapter_memory(), 17u);
  EXPECT_EQ(load("poet", "sql"), "the name 'poet' is that of a model, or of an adapter");
  EXPECT_EQ(load("m", "sql"), "the name 'm' is that of a model, or of an adapter");
  EXPECT_EQ(load("Org/M", "sql"), "the name 'Org/M' is that of a model, or of an adapter");
  EXPECT_TRUE(repo->unload("poet").ok());
  EXPECT_EQ(ask("poet"), "no such model");
  EXPECT_TRUE(soon([&] { return adapter_memory() == 10; })) << "memory is given back";
  EXPECT_EQ(load("poet", "poet"), "");
  EXPECT_EQ(ask("poet"), "+2") << "a number is never another adapter's";
}

TEST_F(LoadedAdapterModels, RequestsInsideEndWithTheOneThatIsUnloadedOrReplaced) {
  open();
  ASSERT_EQ(load("sql", "sql"), "");
  auto old = served("sql");
  old->in_flight[0].calls = 1;
  ASSERT_EQ(load("sql", "poet", {{"load_inplace", "true"}}), "");
  EXPECT_EQ(ask("sql"), "+1");
  EXPECT_EQ(caller.answer(caller.call(*old)), "+0");
  EXPECT_EQ(adapter_memory(), 17u) << "both are in memory";
  old->in_flight[0].calls = 0, old.reset();
  EXPECT_TRUE(soon([&] { return adapter_memory() == 7; }));
  auto inside = served("sql");
  inside->in_flight[0].calls = 1;
  ASSERT_TRUE(repo->unload("sql").ok());
  EXPECT_EQ(ask("sql"), "no such model");
  EXPECT_EQ(adapter_memory(), 7u);
  inside->in_flight[0].calls = 0, inside.reset();
  EXPECT_TRUE(soon([&] { return adapter_memory() == 0; }));
}

TEST_F(LoadedAdapterModels, TheyComeBackWithTheirModel) {
  open();
  ASSERT_EQ(load("sql", "sql"), "");
  disk.write("m/1/config.json", "{ }");
  ASSERT_TRUE(repo->load("m").ok()) << "other files: another engine";
  EXPECT_EQ(ask("sql"), "+0");
  EXPECT_EQ(adapter_memory(), 10u);
  ASSERT_TRUE(repo->unload("m").ok());
  EXPECT_EQ(ask("sql"), "no such model");
  EXPECT_EQ(load("poet", "poet", {{"base_model_name", "m"}}), "model 'm' is not loaded, or was replaced meanwhile");
  ASSERT_TRUE(repo->load("m").ok());
  EXPECT_EQ(ask("sql"), "+0");
  more.remove("in/sql");
  disk.write("m/1/config.json", "{  }");
  ASSERT_TRUE(repo->load("m").ok()) << "an adapter that is gone does not keep its model away";
  EXPECT_EQ(ask("sql"), "no such model");
  EXPECT_NE(repo->rows().find("sql/1 UNAVAILABLE (there is no file"), std::string::npos) << repo->rows();
  for (const auto& row : repo->now()->index) EXPECT_EQ(row.parent, row.name == "sql" ? "m" : "") << row.name;
  EXPECT_TRUE(repo->unload("sql").ok());
  EXPECT_EQ(repo->rows(), "m/1 READY\n");
}

TEST_F(LoadedAdapterModels, ANewVersionHasThemToo) {
  open();
  ASSERT_EQ(load("sql", "sql"), "");
  disk.write("m/2/config.json", "{}");
  ASSERT_TRUE(repo->load("m").ok());
  EXPECT_EQ(served("sql")->spec.version, "2");
  EXPECT_EQ(ask("sql"), "+0");
}

TEST_F(LoadedAdapterModels, PathsLeadNowhereElse) {
  more.link("in/link", "../out/secret");
  more.link("in/loop", "loop");
  std::filesystem::create_directories(more.root() + "/in/file");
  more.link("in/file/adapter_config.json", more.root() + "/out/secret/adapter_config.json");
  std::filesystem::create_directories(more.root() + "/inner/x");
  more.write("inner/x/adapter_config.json", "1");
  open();
  const std::string outside = "the path of an adapter must lie below a folder of models.adapter_roots, without '..'";
  const std::string root = more.root();
  for (const std::string& path :
       {std::string("../out/secret"), root + "/out/secret", root + "/in/../out/secret", root + "/inner/x",
        std::string("/etc"), std::string("/"), std::string("."), std::string(".."), std::string("sql/../../out/secret"),
        root + "/in", std::string("./sql"), std::string("sql//x"), std::string("a\0b", 3), std::string(5000, 'a'),
        std::string("//") + root.substr(1) + "/in/sql", std::string("~/sql"), std::string("file:///etc")})
    EXPECT_NE(load("x", path).find(path == "~/sql" ? "No adapter found" : outside), std::string::npos)
        << path << load("x", path);
  EXPECT_EQ(load("x", ""), outside);
  for (const char* path : {"link", "loop", "file"})
    EXPECT_NE(load("x", path).find("symbolic link"), std::string::npos) << path << ' ' << load("x", path);
  EXPECT_EQ(load("x", "nothing"), "No adapter found for nothing");
  EXPECT_EQ(load("x", "broken"), "broken: it is broken");
  EXPECT_NE(load("a b", "sql").find("cannot be the name"), std::string::npos);
  EXPECT_NE(load("../x", "sql").find("cannot be the name"), std::string::npos);
  EXPECT_EQ(repo->rows(), "m/1 READY\n");
}

TEST_F(LoadedAdapterModels, WithoutRootsThereAreNone) {
  open([](auto& o) { o.control = Control::kExplicit, o.adapter_roots.clear(); });
  EXPECT_EQ(repo->load("sql", {{"lora_path", "sql"}}).code, base::Code::kPermissionDenied);
}

TEST_F(LoadedAdapterModels, TheModelThatIsMeantIsNamedWhereSeveralTakeThem) {
  disk.write("n/model.yaml", "engine: tokens\n");
  disk.write("n/1/config.json", "{}");
  disk.write("o/1/model.onnx", "1");
  open([](auto& o) { o.control = Control::kNone; });
  EXPECT_EQ(load("sql", "sql"), "several models take adapters: 'base_model_name' must say which is meant");
  EXPECT_EQ(load("sql", "sql", {{"base_model_name", "Org/M"}}), "") << "control: none does not matter";
  EXPECT_EQ(load("poet", "poet", {{"base_model_name", "n"}}), "");
  EXPECT_EQ(served("poet")->spec.parent, "n");
  EXPECT_EQ(load("sql", "sql", {{"base_model_name", "n"}, {"load_inplace", "true"}}),
            "the name 'sql' is that of a model, or of an adapter");
  EXPECT_EQ(load("x", "sql", {{"base_model_name", "o"}}),
            "model 'o' takes no adapters: those that make tokens on the CPU do (parameters: {device: cpu})");
  EXPECT_EQ(load("x", "sql", {{"base_model_name", "nowhere"}}), "no model 'nowhere' in the repository");
  EXPECT_TRUE(repo->unload("sql").ok());
  EXPECT_FALSE(repo->unload("n").ok()) << "models do, with control: explicit";
}

TEST_F(LoadedAdapterModels, LoadsOfOneNameAtOnceHaveOneWinner) {
  disk.write("n/model.yaml", "engine: tokens\n");
  disk.write("n/1/config.json", "{}");
  open([](auto& o) { o.control = Control::kNone, o.load_threads = 2; });
  FakeLoader::hold = true;
  std::vector<std::string> said(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < said.size(); ++i)
    threads.emplace_back([&, i] { said[i] = load("sql", "sql", {{"base_model_name", i % 2 ? "m" : "n"}}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  FakeLoader::hold = false;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(std::count(said.begin(), said.end(), ""), 1);
  EXPECT_EQ(ask("sql"), "+0");
}

TEST_F(LoadedAdapterModels, LoadsUnloadsAndReloadsOfTheModelGoBesideEachOther) {
  open();
  std::vector<std::thread> threads;
  for (const std::string name : {"sql", "poet", "third"})
    threads.emplace_back([&, name] {
      Caller mine;
      for (int i = 0; i < 30; ++i) {
        load(name, name == "third" ? "sql" : name, {{"base_model_name", "m"}, {"load_inplace", i % 3 ? "true" : ""}});
        if (auto to = served(name)) mine.answer(mine.call(*to));
        if (i % 4 == 3) (void)repo->unload(name);
      }
    });
  for (int i = 0; i < 20; ++i) {
    disk.write("m/1/config.json", std::string(size_t(i % 5 + 2), ' '));
    (void)repo->load("m");
    if (i % 7 == 6) (void)repo->unload("m");
  }
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(repo->load("m").ok());
  for (const char* name : {"sql", "poet", "third"}) (void)repo->unload(name);
  EXPECT_TRUE(soon([&] { return adapter_memory() == 0; })) << "nothing is lost";
  EXPECT_EQ(repo->rows(), "m/1 READY\n");
}

TEST_F(LoadedAdapterModels, ThoseInTheFolderComeAndGoWithoutTheirModel) {
  disk.write("m/model.yaml", "engine: tokens\nadapters_folder: adapters\n");
  disk.write("m/1/adapters/sql/adapter_config.json", "5");
  disk.write("m/1/adapters/notes.txt", "no adapter");
  open([](auto& o) { o.control = Control::kPoll, o.poll_interval = std::chrono::milliseconds(20); });
  EXPECT_EQ(ask("sql"), "+0");
  const bus::Served* base = served("m").get();
  disk.write("m/1/adapters/poet/adapter_config.json", "6");
  EXPECT_TRUE(soon([&] { return served("poet") != nullptr; }));
  EXPECT_EQ(ask("poet"), "+1");
  EXPECT_EQ(served("poet")->spec.root, "adapters/poet");
  disk.write("m/1/adapters/sql/adapter_config.json", "11");
  EXPECT_TRUE(soon([&] { return ask("sql") == "+2"; })) << "another file: another adapter";
  EXPECT_EQ(repo->unload("sql").code, base::Code::kFailedPrecondition);
  disk.remove("m/1/adapters/poet");
  EXPECT_TRUE(soon([&] { return served("poet") == nullptr; }));
  disk.write("m/1/adapters/sql/adapter_config.json", "broken");
  disk.write("m/1/adapters/bad/adapter_config.json", "x");
  EXPECT_TRUE(soon([&] {
    return repo->rows().find("bad/1 UNAVAILABLE (adapters/bad: it is broken)") != std::string::npos;
  })) << repo->rows();
  EXPECT_EQ(ask("sql"), "+2") << "what is broken takes down nothing that serves";
  disk.remove("m/1/adapters/bad");
  EXPECT_TRUE(soon([&] { return repo->rows() == "m/1 READY\nsql/1 READY\n"; })) << repo->rows();
  EXPECT_EQ(served("m").get(), base) << "the model was never loaded anew";
  EXPECT_TRUE(soon([&] { return adapter_memory() == 11; }));
}

TEST_F(LoadedAdapterModels, AModelOfTheNameGoesBeforeThem) {
  disk.write("m/model.yaml", "engine: tokens\nadapters_folder: adapters\n");
  disk.write("m/1/adapters/b/adapter_config.json", "5");
  disk.write("b/1/model.onnx", "7");
  open([](auto& o) { o.control = Control::kExplicit, o.startup = {"*"}; });
  EXPECT_EQ(load("c", "sql"), "");
  disk.write("c/1/model.onnx", "8");
  ASSERT_TRUE(repo->load("c").ok());
  for (const auto& [name, answer] : {std::pair("b", "7"), std::pair("c", "8")}) {
    EXPECT_EQ(ask(name), answer);
    EXPECT_EQ(repo->unload(name).text, "");
    EXPECT_EQ(ask(name), "no such model");
  }
}

struct Counted final : msg::Sink {
  void on(msg::Call&, msg::Event&& event) override { ended += event.last(); }
  int ended = 0;
};

TEST_F(LoadedAdapterModels, TheyHaveStatisticsOfTheirOwn) {
  open();
  ASSERT_EQ(load("sql", "sql"), "");
  auto sql = served("sql");
  base::FakeEnv env;
  bus::Bus bus(env, base::ShardId(1), [] {}, {.max_in_flight = 2});
  Counted sink;
  auto* call = bus.make_call();
  call->sink = &sink;
  ASSERT_TRUE(bus.submit(call, *sql).ok());
  ASSERT_TRUE(soon([&] { return bus.turn(), sink.ended == 1; }));
  EXPECT_EQ(sql->stats.fail.count, 1u);
  EXPECT_EQ(sql->stats.errors, 1u);
}

}  // namespace
}  // namespace weir::models
