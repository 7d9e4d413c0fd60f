// Loading: a model of tokens between its files and its engine, for llm.cc and device_load.cc.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engines/llm/cpu/transformer.h"
#include "engines/llm/llm.h"
#include "engines/llm/load/gguf_texts.h"
#include "engines/llm/options.h"

namespace weir::device {
class Device;
}

namespace weir::llm {

// A folder and what its small files say, before the weights are touched.
struct Loading {
  msg::ModelSpec wanted;  // and what the files say of it
  Options options;
  Folder folder;
  std::string file;               // config.json, or a GGUF file
  std::optional<GgufTexts> gguf;  // in place of the small files
  Model model{};
  std::shared_ptr<msg::TextSpec> text = std::make_shared<msg::TextSpec>();
  std::optional<uint32_t> eos{};  // the tokenizer's, which ends answers beside those that the configs name

  // With the file's name, where what is wrong is not in the file that the text names.
  base::Status named(const base::Status& why) const {
    return gguf ? base::failure(why.code, "'" + file + "': " + why.text) : why;
  }
};

base::Result<Store> open_store(const Loading& l, const Place& place);
// Also says in the text's description what the encoder needs.
base::Result<std::unique_ptr<VisionEncoder>> read_vision_encoder(Loading& l, const Store& store, WeightFormat form,
                                                                 ThreadTeam& team);
generation::TokenModel text_model(const Loading& l, std::unique_ptr<generation::TokenEngine> engine);

// Loads it into the memory of a device, and of those behind it that options.tensor_parallel wants (device_load.cc).
base::Result<generation::TokenModel> load_on_device(Loading& l, device::Device& device, const Place& place);

}  // namespace weir::llm
