#include "models/folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <tuple>

#include "disk.h"
#include "models/watch.h"
#include "support/few_descriptors.h"

namespace weir::models {
namespace {

TEST(Names, OnlyPlainOnesAreModels) {
  for (std::string_view good : {"a", "A-1_b.c", "model.v2", "nop_-1,-1"}) EXPECT_TRUE(good_model_name(good)) << good;
  EXPECT_TRUE(good_model_name(std::string(128, 'x')));
  for (std::string_view bad : {"", ".", "..", "a..b", ".hidden", "a/b", "a b", "\xc3\xa9", "a\n"})
    EXPECT_FALSE(good_model_name(bad)) << bad;
  EXPECT_FALSE(good_model_name(std::string(129, 'x')));
}

TEST(Names, VersionsArePositiveNumbers) {
  EXPECT_EQ(version_number("1"), 1u);
  EXPECT_EQ(version_number("20240101"), 20240101u);
  for (std::string_view bad : {"", "0", "01", "-1", "1a", "v1", "1234567890123456789"})
    EXPECT_EQ(version_number(bad), 0u) << bad;
}

TEST(Names, RelativePathsStayInside) {
  for (std::string_view good : {"a", "1/model.onnx", "a/b/c"}) EXPECT_TRUE(good_relative_path(good)) << good;
  for (std::string_view bad : {"", "/a", "a//b", "../a", "a/..", "./a", "a/"})
    EXPECT_FALSE(good_relative_path(bad)) << bad;
  EXPECT_FALSE(good_relative_path(std::string_view("a\0b", 3)));
}

TEST(Folder, VersionsAndSharedFilesAreSeenApart) {
  test::Disk disk(
      {{"m/config.pbtxt", "x"}, {"m/1/model.onnx", "abc"}, {"m/12/sub/part.bin", "d"}, {"m/notes/readme", "ignored"}});
  auto folder = read_model_folder(disk.root(), "m");
  ASSERT_TRUE(folder);
  EXPECT_TRUE(folder->has("config.pbtxt"));
  EXPECT_EQ(folder->numbers(), (std::vector<uint64_t>{1, 12}));
  EXPECT_EQ(folder->versions.at(12).at(0).path, "sub/part.bin");
}

TEST(Folder, AFingerprintChangesWithItsFilesOnly) {
  test::Disk disk({{"m/1/model.onnx", "abc"}, {"m/2/model.onnx", "abc"}});
  auto before = *read_model_folder(disk.root(), "m");
  EXPECT_EQ(before.fingerprint(), read_model_folder(disk.root(), "m")->fingerprint());
  disk.write("m/2/model.onnx", "abcd");
  auto after = *read_model_folder(disk.root(), "m");
  EXPECT_EQ(before.fingerprint(1), after.fingerprint(1));
  EXPECT_NE(before.fingerprint(2), after.fingerprint(2));
  EXPECT_NE(before.fingerprint(), after.fingerprint());
}

TEST(Folder, AFingerprintChangesWithThePermissionsOfAFile) {
  test::Disk disk({{"m/config.pbtxt", "x"}, {"m/1/model.onnx", "abc"}});
  for (const char* file : {"/m/config.pbtxt", "/m/1/model.onnx"}) {
    ASSERT_EQ(::chmod((disk.root() + file).c_str(), 0), 0);
    const auto before = *read_model_folder(disk.root(), "m");
    ASSERT_EQ(::chmod((disk.root() + file).c_str(), 0644), 0);
    const auto after = *read_model_folder(disk.root(), "m");
    EXPECT_NE(before.fingerprint(), after.fingerprint()) << file;
    EXPECT_NE(before.fingerprint(1), after.fingerprint(1)) << file;
  }
}

// Nothing is known of what cannot be looked at: it is neither gone nor changed.
TEST(Folder, WithoutDescriptorsThereIsNoNewsOfIt) {
  test::Disk disk({{"m/config.pbtxt", "x"}, {"m/1/model.onnx", "abc"}, {"m/1/deep/part.bin", "d"}});
  auto code_with = [&](int left) {
    test::FewDescriptors few(left);
    auto folder = read_model_folder(disk.root(), "m");
    return folder ? base::Code::kOk : folder.error().code;
  };
  for (int left : {0, 1, 2}) EXPECT_EQ(code_with(left), base::Code::kUnavailable) << left;
  EXPECT_EQ(code_with(3), base::Code::kOk);
  test::FewDescriptors none(0);
  EXPECT_EQ(find_model_folder({disk.root(), disk.root()}, "m").error().code, base::Code::kUnavailable);
  auto text = read_file(disk.root() + "/m", "config.pbtxt", 100);
  EXPECT_EQ(text.error().code, base::Code::kUnavailable);
  EXPECT_TRUE(base::worth_trying_again(text.error()));
}

TEST(Files, LinksAndOddThingsAreRefusedInClearWords) {
  test::Disk disk({{"m/real", "secret"}, {"elsewhere", "secret"}});
  disk.link("m/link", "real");
  disk.link("m/out", "../elsewhere");
  disk.link("m/dir", "..");
  ASSERT_EQ(::mkfifo((disk.root() + "/m/fifo").c_str(), 0600), 0);
  std::string m = disk.root() + "/m";
  EXPECT_EQ(*read_file(m, "real", 100), "secret");
  for (const char* link : {"link", "out", "dir/elsewhere"}) {
    auto text = read_file(m, link, 100);
    ASSERT_FALSE(text) << link;
    EXPECT_NE(text.error().text.find("symbolic link"), std::string::npos) << text.error().text;
    EXPECT_EQ(text.error().text.find(disk.root()), std::string::npos);
  }
  EXPECT_EQ(check_file(m, "fifo").text, "m/fifo is not a regular file");
  EXPECT_EQ(check_file(m, "none").code, base::Code::kNotFound);
  EXPECT_EQ(check_file(m, "../elsewhere").code, base::Code::kInvalidArgument);
  EXPECT_FALSE(read_file(m, "real", 3));
}

TEST(Watch, AChangeIsReportedOnceItHasComeToRest) {
  Watch watch;
  watch.took("m", 1);
  EXPECT_TRUE(watch.compare({{"m", 1}}, Watch::Settle::kYes).changed.empty());
  EXPECT_TRUE(watch.compare({{"m", 2}}, Watch::Settle::kYes).changed.empty());  // still being written
  EXPECT_TRUE(watch.compare({{"m", 3}}, Watch::Settle::kYes).changed.empty());
  EXPECT_EQ(watch.compare({{"m", 3}}, Watch::Settle::kYes).changed, std::vector<std::string>{"m"});
  watch.took("m", 3);
  EXPECT_TRUE(watch.compare({{"m", 3}}, Watch::Settle::kYes).changed.empty());
}

TEST(Watch, WhatHasFailedIsReportedAgainToWhoAsks) {
  Watch watch;
  watch.took("m", 1), watch.took("n", 1);
  watch.failed("m");
  EXPECT_TRUE(watch.compare({{"m", 1}, {"n", 1}}, Watch::Settle::kYes).changed.empty());
  EXPECT_EQ(watch.compare({{"m", 1}, {"n", 1}}, Watch::Settle::kNo).changed, std::vector<std::string>{"m"});
  watch.took("m", 1);
  EXPECT_TRUE(watch.compare({{"m", 1}, {"n", 1}}, Watch::Settle::kNo).changed.empty());
}

TEST(Watch, ANewModelIsWaitedForToo) {
  Watch watch;
  EXPECT_TRUE(watch.compare({{"n", 1}}, Watch::Settle::kYes).changed.empty());
  EXPECT_EQ(watch.compare({{"n", 1}}, Watch::Settle::kYes).changed, std::vector<std::string>{"n"});
}

TEST(Watch, AFolderMustBeMissingTwice) {
  Watch watch;
  watch.took("m", 1);
  watch.compare({{"m", 1}}, Watch::Settle::kYes);
  EXPECT_TRUE(watch.compare({}, Watch::Settle::kYes).gone.empty());
  EXPECT_TRUE(watch.compare({{"m", 1}}, Watch::Settle::kYes).gone.empty());
  EXPECT_TRUE(watch.compare({}, Watch::Settle::kYes).gone.empty());
  EXPECT_EQ(watch.compare({}, Watch::Settle::kYes).gone, std::vector<std::string>{"m"});
}

TEST(Watch, WhoeverSaysNowIsBelieved) {
  Watch watch;
  watch.took("old", 1);
  auto changes = watch.compare({{"new", 1}}, Watch::Settle::kNo);
  EXPECT_EQ(changes.changed, std::vector<std::string>{"new"});
  EXPECT_EQ(changes.gone, std::vector<std::string>{"old"});
}

TEST(Folder, LinksToFoldersAreModelsAndCachesAreNot) {
  test::Disk disk({{"elsewhere/1/model.onnx", "a"}, {"file", "a"}, {"__pycache__/x.pyc", "a"}, {".git/config", "a"}});
  disk.link("linked", "elsewhere");
  disk.link("not", "file");
  disk.link("dangling", "nowhere");
  EXPECT_EQ(*list_models(disk.root()), (std::vector<std::string>{"elsewhere", "linked"}));
  EXPECT_EQ(read_model_folder(disk.root(), "linked")->numbers(), std::vector<uint64_t>{1});
}

TEST(Folder, AFileIsNamedAfterItselfOrItsFolder) {
  test::Disk disk({{"res net/model.onnx", "a"}, {"blobs/0123", "a"}});
  disk.link("best.onnx", "blobs/0123");
  auto name = [&](const std::string& file) { return list_models(disk.root() + file)->at(0); };
  EXPECT_EQ(name("/res net/model.onnx"), "res_net");
  EXPECT_EQ(name("/best.onnx"), "best");
  auto best = read_model_folder(disk.root() + "/best.onnx", "best");
  ASSERT_TRUE(best);
  EXPECT_EQ(best->lone_file, "0123") << "what is opened is no link";
  EXPECT_TRUE(check_file(best->path, best->relative(1, best->lone_file)).ok());
  EXPECT_FALSE(read_model_folder(disk.root() + "/best.onnx", "worst"));
}

TEST(Folder, AFolderOfHuggingFaceOrOfPythonIsOneModel) {
  test::Disk disk({{"Qwen2.5 B/config.json", "{}"},
                   {"Qwen2.5 B/model.safetensors", "a"},
                   {"Qwen2.5 B/model.yaml", ""},
                   {"scale/model.py", "a"},
                   {"json/config.json", "{}"},
                   {"both/model.py", "a"},
                   {"both/m/1/x", "a"}});
  const std::string text = disk.root() + "/Qwen2.5 B/", python = disk.root() + "/scale";
  EXPECT_EQ(*list_models(text), std::vector<std::string>{"Qwen2.5_B"});
  auto folder = read_model_folder(text, "Qwen2.5_B");
  ASSERT_TRUE(folder);
  EXPECT_EQ(folder->numbers(), std::vector<uint64_t>{1});
  EXPECT_TRUE(folder->has("model.yaml"));
  EXPECT_TRUE(check_file(folder->path, folder->relative(1, folder->lone_file)).ok());
  disk.write("Qwen2.5 B/model.safetensors", "ab");
  EXPECT_NE(read_model_folder(text, "Qwen2.5_B")->fingerprint(), folder->fingerprint()) << "weights are watched";
  EXPECT_EQ(*list_models(python), std::vector<std::string>{"scale"});
  EXPECT_EQ(read_model_folder(python, "scale")->lone_file, "model.py");
  EXPECT_TRUE(list_models(disk.root() + "/json")->empty()) << "without weights";
  EXPECT_EQ(*list_models(disk.root() + "/both"), std::vector<std::string>{"m"}) << "a repository with a script in it";
}

TEST(Folder, PathsInTextsBeginBehindTheRoot) {
  for (auto [path, text, shown] : {
           std::tuple("/srv/models/m", "/srv/models/m/1/a: bad, and '/srv/models/m'", "m/1/a: bad, and 'm'"),
           std::tuple("/srv/models/m", "/srv/models/other is not at x/srv/models/m", "other is not at x/srv/models/m"),
           std::tuple("models/m", "cannot parse models/m/1/model.onnx", "cannot parse m/1/model.onnx"),
           std::tuple("m", "m/1/model.onnx", "m/1/model.onnx"),
           // In a folder below "/", as in a container, no other slash is lost.
           std::tuple("/m", "/m/config.json: 3/4 of text/plain; /m", "m/config.json: 3/4 of text/plain; m"),
           std::tuple("/m", "/models/m/a and /m.x", "/models/m/a and /m.x"),
           std::tuple("/", "cannot open /x.onnx", "cannot open x.onnx"),
       }) {
    ModelFolder folder;
    folder.path = path;
    EXPECT_EQ(folder.without_root(text), shown) << path;
  }
}

// A script that makes models may lie beside them: it is not to run as one.
TEST(Folder, AScriptBesideAnyModelIsNoModel) {
  test::Disk disk({{"newer/model.py", "a"}, {"newer/m/2/model.onnx", "a"}, {"linked/model.py", "a"}, {"m/1/x", "a"}});
  disk.link("linked/n", "../m");
  EXPECT_EQ(*list_models(disk.root() + "/newer"), std::vector<std::string>{"m"});
  EXPECT_EQ(*list_models(disk.root() + "/linked"), std::vector<std::string>{"n"});
}

}  // namespace
}  // namespace weir::models
