// A model's folder as a whole: the demo model, with other words in its small files.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engines/llm/llm.h"
#include "engines/llm/support.h"

namespace weir::llm {
namespace {

using nlohmann::json;

class DemoFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(path);
    for (const auto& entry : std::filesystem::directory_iterator(WEIR_ROOT "/conf/models/chat/1"))
      std::filesystem::copy_file(entry.path(), path / entry.path().filename(),
                                 std::filesystem::copy_options::overwrite_existing);
  }
  void TearDown() override { std::filesystem::remove_all(path); }
  void change(const char* file, const json& members) {
    json whole = json::parse(slurp(path / file));
    whole.update(members);
    std::ofstream(path / file) << whole;
  }
  std::shared_ptr<const msg::TextSpec> text(std::map<std::string, std::string> parameters = {}) {
    msg::ModelSpec wanted;
    wanted.name = "chat";
    wanted.parameters = std::move(parameters);
    wanted.parameters.emplace("device", "cpu");
    auto loaded = load(wanted, path / "config.json");
    EXPECT_TRUE(bool(loaded)) << loaded.error().text;
    return loaded ? std::get<generation::TokenModel>(*loaded).spec.text : std::make_shared<msg::TextSpec>();
  }
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("weir_llm_load_" + std::to_string(getpid()));
};

constexpr uint32_t kEndOfText = 3066, kImEnd = 3068;

TEST_F(DemoFolder, TheTokenizersEosEndsAnswersBesideThoseOfTheConfigs) {
  change("config.json", {{"eos_token_id", kEndOfText}});
  change("generation_config.json", {{"eos_token_id", kEndOfText}});
  EXPECT_EQ(text()->eos_ids, (std::vector<uint32_t>{kEndOfText, kImEnd}));
  change("generation_config.json", {{"eos_token_id", {kImEnd, kEndOfText}}});
  EXPECT_EQ(text()->eos_ids, (std::vector<uint32_t>{kImEnd, kEndOfText})) << "once";
  change("tokenizer_config.json", {{"eos_token", nullptr}});
  change("generation_config.json", {{"eos_token_id", kEndOfText}});
  EXPECT_EQ(text()->eos_ids, (std::vector<uint32_t>{kEndOfText}));
}

TEST_F(DemoFolder, RopeScalingLengthensTheContext) {
  EXPECT_EQ(text()->max_length, 2048u);
  change("config.json",
         {{"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 2048}}}});
  EXPECT_EQ(text()->max_length, 8192u);
  EXPECT_EQ(text({{"max_length", "5000"}})->max_length, 5000u);
  EXPECT_EQ(text({{"max_length", "9000"}})->max_length, 8192u);
}

}  // namespace
}  // namespace weir::llm
