// Clients of Ollama are told of models what their files say.
#include <cmath>
#include <memory>

#include "bench.h"
#include "msg/model_details.h"

namespace weir::openai {
namespace {

class OllamaModels : public OpenaiBench {
 protected:
  Opened ask(std::string path, const Json& body) { return open("POST", "/api/" + path, body.dump()); }
};

TEST_F(OllamaModels, FilesTellWhatAModelIs) {
  auto details = std::make_shared<msg::ModelDetails>();
  details->format = "gguf", details->family = "llama", details->quantization = "Q4_K_M";
  details->parameters = 8'030'261'248, details->bytes = 4'920'753'328, details->modified_ms = 1'700'000'000'123;
  details->digest = std::string(64, 'd');
  details->facts = {{"llama.context_length", int64_t(131072)},
                    {"general.quantized", true},
                    {"tokenizer.ggml.tokens", {}},
                    {"llama.rope.freq_base", 500000.5},
                    {"x", INFINITY},
                    {"y", std::string("\"")}};
  auto spec = support::tools_spec("l", "");
  spec.details = details, spec.parent = "m";
  models.add(spec);
  const Json said = Json::parse(R"({"parent_model":"m","format":"gguf","family":"llama","families":["llama"],
                                    "parameter_size":"8.0B","quantization_level":"Q4_K_M"})");
  const Json tags = json(open("GET", "/api/tags"))["models"][0], shown = json(ask("show", {{"model", "l"}}));
  EXPECT_EQ(tags["details"], said);
  EXPECT_EQ(tags["size"], 4'920'753'328);
  EXPECT_EQ(tags["modified_at"], shown["modified_at"]);
  EXPECT_EQ(tags["modified_at"].get<std::string>().substr(0, 19), "2023-11-14T22:13:20");
  EXPECT_NE(tags["digest"], std::string(64, 'd')) << "an adapter has the files of its model, and is another";
  EXPECT_EQ(shown["details"], said);
  const Json& info = shown["model_info"];
  EXPECT_EQ(info["general.architecture"], "llama");
  EXPECT_EQ(info["llama.context_length"], 2000) << "the one that is served";
  EXPECT_EQ(info["llama.rope.freq_base"], 500000.5);
  EXPECT_EQ(info["tokenizer.ggml.tokens"], Json::array());
  EXPECT_EQ(info["general.quantized"], true);
  EXPECT_TRUE(info["x"].is_null());
}

// As its Go client says `ShowRequest{Name: …}` and `{Model: …}`.
TEST_F(OllamaModels, AnEmptyMemberNamesNoModel) {
  models.add(support::tools_spec("l", ""));
  EXPECT_TRUE(json(ask("show", {{"model", ""}, {"name", "l"}})).contains("model_info"));
  EXPECT_TRUE(json(ask("show", {{"model", "l"}, {"name", ""}})).contains("model_info"));
  EXPECT_EQ(json(ask("show", {{"model", ""}, {"name", ""}}))["error"], "model: it is missing");
}

}  // namespace
}  // namespace weir::openai
