// Loading: what is refused and why, what a spec is derived from, where the library is looked for.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "engines/onnx/error.h"
#include "engines/onnx/external_data.h"
#include "engines/onnx/library.h"
#include "engines/onnx/onnx_file.h"
#include "engines/onnx/self_test.h"
#include "engines/onnx/session.h"
#include "support.h"

namespace weir::onnx {
namespace {

namespace fs = std::filesystem;
using base::Code;
using msg::DType;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Scratch {
  fs::path path;
  Scratch() {
    char name[] = "/tmp/weir_onnx_XXXXXX";
    path = mkdtemp(name);
  }
  ~Scratch() { fs::remove_all(path); }
  std::string put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return (path / name).string();
  }
};

class OnnxLoad : public WithRuntime {};

TEST_F(OnnxLoad, WeightsMayLieInAnotherFileOfTheModelsFolder) {
  auto engine = load("external_weights");
  ASSERT_TRUE(engine);
  sched::Batch in = batch(1, {floats("x", {1, 2}, {1, 2})});
  ASSERT_TRUE(engine->step(in).ok());
  EXPECT_EQ(values(in.outputs[0]), (std::vector<float>{11, 22}));
  EXPECT_THAT(refusal("external_beyond"), HasSubstr("ONNX Runtime refuses"));
  EXPECT_THAT(refusal("external_missing"),
              HasSubstr("'weights/none.bin', which holds tensors of the model, is missing"));
}

TEST_F(OnnxLoad, ModelsAreLoadedBesideEachOtherAndThoseOfOneFileStillShareASession) {
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<sched::Engine>> engines(8);
  for (size_t i = 0; i < engines.size(); ++i)
    threads.emplace_back([&, i] {
      msg::ModelSpec wanted;
      wanted.name = "m" + std::to_string(i);
      auto made =
          runtime_.load(wanted, data_file(i % 2 == 0 ? "external_weights.onnx" : "identity_bytes.onnx"), base::heap());
      if (made) engines[i] = *std::move(made);
    });
  for (auto& thread : threads) thread.join();
  for (const auto& engine : engines) ASSERT_TRUE(engine);
  EXPECT_EQ(runtime_.sessions(), 2u);
}

TEST_F(OnnxLoad, NoSessionIsMadeForAModelThatNobodyWants) {
  Place place;
  place.loading = [] { return false; };
  auto made = runtime_.load({}, data_file("external_weights.onnx"), base::heap(), place);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kUnavailable);
  EXPECT_EQ(runtime_.sessions(), 0u);
}

TEST_F(OnnxLoad, EnginesOfTheSameWeightsShareASessionAndNewWeightsMakeANewOne) {
  Scratch scratch;
  fs::create_directory(scratch.path / "weights");
  std::string model = scratch.put("model.onnx", slurp(data_file("external_weights.onnx")));
  auto put_weights = [&](float w) {
    float all[3] = {0, w, w};
    scratch.put("weights/w.bin.new", std::string(reinterpret_cast<const char*>(all), sizeof all));
    fs::rename(scratch.path / "weights/w.bin.new", scratch.path / "weights/w.bin");
  };
  put_weights(1);
  auto a = load_file(model), b = load_file(model);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(runtime_.sessions(), 1u);
  put_weights(2);
  auto c = load_file(model);
  ASSERT_TRUE(c);
  EXPECT_EQ(runtime_.sessions(), 2u);
  sched::Batch in = batch(1, {floats("x", {1, 2}, {1, 2})});
  ASSERT_TRUE((*c)->step(in).ok());
  EXPECT_EQ(values(in.outputs[0]), (std::vector<float>{3, 4}));
}

TEST_F(OnnxLoad, ExternalDataThatLeavesTheFolderIsRefused) {
  for (std::string name : {"external_initializer", "external_absolute", "external_address"})
    EXPECT_THAT(refusal(name), HasSubstr("only files in the model file's own folder and below are read")) << name;
  Scratch scratch;
  std::string model = scratch.put("model.onnx", slurp(data_file("external_weights.onnx")));
  fs::create_directory_symlink("/etc", scratch.path / "weights");
  auto linked = load_file(model);
  ASSERT_FALSE(linked);
  EXPECT_THAT(linked.error().text, HasSubstr("symbolic link"));
  fs::remove(scratch.path / "weights");
  fs::create_directory(scratch.path / "weights");
  ASSERT_EQ(::mkfifo((scratch.path / "weights/w.bin").c_str(), 0600), 0);
  EXPECT_THAT(load_file(model).error().text, HasSubstr("cannot be opened"));
}

TEST_F(OnnxLoad, ExternalDataIsRefusedWhereTheLibraryWouldOpenIt) {
  for (std::string name : {"external_constant", "external_in_branch", "external_sparse"})
    EXPECT_THAT(refusal(name), AllOf(HasSubstr("external data"), Not(HasSubstr("passwd")))) << name;
}

TEST(OnnxExternalData, AFileThatIsCutShortIsNotIntact) {
  Scratch scratch;
  std::string model = scratch.put("model.onnx", "");
  std::string weights = scratch.put("w.bin", std::string(65536, '\1'));
  auto external = ExternalData::open(model, {"w.bin"});
  ASSERT_TRUE(external) << external.error().text;
  const auto& file = external->files().front();
  EXPECT_EQ(static_cast<volatile char*>(file.data)[65535], 1);
  EXPECT_TRUE(external->intact().ok());
  fs::resize_file(weights, 4096);
  EXPECT_EQ(static_cast<volatile char*>(file.data)[65535], 0);
  EXPECT_EQ(external->intact().code, base::Code::kUnavailable);
  EXPECT_THAT(external->intact().text, HasSubstr("'w.bin'"));
}

TEST(OnnxExternalData, LocationsArePlainRelativePaths) {
  for (auto good : {"w", "w.bin", "a/b/c", "model.onnx.data", "...", "é"}) EXPECT_TRUE(is_plain_location(good)) << good;
  for (auto bad : {"", ".", "..", "/w", "w/", "a//b", "a/../b", "./w", "a\\b", "*", "*/_ORT_MEM_ADDR_/*", "a\n"})
    EXPECT_FALSE(is_plain_location(bad)) << bad;
  EXPECT_FALSE(is_plain_location(std::string(1025, 'a')));
}

TEST_F(OnnxLoad, LibrariesOfCustomOperatorsAreRegisteredWithEachSession) {
  auto load_with = [&](const std::string& library) {
    Options options;
    options.session.custom_ops = {library};
    return Runtime(options).load({}, data_file("two.onnx"), base::heap());
  };
  EXPECT_TRUE(load_with(CUSTOM_OPS));
  Scratch scratch;
  for (const std::string& bad : {scratch.put("none.so", "no library"), (scratch.path / "missing.so").string()}) {
    auto engine = load_with(bad);
    ASSERT_FALSE(engine);
    EXPECT_THAT(engine.error().text, AllOf(HasSubstr("engines.onnx.custom_ops"), Not(HasSubstr("/tmp"))));
  }
}

TEST_F(OnnxLoad, SparseAndQuantisedWeightsAreServed) {
  auto sparse = load("sparse_weights");
  auto quantised = load("quantised");
  ASSERT_TRUE(sparse && quantised);
  sched::Batch in = batch(1, {floats("x", {1, 2}, {1, 2})});
  ASSERT_TRUE(sparse->step(in).ok());
  EXPECT_EQ(values(in.outputs[0]), (std::vector<float>{1, 7}));
  in = batch(1, {tensor<int8_t>("x", DType::kInt8, {1, 2}, {2, 4})});
  ASSERT_TRUE(quantised->step(in).ok());
  EXPECT_EQ(values(in.outputs[0]), (std::vector<float>{0, 1}));
}

TEST_F(OnnxLoad, EveryCutOfAFileIsRefused) {
  Scratch scratch;
  std::string whole = slurp(data_file("two.onnx"));
  ASSERT_GT(whole.size(), 100u);
  // Cut inside the last field (opset_import) or before: the file's graph is whole only in the former.
  for (size_t n = 0; n < whole.size(); ++n) {
    auto engine = load_file(scratch.put("model.onnx", whole.substr(0, n)));
    if (engine) ADD_FAILURE() << "cut at " << n << " it loads";
  }
}

TEST_F(OnnxLoad, AFlippedBitLoadsOrIsRefusedAndNeverCrashes) {
  Scratch scratch;
  std::string whole = slurp(data_file("two.onnx"));
  for (size_t n = 0; n < whole.size(); ++n) {
    std::string bad = whole;
    bad[n] = char(bad[n] ^ (1 << (n % 8)));
    auto engine = load_file(scratch.put("model.onnx", bad));
    if (engine) continue;
    EXPECT_FALSE(engine.error().text.empty());
  }
}

TEST_F(OnnxLoad, FilesThatAreNoModelsSayWhy) {
  Scratch scratch;
  auto why = [&](const std::string& path) {
    auto engine = load_file(path);
    return engine ? std::string("it loads") : engine.error().text;
  };
  EXPECT_THAT(why(scratch.put("a", "")), HasSubstr("empty"));
  EXPECT_THAT(why(scratch.put("b", "<html>not found</html>")), HasSubstr("no valid ONNX file"));
  EXPECT_THAT(why(scratch.put("c", std::string(4096, '\0'))), HasSubstr("no valid ONNX file"));
  EXPECT_THAT(why(scratch.put("d", std::string("\x08\x08", 2))), HasSubstr("no graph"));
  EXPECT_THAT(why((scratch.path / "missing").string()), AllOf(HasSubstr("missing"), Not(HasSubstr("/tmp"))));
  fs::create_directory(scratch.path / "1");
  EXPECT_THAT(why((scratch.path / "1").string()), HasSubstr("model.onnx"));
  ASSERT_EQ(mkfifo((scratch.path / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(why((scratch.path / "pipe").string()), HasSubstr("no regular file"));
  EXPECT_THAT(why("/dev/zero"), HasSubstr("no regular file"));
}

TEST_F(OnnxLoad, WhatTheLibraryRefusesIsSaidWithoutItsSourcePaths) {
  EXPECT_THAT(refusal("future"), AllOf(HasSubstr("Unsupported model IR version"), Not(HasSubstr("/onnxruntime"))));
  EXPECT_THAT(refusal("unknown_operator"), HasSubstr("Conjure"));
  EXPECT_THAT(refusal("type_clash"), AllOf(HasSubstr("ONNX Runtime refuses"), Not(HasSubstr(".cc:"))));
}

TEST_F(OnnxLoad, AFolderStandsForItsModelFile) {
  auto engine = load_file(demo_model("simple/1"));
  ASSERT_TRUE(engine.has_value());
  EXPECT_EQ((*engine)->spec().platform, "onnxruntime_onnx");
  EXPECT_EQ((*engine)->spec().inputs[1].name, "INPUT1");
  EXPECT_EQ((*engine)->spec().inputs[1].dtype, DType::kInt32);
}

TEST_F(OnnxLoad, OutputsThatAreNoTensorsAreLeftOutUnlessListed) {
  auto engine = load("sequence_output");
  ASSERT_TRUE(engine);
  ASSERT_EQ(engine->spec().outputs.size(), 1u);
  EXPECT_EQ(engine->spec().outputs[0].name, "y");
  msg::ModelSpec wanted;
  wanted.outputs = {{.name = "z", .labels = {}}};
  EXPECT_THAT(refusal("sequence_output", wanted), HasSubstr("output 'z' of the model file is no tensor"));
}

TEST_F(OnnxLoad, AnInputWithoutAShapeNeedsOneFromTheConfiguration) {
  EXPECT_THAT(refusal("unranked"), HasSubstr("input 'x' has no shape"));
  msg::ModelSpec wanted;
  wanted.inputs = {{.name = "x", .shape = {-1, 3}, .labels = {}}};
  auto engine = load("unranked", wanted);
  ASSERT_TRUE(engine);
  EXPECT_EQ(engine->spec().inputs[0].shape, (msg::Shape{-1, 3}));
}

TEST_F(OnnxLoad, AReplacedFileIsReadAgain) {
  Scratch scratch;
  std::string path = scratch.put("model.onnx", slurp(data_file("two.onnx")));
  auto first = load_file(path);
  fs::remove(path);
  scratch.put("model.onnx", slurp(data_file("scalar.onnx")));
  auto second = load_file(path);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ((*first)->spec().inputs.size(), 2u);
  EXPECT_EQ((*second)->spec().inputs.size(), 1u);
}

TEST_F(OnnxLoad, EveryOptionIsTaken) {
  for (auto [key, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"intra_op_threads", "2"},
                                                                  {"inter_op_threads", "2"},
                                                                  {"graph_optimization", "disable"},
                                                                  {"graph_optimization", "basic"},
                                                                  {"graph_optimization", "extended"},
                                                                  {"memory_arena", "off"},
                                                                  {"enable_mem_arena", "1"},
                                                                  {"intra_op_thread_count", "0"},
                                                                  {"spinning", "on"}}) {
    msg::ModelSpec wanted;
    wanted.parameters[key] = value;
    auto engine = load("two", wanted);
    ASSERT_TRUE(engine) << key;
    auto step = batch(1, {floats("a", {1, 3}, {1, 2, 3}), floats("b", {1, 3}, {1, 2, 3})});
    EXPECT_EQ(engine->step(step), base::Status()) << key << "=" << value;
  }
  msg::ModelSpec wanted;
  wanted.parameters["intra_op_threads"] = "many";
  EXPECT_THAT(refusal("two", wanted), HasSubstr("\"many\": expected a whole number"));
}

TEST(OnnxLibrary, AMissingLibraryIsTheModelsClearFailure) {
  Runtime runtime(Options{.library = "/nowhere/libonnxruntime.so.1", .session = {}});
  auto engine = runtime.load({}, data_file("two.onnx"), base::heap());
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(engine.error().text,
              AllOf(HasSubstr("engines.onnx.library"), HasSubstr("/nowhere/libonnxruntime.so.1: No such file"),
                    Not(HasSubstr("./dev"))));
}

TEST(OnnxLibrary, AFileThatIsNoLibraryIsNamedWithWhatTheLoaderSays) {
  const std::string path = testing::TempDir() + "/libonnxruntime.so.1";
  std::ofstream(path) << "no library";
  EXPECT_THAT(open_library({path}).error().text,
              AllOf(HasSubstr("engines.onnx.library"), HasSubstr(path + ": "), Not(HasSubstr("./dev"))));
  std::filesystem::remove(path);
}

TEST(OnnxLibrary, WhereNoneIsNamedTheSettingsAreAndInACheckoutDev) {
  EXPECT_THAT(open_library({"/nowhere/a.so", "/nowhere/b.so"}).error().text,
              AllOf(HasSubstr("ONNX Runtime was not found: run './dev setup'"), HasSubstr("engines.onnx.library"),
                    HasSubstr("WEIR_ONNXRUNTIME"), Not(HasSubstr("/nowhere"))));
}

TEST(OnnxLibrary, AnotherLibraryIsNotTakenForIt) {
  auto opened = open_library({"libz.so.1"});
  ASSERT_FALSE(opened.has_value());
  EXPECT_THAT(opened.error().text, HasSubstr("OrtGetApiBase"));
}

TEST(OnnxLibrary, ATableWithOtherErrorCallsIsFoundOut) {
  Api api{};
  api.create_status = [](ErrorCode, const char*) -> OrtStatus* { return nullptr; };
  EXPECT_EQ(check_errors(api).code, Code::kFailedPrecondition);
}

TEST(OnnxLibrary, AConfiguredPathStandsAlone) {
  EXPECT_EQ(library_places("/opt/ort/libonnxruntime.so.1").size(), 1u);
  EXPECT_THAT(library_places("/tmp")[0], HasSubstr("/tmp/libonnxruntime.so.1"));
}

TEST(OnnxErrors, SourceLinesAndAddressesGoAndTheRestStays) {
  EXPECT_EQ(
      scrub("/src/onnxruntime/core/a.cc:17 onnxruntime::Model::Model(onnx::ModelProto&&, const X<Y>&) Unsupported "
            "IR version: 99"),
      "Unsupported IR version: 99");
  EXPECT_EQ(scrub("Name:'/model/layers.0/MatMul' at 0x7fffdeadbeef: dims {3,4}"),
            "Name:'/model/layers.0/MatMul' at dims {3,4}");
  EXPECT_EQ(scrub("/a/b.h:3 T& f() [with T = int] bad value"), "bad value");
  EXPECT_EQ(scrub(""), "");
  EXPECT_LE(scrub(std::string(100000, 'x') + " y").size(), 100000u);
}

TEST(OnnxInspect, DepthAndGroupsAndOverlongNumbersAreRefused) {
  auto field = [](int number, const std::string& bytes) {
    std::string out(1, char(number << 3 | 2));
    size_t n = bytes.size();
    for (; n > 0x7f; n >>= 7) out += char((n & 0x7f) | 0x80);
    return out + char(n) + bytes;
  };
  auto nested = [&](int levels) {
    std::string graph = "";
    for (int i = 0; i < levels; ++i) graph = field(1, field(5, field(6, graph)));
    return inspect(field(7, graph));
  };
  EXPECT_TRUE(nested(32).has_value());
  EXPECT_THAT(nested(33).error().text, HasSubstr("nested too deeply"));
  EXPECT_THAT(nested(2000).error().text, HasSubstr("nested too deeply"));
  EXPECT_FALSE(inspect("\x0b\x0c").has_value()) << "a group";
  EXPECT_FALSE(inspect(std::string(11, '\xff')).has_value());
  EXPECT_FALSE(inspect(std::string("\x3a\xff\xff\xff\xff\x0f", 6)).has_value()) << "a length past the end";
  EXPECT_FALSE(inspect(field(7, field(5, field(14, "\x01")))).has_value()) << "a location in another wire type";
  EXPECT_TRUE(inspect(field(7, field(2, "name"))).has_value());
}

// The library keeps a memory plan for each set of shapes.
TEST_F(OnnxLoad, MemoryIsNotPlannedForShapesThatClientsChoose) {
  auto opened = open_library(library_places(""));
  ASSERT_TRUE(opened.has_value());
  auto library = std::make_shared<Library>();
  library->api = (*opened)->api, library->version = (*opened)->version, library->allocator = (*opened)->allocator;
  library->env = Owned<OrtEnv>((*opened)->env.get(), [](OrtEnv*) {});
  static int disabled;
  library->api.disable_memory_pattern = [](OrtSessionOptions*) -> OrtStatus* { return ++disabled, nullptr; };
  auto plans = [&](const std::string& name, Rows rows) {
    disabled = 0;
    const std::string file = slurp(data_file(name + ".onnx"));
    auto summary = inspect(file);
    SessionOptions options;
    options.rows = rows;
    EXPECT_TRUE(summary && Session::make(library, options, file, *summary, {}, "test")) << name;
    return disabled == 0;
  };
  EXPECT_TRUE(plans("two", Rows::kUpToMaxBatch));
  EXPECT_FALSE(plans("two", Rows::kAny)) << "the first dimension is the client's";
  EXPECT_TRUE(plans("fixed_first", Rows::kAny));
  EXPECT_FALSE(plans("dynamic", Rows::kUpToMaxBatch));
  EXPECT_FALSE(plans("unranked", Rows::kUpToMaxBatch)) << "the whole shape is the client's";
}

TEST(OnnxInspect, FreeDimensionsAreNoticed) {
  EXPECT_TRUE(inspect(slurp(data_file("dynamic.onnx")))->varying);
  EXPECT_FALSE(inspect(slurp(data_file("two.onnx")))->varying);
  EXPECT_TRUE(inspect(slurp(data_file("two.onnx")))->free_first);
  EXPECT_FALSE(inspect(slurp(data_file("fixed_first.onnx")))->free_first);
  EXPECT_TRUE(inspect(slurp(data_file("unranked.onnx")))->varying);
  EXPECT_FALSE(inspect(slurp(data_file("unranked_output.onnx")))->varying);
  EXPECT_EQ(inspect(slurp(data_file("unranked_output.onnx")))->unranked, std::vector<std::string>{"y"});
}

}  // namespace
}  // namespace weir::onnx
