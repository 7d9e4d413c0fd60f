// From a flattened node to tokens: which leaves make which turn of a conversation, the model's chat template, images in
// their places, and the tokens of what the session has said before.
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
    std::string text;  // or, where `image` is not empty, its mimetype
    base::Bytes image;
  };
  std::vector<Part> parts;
};

// Reads a node as a conversation. Leaves of the types of is_text() are text; image/* an image for models that see them;
// `application/x-protobuf; type=EndOfTurn` ends a turn. A leaf that the model cannot see becomes a line of text,
// "[video/mp4, 1234 bytes]", and nothing when it has no bytes. A turn also ends where the role changes:
// ChunkMetadata.role, "user" where there is none. A role is any text, and the model's chat template says what it does
// with it. The usual ones have lower case there, and "model" is another word for "assistant". Text and images are
// limited by what a context can hold, so that many actions on one large node do not multiply it.
class Conversation {
 public:
  // Take what Cursor::next() gave: a chunk, the end of its leaf. Errors: INVALID_ARGUMENT (a role, more than the model
  // can take), naming the node.
  base::Status chunk(const Node& leaf, const base::Bytes& data, const msg::TextSpec& spec);
  base::Status leaf_end(const msg::TextSpec& spec);
  const std::vector<Turn>& turns() const { return turns_; }
  std::vector<Turn> take() {
    joined_bytes_ = 0;
    return std::exchange(turns_, {});
  }
  // How long it takes to make a prompt of it, as bytes of text: turns and parts without text are work, too.
  uint64_t work() const {
    constexpr uint64_t kPerPart = 64;
    return text_bytes_ + image_bytes_ + kPerPart * (parts_ + turns_.size());
  }
  // True while the bytes of an image's only chunk are kept where the node has them.
  bool in_place() const { return !image_.empty(); }
  // The memory that it takes beside the images that are kept in their nodes.
  uint64_t size() const;

 private:
  enum class Kind : uint8_t { kNone, kText, kImage, kEndOfTurn, kUnseen };
  base::Status open(const Node& leaf, const msg::TextSpec& spec);
  base::Status image(const base::Bytes& data);
  base::Status text(std::string_view more, const msg::TextSpec& spec);
  Turn& turn();

  std::vector<Turn> turns_;
  const Node* leaf_ = nullptr;
  Kind kind_ = Kind::kNone;
  std::string role_, mimetype_;
  base::Bytes image_;   // as far as its chunks have come, if that is one
  std::string joined_;  // else
  uint64_t unseen_bytes_ = 0, text_bytes_ = 0, image_bytes_ = 0;
  uint64_t joined_bytes_ = 0, parts_ = 0;
  bool ended_ = false;  // the last turn takes no more
};

struct Prompt {
  std::string text;  // what the ids spell, images aside
  std::vector<uint32_t> ids;
  std::vector<msg::Image> images;
};

// True when content of that type is text to a model: text/*, application/x-latex, or none said.
bool is_text(std::string_view base_type);

// Text of so many bytes cannot fit into the context, whatever the tokens.
uint64_t most_text(const msg::TextSpec& spec);

enum class Templating : uint8_t { kChat, kRaw };

// Errors: INVALID_ARGUMENT (the template's own words, an image that cannot be read, a prompt that fills the context);
// ABORTED where the budget is too small, CANCELLED.
base::Result<Prompt> make_prompt(const std::shared_ptr<const msg::TextSpec>& spec, const std::vector<Turn>& turns,
                                 Templating templating, const Transcripts& transcripts, const msg::TextBudget& budget);

}  // namespace weir::evergreen
