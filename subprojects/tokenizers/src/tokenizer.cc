#include "tokenizers/tokenizer.h"

#include <utility>

#include "pipeline.h"
#include "utf8.h"

namespace tokenizers {

namespace {

// One encode(): from sections between added tokens down to words.
class Encoding final : private WordSink {
 public:
  Encoding(const Pipeline& parts, std::vector<uint32_t>& out, const std::atomic<bool>* cancelled)
      : parts_(parts), run_(parts.pre_tokenizer, failures_), out_(out), cancelled_(cancelled) {
    work_.cancelled = path_.cancelled = cancelled;
  }

  void text(std::string_view whole) {
    between(parts_.added.raw(), whole, [&](std::string_view section, bool first) { raw_section(section, first); });
  }

 private:
  template <class Section>
  void between(const TokenTrie& trie, std::string_view text, Section&& section) {
    size_t done = 0;
    while (!trie.empty() && !stopped_) {
      auto found = trie.next(text, done);
      if (!found) break;
      if (found->from > done) section(text.substr(done, found->from - done), done == 0);
      out_.push_back(found->id);
      done = found->to;
    }
    if (done < text.size() && !stopped_) section(text.substr(done), done == 0);
  }

  void raw_section(std::string_view section, bool first) {
    std::string storage;
    std::string_view normalized = parts_.normalizer.apply(section, storage, failures_);
    between(parts_.added.normalized(), normalized,
            [&](std::string_view part, bool head) { run_.split(part, first && head, *this); });
  }

  void word(std::string_view word) override {
    if (stopped_ || stop()) return;
    if (parts_.word_piece) return parts_.word_piece->encode(word, out_);
    if (parts_.unigram) return parts_.unigram->encode(word, path_, out_);
    parts_.bpe.encode(word, work_, out_);
  }

  // Looks at the flag with every few words; then no pattern is searched for any more either.
  bool stop() {
    constexpr uint32_t kCheckEvery = 256;
    if (!cancelled_ || ++words_ % kCheckEvery != 0 || !cancelled_->load(std::memory_order_relaxed)) return false;
    failures_.left = 0;
    return stopped_ = true;
  }

  const Pipeline& parts_;
  Pattern::FailureBudget failures_;
  PreTokenizer::Run run_;
  Bpe::Work work_;
  Unigram::Work path_;
  std::vector<uint32_t>& out_;
  const std::atomic<bool>* cancelled_;
  uint32_t words_ = 0;
  bool stopped_ = false;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse(std::string_view tokenizer_json) {
  auto parts = std::make_unique<Parts>();
  if (auto error = read_tokenizer(tokenizer_json, *parts)) return std::move(*error);
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
}

std::vector<uint32_t> Tokenizer::encode(std::string_view text, AddSpecial add,
                                        const std::atomic<bool>* cancelled) const {
  std::vector<uint32_t> out;
  out.reserve(text.size() / 4 + 8);
  bool markers = add == AddSpecial::kYes;
  if (markers) out.insert(out.end(), parts_->post_processor.prefix.begin(), parts_->post_processor.prefix.end());
  Encoding encoding(*parts_, out, cancelled);
  if (utf8_valid(text)) {
    encoding.text(text);
  } else {
    std::string repaired;
    utf8_append_lossy(repaired, text);
    encoding.text(repaired);
  }
  if (markers) out.insert(out.end(), parts_->post_processor.suffix.begin(), parts_->post_processor.suffix.end());
  return out;
}

Pair Tokenizer::join_pair(std::span<const uint32_t> first, std::span<const uint32_t> second, size_t most) const {
  return tokenizers::join_pair(parts_->post_processor.pair, first, second, most);
}

size_t Tokenizer::pair_markers() const {
  size_t out = 0;
  for (const PairPart& part : parts_->post_processor.pair) out += part.ids.size();
  return out;
}

std::string Tokenizer::decode(std::span<const uint32_t> ids, SkipSpecial skip) const {
  std::string raw;
  bool first = !parts_->decoder.continuing.empty();
  for (uint32_t id : ids) {
    if (skip == SkipSpecial::kYes && special(id)) continue;
    if (std::exchange(first, false))
      raw += parts_->decoder.first(piece(id));
    else
      raw += bytes(id);
  }
  size_t strip = 0;
  while (strip < parts_->decoder.strip_start && strip < raw.size() && raw[strip] == parts_->decoder.strip) ++strip;
  std::string out;
  out.reserve(raw.size());
  utf8_append_lossy(out, std::string_view(raw).substr(strip));
  return out;
}

uint32_t Tokenizer::size() const { return uint32_t(parts_->spelled.size()); }
std::string_view Tokenizer::piece(uint32_t id) const { return id < size() ? parts_->spelled[id] : std::string_view{}; }
std::string_view Tokenizer::bytes(uint32_t id) const { return id < size() ? parts_->bytes[id] : std::string_view{}; }
std::optional<uint32_t> Tokenizer::id(std::string_view piece) const { return parts_->ids.get(piece); }
bool Tokenizer::special(uint32_t id) const { return id < size() && parts_->special[id]; }

}  // namespace tokenizers
