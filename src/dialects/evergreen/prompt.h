// From a flattened node to tokens: leaves become the turns of a conversation, the chat template makes a prompt of the
// turns, and images and text become token ids. Text that repeats a transcript of the session keeps its token ids.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "dialects/evergreen/graph/node.h"
#include "dialects/evergreen/transcripts.h"
#include "msg/generate.h"
#include "msg/spec.h"
#include "msg/text_codec.h"

namespace weir::evergreen {

struct Turn {
  std::string role;
  struct Part {
    std::string text;  // of an image: its mimetype
    // Empty: the part is text.
    base::Bytes image;
    std::string leaf;  // of an image: its id
  };
  std::vector<Part> parts;
};

// Reads a node as a conversation. A leaf is text if is_text() is true of its type, and an image if its type is image/*
// and the model takes images. Any other leaf becomes a placeholder in the text, "[video/mp4, 1234 bytes]", or nothing
// if it is empty: the specification asks a model about a video. A turn ends at a leaf of type
// `application/x-protobuf; type=EndOfTurn`, and where ChunkMetadata.role changes. A leaf without a role has the role
// "user". The chat template gets the role as it is, but user, assistant, system and tool in lower case, and "assistant"
// for "model". Text and images are limited by what a context can hold, so that many actions that read one large node do
// not each keep all of it.
class Conversation {
 public:
  // For Cursor::next(): a chunk of a leaf, and the leaf's end. Errors, which name the node: INVALID_ARGUMENT (the role
  // is too long; the charset; more text or images than the model can take).
  base::Status add_chunk(const Node& leaf, const base::Bytes& data, const msg::TextSpec& spec);
  base::Status end_leaf(const msg::TextSpec& spec);
  const std::vector<Turn>& turns() const { return turns_; }
  std::vector<Turn> take() {
    joined_bytes_ = 0;
    return std::exchange(turns_, {});
  }
  // The work of making a prompt, in bytes of text. Each turn and each part counts as 64 bytes.
  uint64_t work() const {
    constexpr uint64_t kPerPart = 64;
    return text_bytes_ + image_bytes_ + kPerPart * (parts_ + turns_.size());
  }
  // True while an image of one chunk shares its bytes with the node.
  bool in_place() const { return !image_.empty(); }
  // The memory that this takes, in bytes, without images that share their bytes with a node.
  uint64_t size() const;

 private:
  enum class Kind : uint8_t { kNone, kText, kImage, kEndOfTurn, kUnsupported };
  base::Status open_leaf(const Node& leaf, const msg::TextSpec& spec);
  base::Status add_image(const base::Bytes& data);
  base::Status add_text(std::string_view more, const msg::TextSpec& spec);
  Turn& current_turn();

  std::vector<Turn> turns_;
  const Node* leaf_ = nullptr;
  Kind kind_ = Kind::kNone;
  std::string role_, mimetype_, id_;
  base::Bytes image_;   // the image so far, while it is a single chunk
  std::string joined_;  // the image so far, once it is several chunks
  uint64_t unsupported_bytes_ = 0, text_bytes_ = 0, image_bytes_ = 0;
  uint64_t joined_bytes_ = 0, parts_ = 0;  // joined_bytes_: also of the ids of images
  bool ended_ = false;                     // an end of turn was read: the next part begins a new turn
};

struct Prompt {
  std::string text;  // the text of the ids, without images
  std::vector<uint32_t> ids;
  std::vector<msg::Image> images;
};

// True if a model reads content of that type as text: text/*, application/json, xml, yaml and x-latex, those of
// application/ that end with +json, +xml or +yaml, or no type at all.
bool is_text(std::string_view base_type);
// The charset that a text's type names must have ASCII as UTF-8 has it: such a text is read right, or has bytes that
// are no UTF-8. Errors: INVALID_ARGUMENT (UTF-16).
base::Status check_charset(std::string_view mimetype);

// An upper bound of the bytes of text that fit into the model's context, whatever its tokens.
uint64_t max_prompt_bytes(const msg::TextSpec& spec);

enum class Templating : uint8_t { kChat, kRaw };

// kChat renders the turns with the model's chat template if it has one; kRaw joins their texts. Errors:
// INVALID_ARGUMENT (the template's own message, an image that cannot be read, a prompt that is empty or fills the
// context); ABORTED if `budget` is too small; CANCELLED.
base::Result<Prompt> make_prompt(const std::shared_ptr<const msg::TextSpec>& spec, const std::vector<Turn>& turns,
                                 Templating templating, const TranscriptList& transcripts,
                                 const msg::TextBudget& budget);

}  // namespace weir::evergreen
