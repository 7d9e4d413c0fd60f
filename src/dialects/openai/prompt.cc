#include "dialects/openai/prompt.h"

#include <algorithm>
#include <map>
#include <optional>

#include "dialects/openai/fill_in.h"
#include "text/completion.h"
#include "text/token_filter.h"

namespace weir::openai {
namespace {

ApiError features(const msg::TextSpec::Vision& vision, const msg::Image& image, size_t number, uint32_t& out) {
  auto count = vision.features(image.data.view(), image.mime);
  if (count) return out = *count, ApiError{};
  return {
      base::failure(count.error().code, "image " + std::to_string(number) + ": " + count.error().text), "messages", {}};
}

// Each start-pad-end of the template becomes start, as many pads as the image has features, end.
ApiError place_images(const msg::TextSpec& spec, std::vector<uint32_t> ids, Sequence& out) {
  const auto& vision = *spec.vision;
  size_t next = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    bool place =
        i + 2 < ids.size() && ids[i] == vision.start_id && ids[i + 1] == vision.pad_id && ids[i + 2] == vision.end_id;
    if (!place) {
      if (ids[i] == vision.pad_id) return refuse("messages", "messages: text that stands for an image, without one");
      out.ids.push_back(ids[i]);
      continue;
    }
    if (next == out.images.size()) return refuse("messages", "messages: text that stands for an image, without one");
    msg::Image& image = out.images[next++];
    uint32_t pads = 0;
    if (ApiError bad = features(vision, image, next, pads); !bad.ok()) return bad;
    if (pads > spec.max_length || out.ids.size() > spec.max_length)
      return exceeds_context(spec, "messages", "the image's " + std::to_string(pads) + " tokens");
    image.start = uint32_t(out.ids.size());
    out.ids.push_back(vision.start_id);
    out.ids.insert(out.ids.end(), pads, vision.pad_id);
    out.ids.push_back(vision.end_id);
    image.end = uint32_t(out.ids.size());
    i += 2;
  }
  if (next == out.images.size()) return {};
  return refuse("messages", "messages: the model's template leaves an image out");
}

// The first tokens that stay where the middle of a prompt goes, as in Ollama's runners.
constexpr uint32_t kFirst = 4;

// `goes`: the part that goes where the text is so long that it is not encoded; nothing: it is refused.
ApiError encode(std::string_view text, std::optional<text::Part> goes, const msg::TextSpec& spec, msg::AddSpecial add,
                std::string_view param, std::vector<uint32_t>& out, const msg::TextBudget& budget) {
  std::string rest;
  if (goes && !text::check_prompt(text, spec.max_length).ok()) {
    text::cut_prompt(rest = text, spec.max_length, *goes, kFirst);
    text = rest;
  }
  auto ids = text::encode_prompt(*spec.codec, text, add, spec.max_length, budget);
  if (ids) return out = *std::move(ids), ApiError{};
  base::Status status = std::move(ids).error();
  status.text = std::string(param) + ": " + status.text;
  return {std::move(status), std::string(param), {}, {0, spec.max_length}};
}

// Texts and ids in turn. What belongs around a text is put around the first piece, if that is a text.
ApiError encode_pieces(const Prompt& prompt, msg::AddSpecial add, const msg::TextSpec& spec, std::string_view param,
                       std::vector<uint32_t>& out, const msg::TextBudget& budget) {
  constexpr size_t kFewPieces = 64;  // for a shard
  if (prompt.pieces.size() > kFewPieces && budget.brief)
    return {base::failure(base::Code::kAborted, "the prompt has many texts"), std::string(param), {}};
  if (auto bad = text::check_prompt(prompt.text, spec.max_length); !bad.ok())
    return {std::move(bad), std::string(param), {}, {0, spec.max_length}};
  std::string_view text = prompt.text;
  auto id = prompt.ids.begin();
  if (prompt.tokens) add = msg::AddSpecial::kNo;
  for (const Prompt::Stretch& piece : prompt.pieces) {
    std::vector<uint32_t> ids;
    if (piece.bytes > 0 || add == msg::AddSpecial::kYes)
      if (ApiError bad = encode(text.substr(0, piece.bytes), std::nullopt, spec, add, param, ids, budget); !bad.ok())
        return bad;
    text.remove_prefix(piece.bytes);
    add = msg::AddSpecial::kNo;
    out.insert(out.end(), ids.begin(), ids.end());
    out.insert(out.end(), id, id + ptrdiff_t(piece.ids));
    id += ptrdiff_t(piece.ids);
  }
  return {};
}

// How many of a prompt's last tokens are kept. Where that is as many as the model takes there is room for those that
// are asked for, or for a few.
std::optional<size_t> kept(const Request& request, const msg::TextSpec& spec) {
  constexpr uint32_t kFew = 16;
  if (!request.cut_to_context) return request.truncate_prompt;
  const uint32_t room = std::max(request.params.max_tokens.value_or(kFew), 1u);
  return spec.max_length > room ? spec.max_length - room : 1;
}

// The part of a prompt that truncate() takes out.
std::optional<text::Part> truncated(const Request& request, const msg::TextSpec& spec) {
  if (!kept(request, spec)) return std::nullopt;
  return request.truncate_end ? text::Part::kEnd : text::Part::kBeginning;
}

// Whether there were more.
bool truncate(const Request& request, const msg::TextSpec& spec, std::vector<uint32_t>& ids) {
  const std::optional<size_t> most = kept(request, spec);
  if (!most || ids.size() <= *most) return false;
  if (request.truncate_end)
    ids.resize(*most);
  else
    ids.erase(ids.begin(), ids.end() - ptrdiff_t(*most));
  return true;
}

// Where another server has the chat, its ids are the bytes of a message to that server: they say nothing to a client,
// and no part of them can go.
ApiError check_elsewhere(Request& request, const msg::TextSpec& spec) {
  if (!spec.remote_chat) return {};
  request.token_ids = false;
  if (request.context.empty()) return {};
  return refuse("context", "context: another server has this model's chats, and gives none; use /api/chat");
}

// The prompt of a chat from one of its messages on. `goes`: of one without images, as encode() takes it.
ApiError make_turns(Request& request, const msg::TextSpec& spec, size_t beginning, std::optional<text::Part> goes,
                    Sequence& out, std::vector<size_t>* beginnings, const msg::TextBudget& budget) {
  const struct Released {
    const msg::TextBudget& budget;
    ~Released() { budget.keep(0); }
  } released{budget};  // when `talk` is gone
  Conversation talk;
  if (ApiError bad = render(request, spec, beginning, talk, budget); !bad.ok()) return bad;
  if (beginnings) *beginnings = std::move(talk.beginnings);
  auto add = request.add_special.value_or(false) ? msg::AddSpecial::kYes : msg::AddSpecial::kNo;
  std::vector<uint32_t> ids;
  if (!talk.images.empty()) goes.reset();
  if (ApiError bad = encode(talk.text, goes, spec, add, "messages", ids, budget); !bad.ok()) return bad;
  const size_t before = std::min<size_t>(request.context.size(), spec.max_length);
  ids.insert(ids.begin(), request.context.end() - ptrdiff_t(before), request.context.end());
  out.images = std::move(talk.images);
  out.echo = std::move(talk.echo);
  if (spec.vision) {
    if ((request.truncate_prompt || request.cut_to_context) && !out.images.empty())
      return refuse("truncate_prompt_tokens", "truncate_prompt_tokens: not with images");
    if (ApiError bad = place_images(spec, std::move(ids), out); !bad.ok()) return bad;
  } else {
    out.ids = std::move(ids);
  }
  return {};
}

// As it stands at the beginning of a text, and behind a space.
ApiError ban_word(const std::string& word, const msg::TextSpec& spec, text::TokenFilter& out) {
  for (const std::string& form : {word, ' ' + word}) {
    auto ids = text::encode_prompt(*spec.codec, form, msg::AddSpecial::kNo, spec.max_length);
    if (!ids) return refuse("bad_words", "bad_words: " + ids.error().text);
    if (!ids->empty() && std::find(out.banned.begin(), out.banned.end(), *ids) == out.banned.end())
      out.banned.push_back(*std::move(ids));
  }
  return {};
}

bool is_too_long(const ApiError& bad, const Sequence& made, const msg::TextSpec& spec, uint32_t room) {
  return bad.ok() ? made.ids.size() + room > spec.max_length : bad.status.code == base::Code::kOutOfRange;
}

// Tokens of the context that are left for the answer to a prompt that is shortened: as many as are asked for, a quarter
// of it at most.
uint32_t room_for_answer(const Request& request, const msg::TextSpec& spec) {
  const uint32_t most = std::max(spec.max_length / 4, 1u);
  return std::clamp(request.params.max_tokens.value_or(most), 1u, most);
}

// As Ollama's runners do: a few of the first tokens stay, and the last ones.
void cut_middle(const Request& request, const msg::TextSpec& spec, std::vector<uint32_t>& ids) {
  const size_t most = spec.max_length - std::min(room_for_answer(request, spec), spec.max_length);
  if (most <= kFirst || ids.size() < spec.max_length) return;
  ids.erase(ids.begin() + kFirst, ids.end() - ptrdiff_t(most - kFirst));
}

// The most of a chat that fits; where not even its last message does, `out` is that. `bad`: what came of all of it.
ApiError shorten(Request& request, const msg::TextSpec& spec, const std::vector<size_t>& beginnings, Sequence& out,
                 const msg::TextBudget& budget, ApiError bad) {
  const uint32_t room = room_for_answer(request, spec);
  size_t low = 0, high = beginnings.size();  // the first that fits is one of these, or none
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    Sequence shorter;
    ApiError why = make_turns(request, spec, beginnings[middle], std::nullopt, shorter, nullptr, budget);
    const bool too_long = is_too_long(why, shorter, spec, room);
    if (!too_long && !why.ok()) return why;
    if (!too_long || middle + 1 == beginnings.size()) out = std::move(shorter), bad = std::move(why);
    too_long ? low = middle + 1 : high = middle;
  }
  if (request.overlong != Overlong::kTextGoes || spec.remote_chat) return bad;
  if (bad.status.code == base::Code::kOutOfRange) {
    out = {};
    const size_t last = beginnings.empty() ? 0 : beginnings.back();
    bad = make_turns(request, spec, last, text::Part::kMiddle, out, nullptr, budget);
  }
  if (bad.ok() && out.images.empty()) cut_middle(request, spec, out.ids);
  return bad;
}

}  // namespace

ApiError make_chat(Request& request, const msg::TextSpec& spec, Sequence& out, const msg::TextBudget& budget) {
  if (ApiError bad = check_elsewhere(request, spec); !bad.ok()) return bad;
  std::vector<size_t> beginnings;
  const auto goes = spec.remote_chat ? std::nullopt : truncated(request, spec);
  ApiError bad = make_turns(request, spec, 0, goes, out, &beginnings, budget);
  if (request.overlong != Overlong::kRefused && is_too_long(bad, out, spec, 1)) {
    // Several prompts are made: no work for a shard.
    if (budget.brief) return {base::failure(base::Code::kAborted, "the chat is long"), "messages", {}};
    bad = shorten(request, spec, beginnings, out, budget, std::move(bad));
  }
  if (bad.ok() && truncate(request, spec, out.ids) && spec.remote_chat)
    return refuse("truncate_prompt_tokens", "truncate_prompt_tokens: not where another server has a model's chats");
  return bad;
}

ApiError check_ids(const msg::TextSpec& spec, std::span<const uint32_t> ids, std::string_view param) {
  for (uint32_t id : ids)
    if (id >= spec.vocabulary)
      return refuse(param, std::string(param) + ": token id " + std::to_string(id) + " is not below " +
                               std::to_string(spec.vocabulary) + ", the size of the vocabulary");
  return {};
}

ApiError exceeds_context(const msg::TextSpec& spec, std::string_view param, std::string what, uint64_t tokens) {
  return {base::failure(base::Code::kOutOfRange, std::string(param) + ": " + std::move(what) +
                                                     " do not fit: this model's maximum context length is " +
                                                     std::to_string(spec.max_length) + " tokens"),
          std::string(param),
          {},
          {tokens, spec.max_length}};
}

ApiError make_filter(Request& request, const msg::TextSpec& spec) {
  if (request.filter || (request.allowed_ids.empty() && request.bad_words.empty())) return {};
  if (ApiError bad = check_ids(spec, request.allowed_ids, "allowed_token_ids"); !bad.ok()) return bad;
  if (!request.bad_words.empty() && !spec.codec)
    return refuse("bad_words", "bad_words: this model has no tokenizer here; use logit_bias");
  auto filter = std::make_shared<text::TokenFilter>();
  filter->allowed = text::token_mask(request.allowed_ids, spec.vocabulary);
  for (const std::string& word : request.bad_words)
    if (ApiError bad = ban_word(word, spec, *filter); !bad.ok()) return bad;
  request.filter = std::move(filter);
  return {};
}

ApiError settle_biases(Request& request, const msg::TextSpec& spec) {
  constexpr float kMost = 100;  // of GenerationParams::logit_bias; minus that much, a token does not come
  std::map<uint64_t, float> sums;
  for (const TextBias& one : request.biases) {
    if (one.id) {
      sums[*one.id] += one.bias;
      continue;
    }
    if (!spec.codec) return refuse("logit_bias", "logit_bias: this model has no tokenizer here; use token ids");
    for (uint32_t id : spec.codec->encode(one.text, msg::AddSpecial::kNo)) sums[id] += one.bias;
  }
  if (sums.size() > marshal::kMaxBiases)
    return refuse("logit_bias", "logit_bias: at most " + std::to_string(marshal::kMaxBiases) + " tokens");
  for (const auto& [id, sum] : sums) {
    if (id >= spec.vocabulary)
      return refuse("logit_bias", "logit_bias: token id " + std::to_string(id) + " is not below " +
                                      std::to_string(spec.vocabulary) + ", the size of the vocabulary");
    request.params.logit_bias.emplace_back(uint32_t(id), std::clamp(sum, -kMost, kMost));
  }
  request.biases.clear();
  return {};
}

ApiError make_prompt(const Prompt& prompt, const Request& request, const msg::TextSpec& spec, std::string_view param,
                     Sequence& out, const msg::TextBudget& budget) {
  const bool cuts = request.overlong == Overlong::kTextGoes && request.suffix.empty();
  const bool mixed = !prompt.pieces.empty();
  const auto add = request.add_special.value_or(true) ? msg::AddSpecial::kYes : msg::AddSpecial::kNo;
  if (prompt.tokens || mixed) {
    if (!request.suffix.empty()) return refuse("suffix", "suffix: needs a prompt of text, not token ids");
    if (mixed && !spec.codec)
      return refuse(param, std::string(param) + ": this model has no tokenizer here; send token ids");
    out.ids = mixed ? std::vector<uint32_t>() : prompt.ids;
    if (mixed)
      if (ApiError bad = encode_pieces(prompt, add, spec, param, out.ids, budget); !bad.ok()) return bad;
  } else if (!spec.codec) {
    return refuse(param, std::string(param) + ": this model has no tokenizer here; send token ids");
  } else if (request.infill.asked) {
    return make_infill(prompt, request, spec, room_for_answer(request, spec), out, budget);
  } else {
    std::string filled;
    if (!request.suffix.empty())
      if (ApiError bad = fill_in(prompt.text, request.suffix, spec, filled); !bad.ok()) return bad;
    const auto goes = cuts ? text::Part::kMiddle : truncated(request, spec);
    if (ApiError bad = encode(request.suffix.empty() ? prompt.text : filled, goes, spec, add, param, out.ids, budget);
        !bad.ok())
      return bad;
  }
  if (cuts) cut_middle(request, spec, out.ids);
  const bool cut = truncate(request, spec, out.ids);
  if (!request.echo) return {};
  auto skip = request.params.skip_special ? msg::SkipSpecial::kYes : msg::SkipSpecial::kNo;
  out.echo = cut || prompt.tokens || mixed ? spec.codec->decode(out.ids, skip) : prompt.text;
  return {};
}

}  // namespace weir::openai
