// The messages of proto/forward.proto as a client of it has them, by hand. Pure; any thread. What an origin sends is a
// stranger's: a message is refused at its first excess.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::forward {

inline constexpr size_t kMostImageBytes = 32 << 20;  // of one Sequence

bool has_images(const msg::Call& call);
// OK, or INVALID_ARGUMENT: the images of the Call are more than a Sequence has room for.
base::Status images_fit(const msg::Call& call);

// A Sequence, framed, in pieces: all of the Call's and `generated`, which other origins have made of it; as many tokens
// fewer are asked for. Images are the Call's own bytes.
std::vector<base::Bytes> write_sequence(const msg::Call& call, std::span<const uint32_t> generated,
                                        std::string_view model, std::string_view version);

// A SequenceEvent: Token, Done or Outputs with an embedding; a Token's id is in the vocabulary of `text`, its details
// have as many entries as that says. Errors: INTERNAL, saying what is wrong with it.
base::Result<msg::Event> read_event(std::string_view message, const msg::TextSpec& text);

struct DescribedModel {
  bool makes_tokens = false;
  std::string platform, readout_dtype;
  uint32_t max_length = 0, vocabulary = 0, hidden_size = 0;
  bool normalized = false;
  struct Vision {
    uint32_t start_id = 0, pad_id = 0, end_id = 0, pads = 0;
  };
  std::optional<Vision> vision;
  std::vector<uint32_t> eos_ids, readout_layers;
  std::vector<std::string> concepts;
};
// A ModelDescription. Errors: INTERNAL.
base::Result<DescribedModel> read_description(std::string_view message);

}  // namespace weir::forward
