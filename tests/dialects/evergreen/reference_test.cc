// References: what they name below the configured folders, what the Fetcher brings, what counts on its way.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "bench.h"
#include "dialects/evergreen/reference.h"

namespace weir::evergreen {
namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("weir-evergreen-" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
};

TEST(EvergreenReferences, FilesThatPassTheSessionsBytesTogetherAreToldTheLimit) {
  Folder folder;
  folder.write("a.txt", std::string(600'000, 'x'));
  Options options;
  options.references.file_roots = {folder.path.string()};
  options.graph.bytes = 1'000'000;
  Bench t(options);
  auto x = t.open();
  std::string all;
  for (const char* node : {"a", "b", "c"})
    all += "node_fragments { id: '" + std::string(node) +
           "' chunk_fragment { metadata { mimetype: 'text/plain' } ref: 'file:///a.txt' } }";
  t.send(*x, all);
  EXPECT_EQ(t.status(*x),
            "RESOURCE_EXHAUSTED: node 'c', fragment 0: too much is being loaded at once: with it the session's content "
            "passes 1000000 bytes (evergreen.session_bytes)");
}

TEST(EvergreenReferences, FilesBelowARootAreReadAndNoneElsewhere) {
  Folder folder;
  folder.write("root/sub/a.txt", std::string(600'000, 'x'));
  folder.write("secret", "s");
  std::filesystem::create_symlink(folder.path / "secret", folder.path / "root/link");
  std::filesystem::create_symlink(folder.path, folder.path / "root/up");
  Options options;
  options.references.file_roots = {(folder.path / "root").string()};
  auto status = [&](const std::string& ref) {
    Bench t(options);
    auto x = t.open();
    t.send(*x,
           "actions { name: 'ECHO' inputs { name: 'x' id: 'a' } outputs { name: 'x' id: 'e' } }"
           "node_fragments { id: 'a' chunk_fragment { metadata { mimetype: 'text/plain' } ref: '" +
               ref + "' } }");
    for (int i = 0; i < 5; ++i) t.turn();
    return t.status(*x) == "open" ? std::to_string(t.leaf(*x, "e").size()) : t.status(*x).substr(0, 40);
  };
  EXPECT_EQ(status("file:///sub/a.txt"), "600000");
  EXPECT_EQ(status("FILE:sub/%61.txt"), "600000");
  const std::string root = (folder.path / "root").string();
  const std::vector<std::string> inside{"file://" + root + "/sub/a.txt", "file:" + root + "//sub/./a.txt",
                                        "file://localhost" + root + "/sub/%61.txt", "file://sub/a.txt"};
  const std::vector<std::string> outside{"file://" + root,
                                         "file://" + root + "/",
                                         "file://" + root + "/../secret",
                                         "file://" + root + "/link",
                                         "file://" + root + "/up/secret",
                                         "file://" + folder.path.string() + "/secret",
                                         "file://" + root + "sub/a.txt"};
  for (const std::string& good : inside) EXPECT_EQ(status(good), "600000") << good;
  for (const std::string& bad : outside) EXPECT_EQ(status(bad).substr(0, 9), "NOT_FOUND") << bad;
  for (std::string bad : {"file:///nothing", "file:///../secret", "file:///link", "file:///up/secret", "file:///sub",
                          "file:///sub/../../secret", "file:///%2e%2e/secret"})
    EXPECT_EQ(status(bad).substr(0, 9), "NOT_FOUND") << bad;
  EXPECT_EQ(status("file:///a%00b").substr(0, 16), "INVALID_ARGUMENT");
  EXPECT_EQ(status("http://127.0.0.1/").substr(0, 17), "PERMISSION_DENIED");
}

TEST(EvergreenReferences, ARootMayBeALinkAndItsFilesHaveBothNames) {
  Folder folder;
  folder.write("real/a.txt", "hello");
  std::filesystem::create_symlink(folder.path / "real", folder.path / "root");
  Options options;
  options.references.file_roots = {(folder.path / "other").string(), (folder.path / "root").string() + "/"};
  Bench t(options);
  auto x = t.open();
  t.send(*x,
         "actions { name: 'ECHO' inputs { name: 'x' id: 'in' } outputs { name: 'x' id: 'e' } }"
         "node_fragments { id: 'in' child_ids: 'a' child_ids: 'b' }");
  for (const auto& [node, name] : {std::pair("a", "root"), {"b", "real"}})
    t.send(*x, "node_fragments { id: '" + std::string(node) +
                   "' chunk_fragment { metadata { mimetype: 'text/plain' } ref: 'file://" +
                   (folder.path / name / "a.txt").string() + "' } }");
  for (int i = 0; i < 5; ++i) t.turn();
  EXPECT_EQ(t.leaf(*x, "e/0") + t.leaf(*x, "e/1"), "hellohello") << t.status(*x);
}

std::string reference(const std::string& node, const std::string& uri) {
  return "node_fragments { id: '" + node + "' chunk_fragment { metadata { mimetype: 'text/plain' } ref: '" + uri +
         "' } }";
}

// Brings what the test says, when it says so.
struct FakeWeb final : wire::Fetcher {
  struct Fetching final : Fetch {
    FakeWeb& web;
    std::string uri;
    Receiver& receiver;
    Fetching(FakeWeb& its, std::string_view what, Receiver& who) : web(its), uri(what), receiver(who) {}
    ~Fetching() override { std::erase(web.open, this); }
  };
  std::vector<Fetching*> open;
  base::Result<std::unique_ptr<Fetch>> fetch(std::string_view uri, Receiver& receiver) override {
    if (uri.find("denied") != uri.npos) return base::failure(base::Code::kPermissionDenied, "not allowed");
    auto made = std::make_unique<Fetching>(*this, uri, receiver);
    open.push_back(made.get());
    return std::unique_ptr<Fetch>(std::move(made));
  }
};

TEST(EvergreenReferences, ReferencesToTheWebAreTheFetchers) {
  FakeWeb web;
  Bench t({}, &web);
  auto x = t.open();
  t.send(*x, kEcho + reference("a", "HTTPS://a.example/x"));
  ASSERT_EQ(web.open.size(), 1u);
  EXPECT_EQ(web.open[0]->uri, "HTTPS://a.example/x");
  EXPECT_TRUE(web.open[0]->receiver.on_growth(5));
  EXPECT_EQ(t.leaf(*x, "e"), "…");
  web.open[0]->receiver.on_fetched(base::Bytes::copy_of("hello"));
  t.turn();
  EXPECT_EQ(t.leaf(*x, "e"), "hello");
  EXPECT_TRUE(web.open.empty());
  t.send(*x, reference("b", "http://denied/"));
  EXPECT_EQ(t.status(*x), "PERMISSION_DENIED: node 'b', fragment 0: ref 'http://denied/': not allowed");
}

TEST(EvergreenReferences, AFetchThatFailsEndsTheSessionAndNamesTheReference) {
  FakeWeb web;
  Bench t({}, &web);
  auto x = t.open();
  t.send(*x, reference("a", "https://a.example/x") + reference("b", "https://b.example/x"));
  web.open[1]->receiver.on_fetched(base::failure(base::Code::kNotFound, "its server answers with status 404"));
  EXPECT_EQ(t.status(*x),
            "NOT_FOUND: node 'b', fragment 0: ref 'https://b.example/x': its server answers with status 404");
  EXPECT_TRUE(web.open.empty()) << "the other one is not waited for";
}

TEST(EvergreenReferences, TheEndOfTheSessionEndsItsFetches) {
  FakeWeb web;
  Bench t({}, &web);
  {
    auto x = t.open();
    t.send(*x, reference("a", "https://a.example/x"));
    EXPECT_EQ(web.open.size(), 1u);
  }
  EXPECT_TRUE(web.open.empty());
}

TEST(EvergreenReferences, WhatWasOnItsWayToADroppedNodeIsNotForTheNextOneOfItsName) {
  FakeWeb web;
  Bench t({}, &web);
  auto x = t.open();
  t.send(*x, reference("a", "https://a.example/first"));
  t.send(*x, "actions { name: 'DROP' inputs { name: 'node' id: 'a' } }");
  t.send(*x, reference("a", "https://a.example/second") + kEcho);
  ASSERT_EQ(web.open.size(), 2u);
  web.open[0]->receiver.on_fetched(base::Bytes::copy_of("first"));
  t.turn();
  EXPECT_EQ(t.leaf(*x, "e"), "…");
  ASSERT_EQ(web.open.size(), 1u);
  web.open[0]->receiver.on_fetched(base::Bytes::copy_of("second"));
  t.turn();
  EXPECT_EQ(t.leaf(*x, "e"), "second");
}

TEST(EvergreenReferences, AFetchForADroppedNodeMayFail) {
  FakeWeb web;
  Bench t({}, &web);
  auto x = t.open();
  t.send(*x, reference("a", "https://a.example/x") + reference("b", "https://b.example/x"));
  t.send(*x, "actions { name: 'DROP' inputs { name: 'node' id: 'a' } }");
  web.open[0]->receiver.on_fetched(base::failure(base::Code::kNotFound, "its server answers with status 404"));
  t.turn();
  EXPECT_EQ(t.status(*x), "open");
  t.send(*x, "actions { name: 'DROP' inputs { name: 'node' id: 'b' } }");
  t.send(*x, "actions { name: 'DROP' inputs { name: 'node' id: 'b' } }" + reference("b", "https://c.example/x"));
  ASSERT_EQ(web.open.size(), 2u);
  web.open[0]->receiver.on_fetched(base::failure(base::Code::kNotFound, "its server answers with status 404"));
  t.turn();
  EXPECT_EQ(t.status(*x), "open");
}

TEST(EvergreenReferences, WhatIsOnItsWayCountsAsContent) {
  FakeWeb web;
  Options options;
  options.graph.bytes = 100'000;
  Bench t(options, &web);
  auto x = t.open();
  t.send(*x, reference("a", "https://a.example/x") + reference("b", "https://b.example/x"));
  EXPECT_TRUE(web.open[0]->receiver.on_growth(60'000));
  EXPECT_FALSE(web.open[1]->receiver.on_growth(60'000));
  t.send(*x, reference("c", "https://c.example/x"));
  EXPECT_EQ(t.status(*x).substr(0, 18), "RESOURCE_EXHAUSTED");
}

// A listener that counts loads, and holds the last one.
struct Ear final : Load::Listener {
  bool on_growth() override { return true; }
  void on_loaded(Load&, base::Result<base::Bytes> data) override {
    said = data ? std::to_string(data->size()) : std::string(base::name(data.error().code));
  }
  std::string said;
};

TEST(EvergreenReferences, WhatIsBeingLoadedIsChargedAndRefusedWhereThereIsNoMemory) {
  Folder folder;
  folder.write("a.txt", std::string(600'000, 'x'));
  References references;
  references.file_roots = {folder.path.string()};
  base::FakeEnv env;
  FakeWeb web;
  base::MemoryLedger ledger(1 << 20);
  Ear ear;
  const Library library{env, references, &web, &ledger};

  auto file = load(library, "file:a.txt", ear);
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(ledger.held(base::MemoryKind::kInput), 600'000u);
  auto second = load(library, "file:a.txt", ear);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, base::Code::kResourceExhausted);
  EXPECT_NE(second.error().text.find("there is no memory for it"), std::string::npos);
  for (int i = 0; i < 5; ++i) env.advance(std::chrono::milliseconds(1));
  EXPECT_EQ(ear.said, "600000");
  EXPECT_EQ(ledger.held(), 0u) << "the session counts it now";

  auto fetch = load(library, "https://a.example/x", ear);
  ASSERT_TRUE(fetch);
  EXPECT_TRUE(web.open[0]->receiver.on_growth(700'000));
  EXPECT_EQ(ledger.held(), 700'000u);
  EXPECT_FALSE(web.open[0]->receiver.on_growth(2'000'000));
  EXPECT_EQ(ledger.held(), 700'000u);
  fetch->reset();
  EXPECT_EQ(ledger.held(), 0u);
  file = load(library, "file:a.txt", ear);
  file->reset();
  EXPECT_EQ(ledger.held(), 0u);
}

}  // namespace
}  // namespace weir::evergreen
