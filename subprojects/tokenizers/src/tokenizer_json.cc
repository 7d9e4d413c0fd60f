// The loader of a Hugging Face tokenizer.json:
//   {"added_tokens": [{"id", "content", …}], "normalizer", "pre_tokenizer", "post_processor", "decoder",
//    "model": {"type": "BPE", "vocab": {piece: id}, "merges": ["left right" | [left, right]], …} |
//             {"type": "WordPiece", "vocab": {piece: id}, "unk_token", "continuing_subword_prefix", …} |
//             {"type": "Unigram", "vocab": [[piece, score], …], "unk_id", "byte_fallback"}}
// `truncation` and `padding` belong to the training script and are ignored. The file is not trusted: every number is
// checked before it sizes or indexes anything.
#include <algorithm>

#include "byte_level.h"
#include "pipeline_json.h"

namespace tokenizers {

namespace {

constexpr uint64_t kMaxIds = 1u << 22;
constexpr uint64_t kMaxWord = 1000;  // characters
constexpr size_t kMaxFile = 256u << 20;
constexpr size_t kMaxPiece = 4096;
constexpr size_t kMaxDecoded = 1u << 30;     // bytes of all pieces' texts
constexpr size_t kMaxAddedBytes = 4u << 20;  // of all added tokens: each byte may be a node of a trie

using Object = simdjson::dom::object;

class Loader {
 public:
  Loader(JsonValue root, Pipeline& parts) : file_(root, "the file", errors_), parts_(parts) {}

  std::optional<Error> run() {
    read_model();
    if (errors_.none()) read_steps();
    if (errors_.none()) read_vocabulary();
    if (errors_.none()) read_added_tokens();
    if (errors_.none()) list_pieces();
    if (errors_.none()) read_spelling();
    if (errors_.none()) check_markers();
    if (errors_.none() && kind_ == Kind::kBpe) parts_.bpe.finish();
    return errors_.first();
  }

 private:
  enum class Kind : uint8_t { kBpe, kWordPiece, kUnigram };

  void read_model() {
    auto value = file_.find("model");
    if (!value) return errors_.add("model", " is missing");
    model_.emplace(*value, "model", errors_);
    auto vocab = model_->find("vocab");
    const bool scored = vocab && vocab->is_array();  // files of old that do not say their type
    std::string_view type = model_->text("type").value_or(scored ? "Unigram" : "BPE");
    kind_ = type == "WordPiece" ? Kind::kWordPiece : type == "Unigram" ? Kind::kUnigram : Kind::kBpe;
    if (kind_ != Kind::kBpe) return;
    if (type != "BPE")
      return model_->fail(".type '" + std::string(type.substr(0, 100)) +
                          "' is not supported: BPE, WordPiece and Unigram are");
    for (std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!model_->text(key).value_or("").empty()) model_->fail(key, " is not supported");
    double dropout = 0;
    if (auto given = model_->find("dropout"); given && (given->get(dropout) || dropout != 0))
      model_->fail("dropout", " is not supported");
  }

  void read_steps() {
    if (auto value = file_.find("normalizer"))
      read_normalizer(JsonFields(*value, "normalizer", errors_), parts_.normalizer);
    if (auto value = file_.find("pre_tokenizer"))
      byte_level_ = read_pre_tokenizer(JsonFields(*value, "pre_tokenizer", errors_), parts_.pre_tokenizer);
    if (auto value = file_.find("decoder")) {
      read_decoder(JsonFields(*value, "decoder", errors_), parts_.decoder);
    } else {
      if (!byte_level_ && kind_ != Kind::kWordPiece) errors_.add("decoder", " is missing");
      parts_.decoder.byte_level = byte_level_;
      if (kind_ == Kind::kWordPiece) parts_.decoder.continuing = "##";
    }
    if (kind_ != Kind::kBpe && (byte_level_ || parts_.decoder.byte_level))
      errors_.add("model", ": only BPE spells bytes");
    if (auto value = file_.find("post_processor"))
      read_post_processor(JsonFields(*value, "post_processor", errors_), parts_.post_processor);
  }

  void read_scored_vocabulary() {
    auto vocab = model_->find("vocab");
    simdjson::dom::array list, pair;
    if (!vocab || vocab->get(list)) return model_->fail("vocab", " is not a list");
    for (JsonValue entry : list) {
      std::string_view piece;
      double score = 0;
      auto fail = [&](std::string_view what) { model_->fail("vocab[" + std::to_string(pieces_.size()) + "]", what); };
      if (entry.get(pair) || pair.size() != 2 || pair.at(0).get(piece) || pair.at(1).get(score))
        return fail(" is not a piece with its score");
      if (piece.size() > Unigram::kMaxPiece) return fail(" has more than 256 bytes");
      if (pieces_.size() == kMaxIds) return model_->fail("vocab", " has more than 4194304 pieces");
      pieces_.emplace_back(piece, uint32_t(pieces_.size()));
      scores_.push_back(score);
      bytes_ += piece.size();
    }
    size_ = pieces_.size();
    if (pieces_.empty()) model_->fail("vocab", " is empty");
  }

  void read_vocabulary() {
    if (kind_ == Kind::kUnigram) return read_scored_vocabulary();
    auto vocab = model_->find("vocab");
    Object object;
    if (!vocab || vocab->get(object)) return model_->fail("vocab", " is not an object");
    for (auto [piece, id] : object) {
      uint64_t number = 0;
      if (id.get(number) || number >= kMaxIds)
        return model_->fail("vocab", " gives '" + std::string(piece.substr(0, 100)) + "' no id below 4194304");
      if (piece.size() > kMaxPiece) return model_->fail("vocab", " has a piece of more than 4096 bytes");
      pieces_.emplace_back(piece, uint32_t(number));
      bytes_ += piece.size();
      if (number >= size_) size_ = number + 1;
    }
    if (pieces_.empty()) model_->fail("vocab", " is empty");
  }

  void read_added_tokens() {
    file_.each("added_tokens", [&](const JsonFields& fields) {
      AddedToken token;
      auto content = fields.text("content");
      auto id = fields.number("id");
      if (!content || content->empty() || content->size() > AddedVocabulary::kMaxContent)
        return fields.fail(".content is not a string of 1 to 512 bytes");
      if (!id || *id >= kMaxIds) return fields.fail(".id is not an id below 4194304");
      token.id = uint32_t(*id);
      token.content = *content;
      token.special = fields.flag("special", false);
      token.normalized = fields.flag("normalized", !token.special);
      token.single_word = fields.flag("single_word", false);
      token.lstrip = fields.flag("lstrip", false);
      token.rstrip = fields.flag("rstrip", false);
      if (*id >= size_) size_ = *id + 1;
      bytes_ += content->size(), added_bytes_ += content->size();
      added_.push_back(std::move(token));
    });
    if (added_.size() > (1u << 16)) errors_.add("added_tokens", " are too many");
    if (added_bytes_ > kMaxAddedBytes) errors_.add("added_tokens", " have more than 4 MiB together");
  }

  void list_pieces() {
    std::vector<std::string_view> spelled(size_);
    std::vector<bool> literal(size_);
    parts_.special.assign(size_, false);
    parts_.ids.reserve(pieces_.size() + added_.size(), bytes_);
    for (auto [piece, id] : pieces_) spelled[id] = piece, parts_.ids.put(piece, id);
    for (const auto& token : added_) {
      spelled[token.id] = token.content;
      literal[token.id] = parts_.decoder.byte_level;
      parts_.special[token.id] = token.special;
      parts_.ids.put(token.content, token.id);
      parts_.added.add(token, parts_.normalizer);
    }
    parts_.spelled.reserve(size_, bytes_);
    parts_.bytes.reserve(size_, bytes_);
    Pattern::FailureBudget failures;
    size_t made = 0;
    for (size_t id = 0; id < size_; ++id) {
      std::string bytes = literal[id] ? std::string(spelled[id]) : parts_.decoder.bytes(spelled[id], failures);
      if ((made += bytes.size()) > std::min(max_normalized(bytes_), kMaxDecoded))
        return errors_.add("decoder", " makes too much of the vocabulary");
      parts_.spelled.push(spelled[id]);
      parts_.bytes.push(bytes);
    }
  }

  BpeOptions options() {
    BpeOptions options;
    options.alphabet = byte_level_ ? BpeAlphabet::kBytes : BpeAlphabet::kCharacters;
    options.ignore_merges = model_->flag("ignore_merges", false);
    options.byte_fallback = model_->flag("byte_fallback", false);
    options.fuse_unk = model_->flag("fuse_unk", false);
    if (auto unk = model_->text("unk_token")) {
      auto id = parts_.ids.get(*unk);
      if (!id) model_->fail("unk_token", " is not in the vocabulary");
      options.unk = id.value_or(kNoId);
    }
    return options;
  }

  void read_spelling() {
    switch (kind_) {
      case Kind::kBpe: return read_merges();
      case Kind::kWordPiece: return read_word_pieces();
      case Kind::kUnigram: return read_scores();
    }
  }

  void read_scores() {
    auto unk = model_->number("unk_id");
    if (!unk || *unk >= pieces_.size()) return model_->fail("unk_id", " is not the id of a piece");
    const bool bytes = model_->flag("byte_fallback", false);
    Unigram& model =
        parts_.unigram.emplace(uint32_t(*unk), bytes ? Unigram::ByteFallback::kYes : Unigram::ByteFallback::kNo);
    model.reserve(pieces_.size(), bytes_);
    for (auto [piece, id] : pieces_) model.add(piece, scores_[id]);
    if (!model.finish()) model_->fail("vocab", " is too large");
  }

  void read_word_pieces() {
    std::string prefix(model_->text("continuing_subword_prefix").value_or("##"));
    uint64_t most = model_->number("max_input_chars_per_word").value_or(100);
    auto unk = parts_.ids.get(model_->text("unk_token").value_or("[UNK]"));
    if (prefix.empty()) return model_->fail("continuing_subword_prefix", " is empty");
    if (most == 0 || most > kMaxWord) return model_->fail("max_input_chars_per_word", " is not from 1 to 1000");
    if (!unk) return model_->fail("unk_token", " is not in the vocabulary");
    WordPiece& pieces = parts_.word_piece.emplace(std::move(prefix), *unk, uint32_t(most));
    pieces.reserve(pieces_.size(), bytes_);
    for (auto [piece, id] : pieces_) pieces.add(piece, id);
  }

  void read_merges() {
    simdjson::dom::array merges;
    auto value = model_->find("merges");
    if (!value || value->get(merges)) return model_->fail("merges", " is not a list");
    Bpe& bpe = parts_.bpe;
    bpe = Bpe(options());
    // dom::array::size() saturates at 2^24 - 1; so does what can be merged.
    size_t count = merges.size();
    if (count >= kMaxIds) return model_->fail("merges", " are too many");
    bpe.reserve(pieces_.size(), bytes_, count);
    for (auto [piece, id] : pieces_) {
      if (!byte_level_)
        bpe.add_piece(piece, id);
      else if (auto bytes = bytes_of_spelling(piece))
        bpe.add_piece(*bytes, id);
      if (auto byte = byte_of_piece(piece); byte && !byte_level_) bpe.add_byte_piece(*byte, id);
    }
    size_t number = 0;
    for (JsonValue merge : merges) {
      add_merge(merge, number++);
      if (!errors_.none()) return;
    }
  }

  void add_merge(JsonValue merge, size_t number) {
    auto fail = [&](std::string_view what) { model_->fail("merges[" + std::to_string(number) + "]", what); };
    std::string_view left, right, line;
    simdjson::dom::array pair;
    if (!merge.get(line)) {
      if (number == 0 && line.starts_with("#version")) return;
      size_t space = line.find(' ');
      if (space == line.npos || line.find(' ', space + 1) != line.npos)
        return fail(" is not two pieces with a space between");
      left = line.substr(0, space), right = line.substr(space + 1);
    } else if (merge.get(pair) || pair.size() != 2 || pair.at(0).get(left) || pair.at(1).get(right)) {
      return fail(" is neither a string nor a pair of strings");
    }
    if (left.empty() || right.empty()) return fail(" has an empty piece");
    joined_.assign(left).append(right);
    auto a = parts_.ids.get(left), b = parts_.ids.get(right), to = parts_.ids.get(joined_);
    if (!a || !b || !to) return fail(" names a piece that is not in the vocabulary");
    parts_.bpe.add_merge(*a, *b, *to, left, joined_);
  }

  void check_markers() {
    for (const auto* ids : {&parts_.post_processor.prefix, &parts_.post_processor.suffix})
      for (uint32_t id : *ids)
        if (id >= size_) errors_.add("post_processor", " adds an id that is not in the vocabulary");
    for (const PairPart& part : parts_.post_processor.pair)
      for (uint32_t id : part.ids)
        if (id >= size_) errors_.add("post_processor", ".pair adds an id that is not in the vocabulary");
  }

  FirstError errors_;
  JsonFields file_;
  Pipeline& parts_;
  std::optional<JsonFields> model_;
  std::vector<std::pair<std::string_view, uint32_t>> pieces_;
  std::vector<double> scores_;  // of Unigram's
  std::vector<AddedToken> added_;
  std::string joined_;
  size_t size_ = 0, bytes_ = 0, added_bytes_ = 0;
  bool byte_level_ = false;
  Kind kind_ = Kind::kBpe;
};

}  // namespace

std::optional<Error> read_tokenizer(std::string_view json, Pipeline& parts) {
  if (json.size() > kMaxFile) return Error{"tokenizer.json: is larger than 256 MiB"};
  simdjson::dom::parser parser;
  JsonValue root;
  if (auto error = parser.parse(json.data(), json.size(), true).get(root))
    return Error{std::string("tokenizer.json: is not JSON: ") + simdjson::error_message(error)};
  return Loader(root, parts).run();
}

}  // namespace tokenizers
