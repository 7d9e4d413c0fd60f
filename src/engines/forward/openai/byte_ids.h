// ByteIds: the TextCodec of a model whose tokenizer its origin alone has. A text becomes its bytes, as ids from kBytes
// on; a pair of texts has kPairMark between them. Ids below kBytes are the origin's own tokens, which a client may have
// from elsewhere. Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "msg/text_codec.h"

namespace weir::forward::byte_ids {

inline constexpr uint32_t kBytes = 1 << 24, kPairMark = kBytes + 256, kVocabulary = kPairMark + 1;

constexpr bool is_byte(uint32_t id) { return id >= kBytes && id < kPairMark; }

std::shared_ptr<const msg::TextCodec> make_codec();

}  // namespace weir::forward::byte_ids
