#include "models/repository.h"

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "bus/memory_use.h"
#include "bus/readiness.h"
#include "repository_fixture.h"

namespace weir::models {
namespace {

TEST(Repository, InstancesAreMadeForTheDevicesOfTheConfiguration) {
  test::Disk disk({{"spread/model.yaml", "engine: builtin\ndevices: [\"cuda:0\", \"cuda:1\"]\ninstances: 2\n"},
                   {"cpu/1/model.onnx", "1"},
                   {"cpu/config.pbtxt", "instance_group [ { kind: KIND_GPU gpus: [ 0 ] } ]"}});
  devices_of.clear();
  Repo repo(disk, [](RepositoryOptions& o) { o.devices.gpus = 2, o.devices.engines = {"builtin"}; });
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(devices_of["spread"], (std::vector<std::string>{"cuda:0", "cuda:0", "cuda:1", "cuda:1"}));
  const auto& spec = repo.now()->models.at("spread").preferred->spec;
  EXPECT_EQ(spec.instances, 4u);
  EXPECT_EQ(spec.parameters.count("device"), 0u);
  EXPECT_NE(repo.rows().find("cpu/1 UNAVAILABLE (instances on cuda:0 are asked for, but the engine 'onnx' computes on "
                             "the CPU alone"),
            std::string::npos)
      << repo.rows();
}

// A client that has read that the server listens may come to any shard.
TEST(Repository, StartEndsWhenEveryShardHasTheModels) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::function<void()>> unsettled;  // what shards have not taken yet
  bool ready = false;
  RepositoryOptions options;
  options.roots = {disk.root()};
  Repository repository(std::move(options), {{"onnx", make_fake}}, base::heap(),
                        [&](std::shared_ptr<const bus::Catalog> next, std::function<void()> settled) {
                          std::lock_guard lock(mutex);
                          unsettled.push_back(std::move(settled));
                          ready = next->find("m", "").has_value();
                          changed.notify_one();
                        });
  auto started = std::async(std::launch::async, [&] { return repository.start(); });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return ready; });
  EXPECT_EQ(started.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  for (auto& settled : unsettled) settled();
  unsettled.clear();
  lock.unlock();
  EXPECT_TRUE(started.get().ok());
}

TEST(Repository, ABareModelIsServedWithEverythingDerived) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.rows(), "m/1 READY\n");
  auto served = repo.now()->find("m", "");
  ASSERT_TRUE(served);
  EXPECT_EQ((*served)->spec.engine, "onnx");
  EXPECT_EQ((*served)->spec.max_batch, 32u);
  EXPECT_EQ((*served)->spec.inputs.at(0).name, "x");
}

TEST(Repository, InstancesInOnePlaceShareTheMemoryOfTheFiles) {
  test::Disk disk(
      {{"m/1/model.onnx", "a2345"}, {"m/model.yaml", "instances: 3\n"}, {"b/model.yaml", "engine: builtin\n"}});
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  const auto memory = bus::memory_of(**repo.now()->find("m", ""));
  ASSERT_EQ(memory.size(), 1u);
  EXPECT_EQ(memory[0].what, "weights");
  EXPECT_EQ(memory[0].place, "cpu");
  EXPECT_EQ(memory[0].bytes, 5u);
  EXPECT_TRUE(bus::memory_of(**repo.now()->find("b", "")).empty()) << "it has no files";
}

TEST(Repository, TheNewestVersionIsServedUnlessThePolicySaysMore) {
  test::Disk disk;
  for (const char* v : {"1", "2", "10"}) {
    disk.write("latest/" + std::string(v) + "/model.onnx", "a");
    disk.write("all/" + std::string(v) + "/model.onnx", "a");
  }
  disk.write("all/config.pbtxt", "version_policy { all {} }");
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.rows(), "all/1 READY\nall/2 READY\nall/10 READY\nlatest/10 READY\n");
  EXPECT_EQ((*repo.now()->find("all", ""))->spec.version, "10");
}

TEST(Repository, EveryFailureIsARowWithItsReasonAndTheRestServes) {
  test::Disk disk(
      {{"bad/1/model.onnx", "broken"},
       {"both/1/model.onnx", "a"},
       {"both/config.pbtxt", ""},
       {"both/model.yaml", ""},
       {"empty/1/readme", ""},
       {"engine/1/model.onnx", "a"},
       {"engine/model.yaml", "engine: tensorrt"},
       {"good/1/model.onnx", "a"},
       {"loose/model.onnx", "a"},
       {"pointer/1/model.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 132344\n"},
       {"other/1/model.onnx", "a"},
       {"other/config.pbtxt", "name: \"another\""},
       {"syntax/1/model.onnx", "a"},
       {"syntax/config.pbtxt", "name: \"syntax\"\nbakend: \"x\""},
       {"throws/1/model.onnx", "throw"},
       {"stray/notes.md", "not a model"}});
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(
      repo.rows(),
      "bad/1 UNAVAILABLE (cannot parse bad/1/model.onnx)\n"
      "both/ UNAVAILABLE (both has both config.pbtxt and model.yaml; keep one of them)\n"
      "empty/1 UNAVAILABLE (no model file in empty/1/ (looked for model.onnx, config.json, *.gguf and model.py))\n"
      "engine/1 UNAVAILABLE (no engine 'tensorrt' here; there are builtin, onnx; export the model to ONNX, or run it "
      "in a model.py (backend: \"python\"))\n"
      "good/1 READY\n"
      "loose/ UNAVAILABLE (model 'loose' has no version folder; move model.onnx into loose/1/)\n"
      "other/ UNAVAILABLE (the configuration is for 'another', but its folder is 'other')\n"
      "pointer/1 UNAVAILABLE (cannot parse pointer/1/model.onnx; model.onnx is a Git LFS pointer: run 'git lfs pull' "
      "where it was cloned)\n"
      "stray/ UNAVAILABLE (model 'stray' has no version folder; stray/1/ with model.onnx, config.json, a *.gguf "
      "file or model.py in it would be one)\n"
      "syntax/ UNAVAILABLE (syntax/config.pbtxt:2:1: unknown field 'bakend' in ModelConfig, did you mean 'backend'?)\n"
      "throws/1 UNAVAILABLE (loading failed: surprise)\n");
}

TEST(Repository, FoldersThatCannotBeServedHaveARowThatSaysWhyAndKeepNobodyFromBeingReady) {
  test::Disk disk({{"good/1/model.onnx", "a"},
                   {"good/v2/model.onnx", "a"},
                   {"good/assets/readme", "a"},
                   {"my model/1/model.onnx", "a"},
                   {"named/v1/model.onnx", "a"}});
  disk.link("good/3", "1");
  disk.link("linked", "good");
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  const std::string number = "the folder of a version is called by its number alone: 1, 2, …",
                    link = "the folder of a version is no symbolic link; link the model's folder instead";
  EXPECT_EQ(repo.rows(),
            "good/1 READY\ngood/3 UNAVAILABLE (" + link + ")\ngood/v2 UNAVAILABLE (" + number +
                ")\nlinked/1 READY\nlinked/3 UNAVAILABLE (" + link + ")\nlinked/v2 UNAVAILABLE (" + number +
                ")\nmy model/ UNAVAILABLE ('my model' cannot be a model's name: letters, digits, '_', '.', "
                "'-' and ',' only, at most 128)\nnamed/ UNAVAILABLE (model 'named' has no version folder; "
                "named/v1: " +
                number + ")\nnamed/v1 UNAVAILABLE (" + number + ")\n");
  disk.remove("my model");
  disk.remove("named");
  repo.rescan();
  EXPECT_EQ(bus::why_not_ready(*repo.now(), bus::ReadinessRule::kStrict), "");
}

TEST(Repository, StrictStartFailsWithTheFirstReason) {
  test::Disk disk({{"bad/1/model.onnx", "broken"}});
  Repo repo(disk, [](auto& o) { o.strict = true; });
  EXPECT_EQ(repo.repository->start().text, "model 'bad': cannot parse bad/1/model.onnx");
}

TEST(Repository, AMissingRootIsAnError) {
  test::Disk disk;
  Repo repo(disk, [](auto& o) { o.roots.push_back("/no/such/folder"); });
  EXPECT_EQ(repo.repository->start().code, base::Code::kNotFound);
}

TEST(Repository, ABuiltInEngineNeedsNoFiles) {
  test::Disk disk({{"one/config.pbtxt", "backend: \"builtin\""},
                   {"two/config.pbtxt", "backend: \"builtin\""},
                   {"two/3/.keep", ""}});
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.rows(), "one/1 READY\ntwo/3 READY\n");
}

TEST(Repository, LabelsComeFromTheirFile) {
  test::Disk disk({{"m/1/model.onnx", "a"},
                   {"m/names.txt", "zero\r\none\n\nthree"},
                   {"m/model.yaml", "outputs: [{name: y, labels: names.txt}]"}});
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.outputs.at(0).labels,
            (std::vector<std::string>{"zero", "one", "", "three"}));
}

TEST(Repository, ARescanReloadsOnlyWhatChanged) {
  test::Disk disk({{"m/model.yaml", "versions: all"}, {"m/1/model.onnx", "a"}, {"m/2/model.onnx", "a"}});
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  auto* one = *repo.now()->find("m", "1");
  int before = made;
  disk.write("m/2/model.onnx", "b");
  repo.rescan();
  EXPECT_EQ(made, before + 1);
  EXPECT_EQ(*repo.now()->find("m", "1"), one);
  disk.remove("m/1");
  disk.write("n/1/model.onnx", "c");
  repo.rescan();
  EXPECT_EQ(repo.rows(), "m/2 READY\nn/1 READY\n");
}

TEST(Repository, ABrokenReloadLeavesTheOldServingAndSaysWhy) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  auto* old = *repo.now()->find("m", "");
  const std::string on = "the reload failed, what was loaded before serves on: ";
  disk.write("m/1/model.onnx", "broken");
  repo.rescan();
  EXPECT_EQ(*repo.now()->find("m", ""), old);
  EXPECT_EQ(repo.rows(), "m/1 READY (" + on + "cannot parse m/1/model.onnx)\n");
  disk.write("m/model.yaml", "max_bach: 3");
  repo.rescan();
  EXPECT_EQ(*repo.now()->find("m", ""), old);
  EXPECT_EQ(repo.rows(), "m/1 READY (" + on + "m/model.yaml:1:1: unknown key 'max_bach', did you mean 'max_batch'?)\n");
  disk.write("m/model.yaml", "max_batch: 3");
  disk.write("m/1/model.onnx", "c");
  repo.rescan();
  EXPECT_EQ(repo.rows(), "m/1 READY\n");
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.max_batch, 3u);
}

TEST(Repository, ABrokenNewVersionDoesNotPushTheOldOneOut) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  disk.write("m/2/model.onnx", "broken");
  repo.rescan();
  EXPECT_EQ(repo.rows(), "m/1 READY\nm/2 UNAVAILABLE (cannot parse m/2/model.onnx)\n");
  EXPECT_EQ((*repo.now()->find("m", ""))->spec.version, "1");
  disk.write("m/2/model.onnx", "b");
  repo.rescan();
  EXPECT_EQ(repo.rows(), "m/2 READY\n");
}

TEST(Repository, LoadAndUnloadByRequest) {
  test::Disk disk({{"m/1/model.onnx", "a"}, {"n/1/model.onnx", "a"}});
  Repo repo(disk, [](auto& o) { o.control = Control::kExplicit, o.startup = {"n"}; });
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.rows(), "m/ UNAVAILABLE (not loaded)\nn/1 READY\n");
  EXPECT_TRUE(repo.load("m").ok());
  EXPECT_TRUE(repo.now()->find("m", ""));
  int before = made;
  EXPECT_TRUE(repo.load("m").ok());  // nothing changed
  EXPECT_EQ(made, before);
  EXPECT_TRUE(repo.unload("m").ok());
  EXPECT_EQ(repo.now()->find("m", "").error().code, base::Code::kUnavailable);
  EXPECT_TRUE(repo.load("m").ok());
  EXPECT_TRUE(repo.now()->find("m", ""));
  EXPECT_EQ(repo.load("mm").code, base::Code::kNotFound);
  EXPECT_EQ(repo.load("../m").code, base::Code::kInvalidArgument);
  EXPECT_EQ(repo.unload("zzz").code, base::Code::kNotFound);
}

TEST(Repository, LoadingByRequestNeedsExplicitControl) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  Repo repo(disk);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.load("m").code, base::Code::kFailedPrecondition);
  EXPECT_EQ(repo.unload("m").code, base::Code::kFailedPrecondition);
}

TEST(Repository, ALoadThatFailsSaysWhy) {
  test::Disk disk({{"m/1/model.onnx", "broken"}});
  Repo repo(disk, explicitly);
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.load("m").text, "failed to load 'm': cannot parse m/1/model.onnx");
  EXPECT_EQ(repo.rows(), "m/1 UNAVAILABLE (cannot parse m/1/model.onnx)\n");
}

TEST(Repository, PollingTakesAChangeByItself) {
  test::Disk disk({{"m/1/model.onnx", "a"}});
  Repo repo(disk, [](auto& o) { o.control = Control::kPoll, o.poll_interval = std::chrono::milliseconds(1); });
  EXPECT_TRUE(repo.repository->start().ok());
  disk.write("m/2/model.onnx", "b");
  while (repo.rows() != "m/2 READY\n") std::this_thread::yield();
  disk.remove("m");
  while (!repo.rows().empty()) std::this_thread::yield();
}

TEST(Repository, ARootCanBeOneFile) {
  test::Disk disk, files;
  files.write("nets/small.onnx", "a");
  files.write("deep/7/model.onnx", "b");
  files.write("deep/8/model.onnx", "c");
  files.write("deep/config.pbtxt", "max_batch_size: 3");
  files.write("flat/model.onnx", "d");
  Repo repo(disk, [&](auto& o) {
    for (const char* file : {"/nets/small.onnx", "/deep/7/model.onnx", "/flat/model.onnx"})
      o.roots.push_back(files.root() + file);
  });
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.rows(), "deep/7 READY\nflat/1 READY\nsmall/1 READY\n");
  EXPECT_EQ((*repo.now()->find("deep", ""))->spec.max_batch, 3u);
  int before = made;
  files.write("nets/small.onnx", "ab");
  repo.rescan();
  EXPECT_EQ(made, before + 1);
}

TEST(Repository, AFileAloneThatIsBrokenSaysSoWithoutPathsOfThisMachine) {
  test::Disk disk, files;
  files.write("x/net.onnx", "broken");
  Repo repo(disk, [&](auto& o) { o.roots = {files.root() + "/x/net.onnx"}; });
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.rows(), "net/1 UNAVAILABLE (cannot parse x/net.onnx)\n");
}

TEST(Repository, UnknownParametersOfAModelYamlAreErrors) {
  test::Disk disk;
  for (const char* name : {"near", "far", "good", "triton"}) disk.write(std::string(name) + "/1/model.onnx", "a");
  disk.write("near/model.yaml", "engine: onnx\nparameters:\n  kv_cach: 1GiB\n");
  disk.write("far/model.yaml", "parameters: {frobnicate: 1}\n");
  disk.write("good/model.yaml", "parameters: {kv_cache: 1GiB}\n");
  disk.write("triton/config.pbtxt", "parameters { key: \"ENABLE_X\" value { string_value: \"1\" } }");
  disk.write("pipe/model.yaml", "engine: pipeline\ndag: {nodes: [{model: good}]}\nparameters: {a: b}\n");
  Repo repo(disk, [](auto& o) { o.parameters["onnx"] = {"kv_cache", "threads"}; });
  EXPECT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(
      repo.rows(),
      "far/1 UNAVAILABLE (far/model.yaml:1:14: engine 'onnx' has no parameter 'frobnicate'; it takes kv_cache, "
      "threads)\n"
      "good/1 READY\n"
      "near/1 UNAVAILABLE (near/model.yaml:3:3: engine 'onnx' has no parameter 'kv_cach', did you mean 'kv_cache'?)\n"
      "pipe/1 UNAVAILABLE (pipe/model.yaml:3:14: engine 'pipeline' has no parameter 'a'; it takes none)\n"
      "triton/1 READY\n");
}

TEST(Repository, WhatNobodyAskedForIsUnloadedAndNotUnavailable) {
  test::Disk disk({{"a/1/model.onnx", "a"}, {"b/1/model.onnx", "broken"}});
  Repo repo(disk, [](auto& o) { o.control = Control::kExplicit; });
  EXPECT_TRUE(repo.repository->start().ok());
  auto states = [&] {
    std::vector<bus::ModelState> out;
    for (const auto& row : repo.now()->index) out.push_back(row.state);
    return out;
  };
  using bus::ModelState;
  EXPECT_EQ(states(), (std::vector{ModelState::kUnloaded, ModelState::kUnloaded}));
  EXPECT_TRUE(repo.load("a").ok());
  EXPECT_FALSE(repo.load("b").ok());
  EXPECT_EQ(states(), (std::vector{ModelState::kReady, ModelState::kUnavailable}));
  EXPECT_TRUE(repo.unload("b").ok());
  EXPECT_EQ(states(), (std::vector{ModelState::kReady, ModelState::kUnloaded}));
}

TEST(Repository, AnInstanceThatNeedsMoreOfAResourceThanThereIsDoesNotLoad) {
  const char* needs =
      "backend: 'builtin' instance_group { kind: KIND_CPU rate_limiter { resources { name: 'R' count: 2 } } }";
  test::Disk disk({{"a/config.pbtxt", needs}, {"b/config.pbtxt", needs}});
  Repo repo(disk, [](RepositoryOptions& options) { options.resources = {{"R", 1}}; });
  ASSERT_TRUE(repo.repository->start().ok());
  EXPECT_EQ(repo.rows(),
            "a/1 UNAVAILABLE (an instance needs 2 of resource 'R', and models.resources has 1)\n"
            "b/1 UNAVAILABLE (an instance needs 2 of resource 'R', and models.resources has 1)\n");
  Repo enough(disk);
  ASSERT_TRUE(enough.repository->start().ok());
  EXPECT_EQ(enough.rows(), "a/1 READY\nb/1 READY\n");
}

}  // namespace
}  // namespace weir::models
